"""Times as operators write and read them."""

import re
import time
from datetime import UTC, datetime
from typing import Final

from shared.domain.times import in_utc

_DURATION: Final = re.compile(r"([0-9]{1,6})(minute|hour|day|week)s?")
_FROM_NOW: Final = re.compile(rf"now(?:\+{_DURATION.pattern})?")
_UNIT_S: Final = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def clock_us() -> int:
    """Return the wall clock, in microseconds since 1970."""
    return time.time_ns() // 1000


def time_us(text: str) -> int:
    """Parse a time as ISO 8601 writes it, UTC where it names no zone, or one from now as Slurm's
    `--begin` does: `now+90minutes`. Raises ValueError."""
    if match := _FROM_NOW.fullmatch(text):
        count, unit = match.groups()
        return clock_us() + (int(count) * _UNIT_S[unit] * 1_000_000 if unit else 0)
    try:
        found = datetime.fromisoformat(text if text.isascii() else "")
    except ValueError:
        raise ValueError(
            f"{text[:40]!r} is not a time such as 2026-07-01T08:00:00Z or now+90minutes"
        ) from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1e6)


def duration_us(text: str) -> int:
    """Parse how long something lasts: `90minutes`. Raises ValueError."""
    if not (match := _DURATION.fullmatch(text)):
        raise ValueError(f"{text[:40]!r} is not a duration such as 90minutes, 4hours or 2days")
    count, unit = match.groups()
    return int(count) * _UNIT_S[unit] * 1_000_000


def format_utc(moment_us: int) -> str:
    """Format a time in UTC to the second."""
    return in_utc(moment_us / 1e6)
