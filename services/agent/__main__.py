"""`python -m services.agent`: running jobs in, shutters out."""

from services.agent.app import main
from shared.runtime.environment import run

run(main)
