"""Which run times backfill expects of jobs, where a site chooses it."""

from enum import StrEnum
from typing import Final

# Of what the first that waits leaves of a cluster, what may pass it by predictions.
PASSING_SHARE: Final = 0.15


class Runtimes(StrEnum):
    """Expectations of backfilling: as users ask, or as their last jobs ran."""

    REQUESTED = "requested"
    PREDICTED = "predicted"
