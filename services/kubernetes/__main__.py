"""`python -m services.kubernetes`: Jobs and decisions in, facts about Jobs out."""

from services.kubernetes.app import main
from shared.process.environment import run

run(main)
