"""Which run times backfill expects of jobs, where a site chooses it."""

from enum import StrEnum
from typing import Final

# How much longer jobs may wait, as a share, since predictions let others pass them.
PASSING_SHARE: Final = 0.05


class Runtimes(StrEnum):
    """Expectations of backfilling: as users ask, or as their last jobs ran."""

    REQUESTED = "requested"
    PREDICTED = "predicted"
