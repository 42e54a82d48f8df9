"""Who slowed a run down, and what of its discount and of its energy each of them is behind.

With d the time of a run beside co-runner i and s its slowdown in it, i cost the run d - d / s: of
the time lost, of the discount and of the energy that went into that time, i has this share. Shares
are fractions, so that their sum is exactly 1; what is published in units of 0.000001 SU and 0.001 J
is apportioned by largest remainders (Hamilton's method), so that the sum of the parts is the whole.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from coplace.v1.pricing_pb2 import ENERGY_REASON_IMPLAUSIBLE, ChargeMade

from shared.domain.money import QUANTUM, apportion, micro_units
from shared.pricing.charge import evidence_of, is_borne

_MILLIJOULES: Final = 1_000


class InterferencePart(NamedTuple):
    """What one co-runner cost a run, or several that are listed together without an id: `share` of
    all that its co-runners did."""

    co_runner_job_id: str
    co_runners: int
    share: Fraction
    lost_s: Fraction
    discount_su: Decimal
    energy_mj: int

    @property
    def energy_j(self) -> Decimal:
        """Return the part of the run's energy that went into the time that this one cost it."""
        return Decimal(self.energy_mj) / _MILLIJOULES


def attribute(charge: ChargeMade) -> tuple[InterferencePart, ...]:
    """Return the parts of all co-runners that cost the run any time, as its evidence has them, none
    where nobody did. The sum of their discounts is `discount_su`, of their energy `lost_energy_mj`.
    Raises RejectedError."""
    rows = [row for row in evidence_of(charge) if row.slowdown_ratio > 1 and row.duration_us]
    if not rows:
        return ()
    lost_us = [row.lost_us for row in rows]
    shares = [each / sum(lost_us) for each in lost_us]
    discounts = apportion(micro_units(discount_su(charge)), shares)
    energies = apportion(lost_energy_mj(charge), shares)
    return tuple(
        InterferencePart(
            row.co_runner_job_id,
            row.co_runners,
            share,
            each_us / 1_000_000,
            part * QUANTUM,
            energy_mj,
        )
        for row, share, each_us, part, energy_mj in zip(
            rows, shares, lost_us, discounts, energies, strict=True
        )
    )


def discount_su(charge: ChargeMade) -> Decimal:
    """Return what neighbours took off the price; 0 where the operator bears the whole run."""
    if is_borne(charge.reason):
        return QUANTUM * 0
    return Decimal(charge.state_of_practice_su) - Decimal(charge.price_su)


def lost_energy_mj(charge: ChargeMade) -> int:
    """Return the part of a run's energy that went into the time that its co-runners cost it, as if
    power were the same all the time; mJ, rounded down. It is a part of what was predicted where
    that is charged; nobody knows it where what was reported is absurd."""
    runtime_us = round(charge.runtime_s * 1e6)
    if not runtime_us or charge.energy_reason == ENERGY_REASON_IMPLAUSIBLE:
        return 0
    lost_us = sum((row.lost_us for row in evidence_of(charge)), Fraction(0))
    energy_j = charge.predicted_energy_j or charge.finished.energy_j
    return int(Fraction(energy_j) * _MILLIJOULES * lost_us / runtime_us)
