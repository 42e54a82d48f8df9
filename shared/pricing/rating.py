"""What a run had of each resource, and what it costs by a tariff. Decimal, without rounding until
the price.

With L the sum of what all resources of a run cost for its time, r = T_solo / T_co and F the rate
function of the tariff: price = L x F(r) x r, which is POPPA's equation 2. F(r) = r is equation 4,
and without a function the price is equation 1. Measured energy is the meter's and not discounted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Final

from coplace.v1.jobs_pb2 import JobFinished

from shared.domain.money import service_units
from shared.domain.tariff import CORE, ENERGY, GIB, PriceTariff, RateFunction, RateScope
from shared.pricing.model import EXACT, Evidence, Occupied, Price

_JOULE: Final = Decimal("0.000001")
_SECONDS_AN_HOUR: Final = 3_600
_JOULES_A_KWH: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class RatedAmount:
    """What a run had of a resource, units x s weighted by the hours of the day, of energy J; and
    its rate, SU for a unit and hour, or a kWh."""

    resource: str
    quantity: Decimal
    su: Decimal

    @property
    def in_full_su(self) -> Decimal:
        """Return what it costs alone, in the precision of the context."""
        per = _JOULES_A_KWH if self.resource == ENERGY else _SECONDS_AN_HOUR
        return self.quantity * self.su / per


def scope_of(finished: JobFinished) -> RateScope:
    """Return what rates distinguish the job by."""
    return RateScope(finished.cluster, finished.node_model, finished.partition, finished.qos)


def allocated_resources(finished: JobFinished, cores: Decimal) -> dict[str, Decimal]:
    """Return units of each resource that the run had."""
    others = {name: Decimal(n) for name, n in finished.resources.items() if name != ENERGY}
    memory = {GIB: Decimal(repr(finished.memory_gib))} if finished.memory_gib else {}
    return {**others, **memory, CORE: cores}


def amounts(
    tariff: PriceTariff, finished: JobFinished, usage: Occupied, energy_j: float
) -> tuple[RatedAmount, ...]:
    """Return what costs anything by the tariff, in the order of names, with so much energy; nothing
    without run time."""
    if not usage.runtime_us:
        return ()
    with localcontext(EXACT):
        weighed_us = _weighed_us(tariff, usage)
        held = allocated_resources(finished, usage.cores)
        return tuple(_rated(tariff, scope_of(finished), _quantities(held, weighed_us))) + (
            _energy(tariff, finished, usage, weighed_us, energy_j)
        )


def full_su(
    tariff: PriceTariff, held: dict[str, Decimal], scope: RateScope, from_us: int, until_us: int
) -> Decimal:
    """Return what resources cost at most that are allocated for a time, without energy: nobody
    knows it before."""
    with localcontext(EXACT):
        quantities = _quantities(held, tariff.weighted_us(from_us, until_us))
        found = _rated(tariff, scope, quantities)
        return service_units(sum((amount.in_full_su for amount in found), Decimal(0)))


def _weighed_us(tariff: PriceTariff, usage: Occupied) -> Decimal:
    stood_still = sum(
        (tariff.weighted_us(begin, end) for begin, end in usage.suspended), Decimal(0)
    )
    return tariff.weighted_us(usage.started_at_us, usage.ended_at_us) - stood_still


def _quantities(held: dict[str, Decimal], weighed_us: Decimal) -> dict[str, Decimal]:
    return {name: held[name] * weighed_us / 1_000_000 for name in sorted(held)}


def _rated(
    tariff: PriceTariff, scope: RateScope, quantities: dict[str, Decimal]
) -> Iterator[RatedAmount]:
    for resource, quantity in quantities.items():
        if su := tariff.rate(resource, scope):
            yield RatedAmount(resource, quantity, su)


def _energy(
    tariff: PriceTariff,
    finished: JobFinished,
    usage: Occupied,
    weighed_us: Decimal,
    energy_j: float,
) -> tuple[RatedAmount, ...]:
    """Beyond what its cores draw idle, where that is the operator's; weighted as the run is."""
    su = tariff.rate(ENERGY, scope_of(finished))
    idle_j = tariff.idle_w_per_core * usage.cores * usage.runtime_us / 1_000_000
    beyond_j = max(Decimal(0), Decimal(repr(energy_j)) - idle_j)
    if not (su and beyond_j):
        return ()
    return (RatedAmount(ENERGY, (beyond_j * weighed_us / usage.runtime_us).quantize(_JOULE), su),)


def rated_price(
    found: Sequence[RatedAmount],
    function: RateFunction | None,
    runtime_us: int,
    rows: Iterable[Evidence],
) -> Price:
    """Return the price of the amounts for a run beside those of `rows`."""
    if not runtime_us:
        return Price(service_units(Decimal(0)), service_units(Decimal(0)), 0.0, 1.0)
    with localcontext(EXACT):
        saved_us = sum((row.duration_us - row.solo_us for row in rows), Decimal(0))
        solo_us = runtime_us - saved_us
        share = solo_us / runtime_us
        factor = Decimal(1) if function is None else function.at(share) * share
        time = sum((one.in_full_su for one in found if one.resource != ENERGY), Decimal(0))
        energy = sum((one.in_full_su for one in found if one.resource == ENERGY), Decimal(0))
        return Price(
            service_units(time * factor + energy),
            service_units(time + energy),
            float(solo_us / 1_000_000),
            max(1.0, float(runtime_us / solo_us)),
        )
