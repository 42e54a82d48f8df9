"""`python -m services.planner`: placement's inputs in, plans out."""

from services.planner.app import main
from shared.runtime.environment import run

run(main)
