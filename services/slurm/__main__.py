"""`python -m services.slurm`: jobs of a Slurm and decisions in, facts and orders to Slurm out."""

from services.slurm.app import main
from shared.process.environment import run

run(main)
