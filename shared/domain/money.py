"""Service units: exact decimals, never floats."""

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import Final

QUANTUM: Final = Decimal("0.000001")


def service_units(amount: Decimal) -> Decimal:
    """Quantise `amount` to 0.000001 service unit, half to even."""
    return amount.quantize(QUANTUM, rounding=ROUND_HALF_EVEN)


def micro_units(amount: Decimal) -> int:
    """Return `amount` as a whole number of 0.000001 service unit, for integer counters."""
    return int(service_units(amount) / QUANTUM)


def su_text(micro_su: int) -> str:
    """Format so many 0.000001 service units as the decimal that messages hold, in service units."""
    return f"{Decimal(micro_su) * QUANTUM:f}"


def apportion(whole: int, shares: Sequence[Fraction]) -> list[int]:
    """Apportion whole parts by shares whose sum is 1: each its share rounded down, and one more for
    those of the largest remainders, of equal ones the first, until the sum of the parts is the
    whole."""
    exact = [whole * share for share in shares]
    parts = [each.numerator // each.denominator for each in exact]
    by_remainder = sorted(range(len(parts)), key=lambda i: (parts[i] - exact[i], i))
    for i in by_remainder[: whole - sum(parts)]:
        parts[i] += 1
    return parts
