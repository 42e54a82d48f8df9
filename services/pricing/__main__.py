"""`python -m services.pricing`: job facts and shutters in, charges out."""

from services.pricing.app import main
from shared.process.environment import run

run(main)
