"""`python -m services.kueue`: Workloads and decisions in, checks and facts out."""

from services.kueue.app import main
from shared.process.environment import run

run(main)
