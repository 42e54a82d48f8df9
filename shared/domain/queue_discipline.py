"""What may pass an entry that waits, where a site chooses it."""

from enum import StrEnum


class QueueDiscipline(StrEnum):
    """EASY reserves for the first entry that waits alone, Slurm's backfill for all of the next day,
    every so often."""

    EASY = "easy"
    SLURM = "slurm"
