"""The wall clock, compared with one that never jumps."""

import time
from collections.abc import Callable
from typing import Final

TOLERANCE_US: Final = 10_000_000
PATIENCE_US: Final = 60_000_000
# Between the two readings a process may be stopped: then they are not of one moment.
_ONE_MOMENT_US: Final = 100_000
_MOST_TRIES: Final = 5

Readings = Callable[[], tuple[int, int]]


class ClockJumpedError(Exception):
    """The wall clock has been wrong, or has been set right, for longer than is waited for."""


class GuardedClock:
    """Event time. A step of the wall clock beyond the tolerance is not followed: time goes on as
    the steady clock does, until the wall clock is back or `check` raises.

    `read` returns the wall clock and the steady clock, us.
    """

    def __init__(
        self,
        read: Readings | None = None,
        tolerance_us: int = TOLERANCE_US,
        patience_us: int = PATIENCE_US,
    ) -> None:
        self._read = read or read_clocks
        self._tolerance_us = tolerance_us
        self._patience_us = patience_us
        wall_us, steady_us = self._read()
        self._ahead_us = wall_us - steady_us
        self._jumped_at_us: int | None = None
        self.off_us = 0
        """How far the wall clock is ahead of the time that passed; 0 while it is followed."""

    def now_us(self) -> int:
        """Return the time, us since 1970."""
        wall_us, steady_us = self._read()
        off_us = wall_us - (steady_us + self._ahead_us)
        if abs(off_us) <= self._tolerance_us:
            self._ahead_us += off_us
            self._jumped_at_us, self.off_us = None, 0
        else:
            self.off_us = off_us
            if self._jumped_at_us is None:
                self._jumped_at_us = steady_us
        return steady_us + self._ahead_us

    def check(self) -> None:
        """Raise ClockJumpedError when the wall clock has been off for too long."""
        _, steady_us = self._read()
        if self._jumped_at_us is None or steady_us - self._jumped_at_us <= self._patience_us:
            return
        raise ClockJumpedError(
            f"the wall clock has been {self.off_us / 1e6:+.1f} s off the time that passed for more "
            f"than {self._patience_us / 1e6:g} s: set it right and keep it so (NTP); this process "
            "ends, and the next one goes by the clock as it then is (docs/how-to/clocks.md)"
        )


def read_clocks() -> tuple[int, int]:
    """Read the wall clock and the steady one at one moment, us."""
    for _ in range(_MOST_TRIES):
        steady_us = _steady_us()
        wall_us = time.time_ns() // 1_000
        if _steady_us() - steady_us <= _ONE_MOMENT_US:
            break
    return wall_us, steady_us


def _steady_us() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000
