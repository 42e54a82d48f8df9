"""What part of their limits jobs run for: what the ends of those that run are expected by."""

from dataclasses import dataclass
from typing import Self

import orjson

# Jobs whose share of their limits counts as 1 before any has ended.
_UNKNOWN_JOBS = 5


@dataclass(slots=True)
class RunShare:
    """The mean share of their limits that ended jobs ran for."""

    jobs: int = _UNKNOWN_JOBS
    total: float = float(_UNKNOWN_JOBS)

    @property
    def mean(self) -> float:
        """From 0 to 1."""
        return self.total / self.jobs

    def add(self, share: float) -> None:
        """A job ended."""
        self.jobs += 1
        self.total += share

    def to_bytes(self) -> bytes:
        """JSON."""
        return orjson.dumps([self.jobs, self.total])

    @classmethod
    def from_bytes(cls, value: bytes) -> Self:
        """What `to_bytes` wrote."""
        return cls(*orjson.loads(value))
