"""Service units: exact decimals, never floats."""

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

QUANTUM: Final = Decimal("0.000001")


def service_units(amount: Decimal) -> Decimal:
    """`amount` quantised to 0.000001 service unit, half to even."""
    return amount.quantize(QUANTUM, rounding=ROUND_HALF_EVEN)


def micro_units(amount: Decimal) -> int:
    """`amount` as a whole number of 0.000001 service unit, for integer counters."""
    return int(service_units(amount) / QUANTUM)
