"""`python -m services.ingest.jobcomp`: Slurm's messages in, facts about jobs out."""

from services.ingest.jobcomp.app import main
from shared.process.environment import run

run(main)
