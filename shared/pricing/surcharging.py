"""What of a run's discount is put on the accounts of the jobs that slowed it down.

Of the discount a share, rounded down, is apportioned among all co-runners by the time that each
cost the run (`attribution.py`). A co-runner's account is charged its part, up to a bound for each
hour beside the run; the part of one whose account is not known stays with the operator, and so does
what lies above the bound. So the sum with the price of the run is its price in full at most, and
exactly where all of the discount is put on known accounts.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from shared.domain.money import apportion
from shared.domain.tariff import HOUR_US, Surcharge
from shared.pricing.model import Evidence

_MICRO_SU: Final = 1_000_000


def surcharges_micro_su(
    rows: Sequence[Evidence], discount_micro_su: int, surcharge: Surcharge
) -> list[int]:
    """Return the surcharge of each row, 0.000001 SU; 0 where nobody pays."""
    lost_us = [row.lost_us for row in rows]
    if not sum(lost_us) or discount_micro_su <= 0:
        return [0] * len(rows)
    whole = int(discount_micro_su * Fraction(surcharge.share))
    parts = apportion(whole, [each / sum(lost_us) for each in lost_us])
    return [
        _bounded(part, row, surcharge) if row.co_runner_account else 0
        for row, part in zip(rows, parts, strict=True)
    ]


def _bounded(part: int, row: Evidence, surcharge: Surcharge) -> int:
    if surcharge.most_su_per_hour is None:
        return part
    most_su = Fraction(surcharge.most_su_per_hour) * row.duration_us / HOUR_US
    return min(part, int(most_su * _MICRO_SU))
