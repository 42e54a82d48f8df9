"""`python -m services.energy`: signatures in, coefficients and AppDB rows out."""

from services.energy.app import main
from shared.runtime.environment import run

run(main)
