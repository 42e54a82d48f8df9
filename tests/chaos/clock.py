"""Virtual time: nobody in a simulation asks the machine's clock."""

import math
from dataclasses import dataclass, field
from random import Random
from typing import Final

from coplace_client.clock import GuardedClock

BEGIN_US: Final = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
SECOND_US: Final = 1_000_000
HOUR_US: Final = 3_600 * SECOND_US
DAY_US: Final = 24 * HOUR_US


@dataclass(slots=True)
class Clock:
    """True time, and by how much the wall clock of each host is wrong."""

    now_us: int = BEGIN_US
    wrong_us: dict[str, int] = field(default_factory=dict)

    def advance(self, by_us: int) -> None:
        """Let time pass."""
        self.now_us += by_us

    def wall_us(self, host: str) -> int:
        """What the wall clock of a host shows."""
        return self.now_us + self.wrong_us.get(host, 0)

    def guarded(self, host: str) -> GuardedClock:
        """The clock of a process that starts on a host now."""
        return GuardedClock(lambda: (self.wall_us(host), self.now_us))

    def is_far_ahead(self, host: str) -> bool:
        """Whether a process that starts on a host now would forget what it knows as too old."""
        return self.wrong_us.get(host, 0) > DAY_US

    @property
    def now_s(self) -> float:
        """True time, s."""
        return self.now_us / SECOND_US


def some_time_us(rng: Random, least_us: int, most_us: int) -> int:
    """A duration of which short ones are as likely as long ones (log-uniform)."""
    return round(math.exp(rng.uniform(math.log(least_us), math.log(most_us))))
