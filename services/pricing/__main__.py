"""`python -m services.pricing`: job facts and shutters in, charges out."""

from services.pricing.app import main
from shared.runtime.environment import run

run(main)
