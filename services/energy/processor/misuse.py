"""How often each user named the wrong application, old times counting less."""

from typing import Final, NamedTuple

from shared.numerics.elementary import power
from shared.streams.state.state import Table

_DAY_US: Final = 86_400_000_000
# Who comes below this is forgotten: what is kept does not grow with all users that ever were.
LEAST_COUNT: Final = 0.05


class Count(NamedTuple):
    """A count as of a time."""

    value: float
    time_us: int

    def at(self, time_us: int, half_life_days: float) -> float:
        """Return what is left of it later: half after each half-life."""
        passed_us = max(0, time_us - self.time_us)
        return float(self.value * power(0.5, passed_us / (half_life_days * _DAY_US)))


class Misuse:
    """Counts of mismatches by user."""

    def __init__(self, table: Table[Count], half_life_days: float) -> None:
        self._counts = table
        self._half_life_days = half_life_days

    def of(self, user: str, now_us: int) -> float:
        """Return a user's count now."""
        count = self._counts.get(user)
        return count.at(now_us, self._half_life_days) if count else 0.0

    def add(self, user: str, now_us: int) -> float:
        """Add one to the user's count and return it. Forgets users of long ago."""
        for name, count in list(self._counts.items()):
            if count.at(now_us, self._half_life_days) < LEAST_COUNT:
                self._counts.drop(name)
        value = self.of(user, now_us) + 1
        self._counts.put(user, Count(value, now_us))
        return value
