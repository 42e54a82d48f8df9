"""Times in words."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)  # the jobs of a round wait for the same few reservations and caps
def in_utc(time_s: float) -> str:
    """Format a time, s since 1970, in UTC to the second, as ISO 8601 writes it."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
