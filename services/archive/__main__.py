"""`python -m services.archive`: topics to Parquet files."""

from services.archive.app import main
from shared.process.environment import run

run(main)
