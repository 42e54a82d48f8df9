"""The one clock of a process, as its settings say."""

from functools import cache

from coplace_client.clock import GuardedClock
from shared.process.settings import settings


@cache
def process_clock() -> GuardedClock:
    """Return the one clock of this process, as its settings say."""
    config = settings()
    tolerance_us, patience_us = config.clock_tolerance_s * 1e6, config.clock_patience_s * 1e6
    return GuardedClock(None, round(tolerance_us), round(patience_us))


def now_us() -> int:
    """Return the time as this process's clock has it, us since 1970."""
    return process_clock().now_us()
