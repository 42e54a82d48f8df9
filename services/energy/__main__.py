"""`python -m services.energy`: signatures in, coefficients and AppDB rows out."""

from services.energy.app import main
from shared.process.environment import run

run(main)
