"""The checks that domain types run on themselves."""

import math

from shared.domain.errors import RejectedError


def require_finite(field: str, value: float) -> None:
    """Raise RejectedError unless `value` is a finite number."""
    if not math.isfinite(value):
        raise RejectedError(field, f"must be a finite number, got {value!r}")


def require_positive(field: str, value: float) -> None:
    """Raise RejectedError unless `value` is a finite number above 0."""
    if not (math.isfinite(value) and value > 0):
        raise RejectedError(field, f"must be a finite number above 0, got {value!r}")


def require_not_negative(field: str, value: float) -> None:
    """Raise RejectedError unless `value` is a finite number of at least 0."""
    if not (math.isfinite(value) and value >= 0):
        raise RejectedError(field, f"must be a finite number of at least 0, got {value!r}")


def require_text(field: str, value: str, *, limit: int = 256) -> None:
    """Raise RejectedError unless `value` holds 1 to `limit` printable characters."""
    if not value or len(value) > limit or not value.isprintable():
        raise RejectedError(field, f"must be 1 to {limit} printable characters, got {value[:40]!r}")
