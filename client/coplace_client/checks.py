"""The checks that domain types run on themselves."""

import math
from typing import Final

from coplace_client.errors import RejectedError

# Wide enough for any machine, and narrow enough that nothing downstream overflows.
_LEAST: Final = 1e-9
_MOST: Final = 1e15
# Whole numbers from here on have more digits than people read.
_LONGEST: Final = 1e16


def require_finite(field: str, value: float) -> None:
    """Raise RejectedError unless `value` is a finite number."""
    if not math.isfinite(value):
        raise RejectedError(field, f"must be a finite number, got {value!r}")


def readable(value: float) -> str:
    """Format a bound as people write it: whole numbers in full, with separated thousands."""
    is_whole = abs(value) < _LONGEST and value == int(value)
    return f"{value:,.0f}" if is_whole else f"{value:g}"


def require_count(field: str, value: float) -> None:
    """Raise RejectedError unless `value` is at least 1 and of a plausible magnitude."""
    _require(field, value, value >= 1, "must be at least 1")


def require_positive(field: str, value: float) -> None:
    """Raise RejectedError unless `value` is above 0 and of a plausible magnitude."""
    _require(field, value, value > 0, "must be above 0")
    if value < _LEAST:
        raise RejectedError(field, f"must be at least {_LEAST:g}, got {value!r}")


def require_not_negative(field: str, value: float) -> None:
    """Raise RejectedError unless `value` is at least 0 and of a plausible magnitude."""
    _require(field, value, value >= 0, "must be at least 0")


def _require(field: str, value: float, is_enough: bool, words: str) -> None:
    if not is_enough:
        raise RejectedError(field, f"{words}, got {value!r}")
    if value > _MOST:
        raise RejectedError(field, f"must be at most {readable(_MOST)}, got {value!r}")


def require_text(field: str, value: str, *, limit: int = 256) -> None:
    """Raise RejectedError unless `value` holds 1 to `limit` printable characters."""
    if not value or len(value) > limit or not value.isprintable():
        raise RejectedError(field, f"must be 1 to {limit} printable characters, got {value[:40]!r}")
