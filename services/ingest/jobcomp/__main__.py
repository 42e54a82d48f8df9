"""`python -m services.ingest.jobcomp`: Slurm's messages in, facts about jobs out."""

from services.ingest.jobcomp.app import main
from shared.runtime.environment import run

run(main)
