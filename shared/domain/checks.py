"""The checks that domain types run on themselves."""

import math
from typing import Final

from shared.domain.errors import RejectedError

# Wide enough for any machine, and narrow enough that nothing downstream overflows.
_LEAST: Final = 1e-9
_MOST: Final = 1e15


def require_finite(field: str, value: float) -> None:
    """Raise RejectedError unless `value` is a finite number."""
    if not math.isfinite(value):
        raise RejectedError(field, f"must be a finite number, got {value!r}")


def require_positive(field: str, value: float) -> None:
    """Raise RejectedError unless `value` is above 0 and of a plausible magnitude."""
    if not _LEAST <= value <= _MOST:
        raise RejectedError(field, f"must be from {_LEAST:g} to {_MOST:g}, got {value!r}")


def require_not_negative(field: str, value: float) -> None:
    """Raise RejectedError unless `value` is at least 0 and of a plausible magnitude."""
    if not 0 <= value <= _MOST:
        raise RejectedError(field, f"must be from 0 to {_MOST:g}, got {value!r}")


def require_text(field: str, value: str, *, limit: int = 256) -> None:
    """Raise RejectedError unless `value` holds 1 to `limit` printable characters."""
    if not value or len(value) > limit or not value.isprintable():
        raise RejectedError(field, f"must be 1 to {limit} printable characters, got {value[:40]!r}")
