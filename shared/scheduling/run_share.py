"""The part of their limits that jobs run for, by which the ends of running jobs are expected."""

from dataclasses import dataclass
from typing import Final

# Jobs whose share of their limits counts as 1 before any has ended.
_UNKNOWN_JOBS: Final = 5
# A job that outlives its expectation is expected to take half as long again.
_AGAIN: Final = 1.5
_SOON_S: Final = 1.0


@dataclass(slots=True)
class RunShare:
    """Mean share of their limits that ended jobs ran for."""

    jobs: int = _UNKNOWN_JOBS
    total: float = float(_UNKNOWN_JOBS)

    @property
    def mean(self) -> float:
        """Return the mean, from 0 to 1."""
        return self.total / self.jobs

    def add(self, share: float) -> None:
        """Add the share of a job that ended."""
        self.jobs += 1
        self.total += share


def expected_end_s(share: float, now_s: float, start_s: float, limit_s: float) -> float:
    """Return when a running job is expected to end, by the share of their limits that others ran
    for: after now, and where it lasts longer than that not before half as long again."""
    expected_s = max(share * limit_s, _AGAIN * (now_s - start_s))
    return max(start_s + min(expected_s, limit_s), now_s + _SOON_S)
