"""Numbers as people and files write them: in the digits 0 to 9 of ASCII, finite, in one way.

Python's own `int` and `float` also take other scripts' digits, `1_000`, `inf` and spaces. What one
reader takes and the next one refuses, or shows as something else, is a wrong cap or a wrong bill.
"""

import math
import re
from decimal import Decimal
from typing import Final

from coplace_client.errors import RejectedError

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_AMOUNT: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
# Longer ones are no number that people read; none is worked on.
_MOST_CHARACTERS: Final = 400


def is_number(text: str) -> bool:
    """Return whether a text is a finite number: digits, a sign, a point and an exponent."""
    return _is(_NUMBER, text) and math.isfinite(float(text))


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number: digits, and a sign."""
    return _is(_WHOLE, text)


def whole_number(text: str) -> int:
    """Parse a whole number. Raises ValueError."""
    if not is_whole(text):
        raise ValueError(f"must be a whole number in the digits 0 to 9, got {text[:40]!r}")
    return int(text)


def finite_number(text: str) -> float:
    """Parse a finite number. Raises ValueError."""
    if not is_number(text):
        raise ValueError(f"must be a finite number in the digits 0 to 9, got {text[:40]!r}")
    return float(text)


def amount(field: str, text: str) -> Decimal:
    """Parse an amount that is billed by: digits, and a point between two. Raises RejectedError."""
    if not _is(_AMOUNT, text):
        raise RejectedError(field, f"must be a decimal in the digits 0 to 9, got {text[:40]!r}")
    return Decimal(text)


def _is(form: re.Pattern[str], text: str) -> bool:
    return len(text) <= _MOST_CHARACTERS and form.fullmatch(text) is not None
