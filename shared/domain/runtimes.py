"""Which run times backfill expects of jobs, where a site chooses it."""

from enum import StrEnum


class Runtimes(StrEnum):
    """Expectations of backfilling: as users ask, or as their last jobs ran."""

    REQUESTED = "requested"
    PREDICTED = "predicted"
