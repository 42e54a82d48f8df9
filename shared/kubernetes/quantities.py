"""Kubernetes' quantities: `500m`, `1.5`, `64Gi`, `1e3`."""

import re
from fractions import Fraction
from typing import Final

from coplace_client.errors import RejectedError

_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eE][+-]?[0-9]{1,2}|[KMGTPE]i|[numkMGTPE])?"
)
_POWERS: Final = (-9, -6, -3, 3, 6, 9, 12, 15, 18)
_SCALES: Final = {
    **{suffix: Fraction(f"1e{power}") for suffix, power in zip("numkMGTPE", _POWERS, strict=True)},
    **{f"{prefix}i": Fraction(1 << 10 * power) for power, prefix in enumerate("KMGTPE", start=1)},
}
_MOST_DIGITS: Final = 40


def quantity(field: str, text: object) -> Fraction:
    """Parse a quantity. Raises RejectedError, which names the field."""
    written = str(text) if isinstance(text, str | int | float) else ""
    found = _QUANTITY.fullmatch(written) if len(written) <= _MOST_DIGITS else None
    if found is None:
        raise RejectedError(field, f"must be a quantity such as 500m or 64Gi, got {written[:40]!r}")
    number, suffix = Fraction(found[1]), found[2] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        return number * Fraction(f"1e{int(suffix[1:])}")
    return number * _SCALES.get(suffix, 1)
