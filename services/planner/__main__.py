"""`python -m services.planner`: placement's inputs in, plans out."""

from services.planner.app import main
from shared.process.environment import run

run(main)
