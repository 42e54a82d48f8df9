"""`python -m services.placement`: what the region knows in, decisions out."""

from services.placement.app import main
from shared.process.environment import run

run(main)
