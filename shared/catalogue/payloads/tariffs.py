"""Tariffs and allocations as they are declared, in the domain's terms."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from coplace.v1.accounts_pb2 import AllocationDeclared, PeriodClosed
from coplace.v1.pricing_pb2 import RepriceAsked
from coplace.v1.tariffs_pb2 import (
    PAYER_OPERATOR,
    PRICE_MODEL_FAIR,
    PRICE_MODEL_RATE_FUNCTION,
    PRICE_MODEL_STATE_OF_PRACTICE,
    PriceModel,
    RatePoint,
    TariffDeclared,
)

from coplace_client.errors import RejectedError
from coplace_client.numbers import amount
from shared.domain.money import QUANTUM
from shared.domain.tariff import (
    FAIR,
    MOST_HOUR_FACTOR,
    MOST_IDLE_W,
    MOST_RATE_SU,
    MOST_SU_COST,
    PriceTariff,
    Rate,
    RateFunction,
    RateScope,
    Surcharge,
    UnitCost,
    decimal_of,
)

# Integer accounts of 0.000001 SU hold a million of them.
_MOST_ALLOCATED_SU: Final = Decimal(10**12)
_ONE: Final = Decimal(1)
_OPTIONAL_AMOUNTS: Final = ("idle_w_per_core", "surcharge_share", "surcharge_most_su", "su_cost")
# What neighbours take off by each model that has no points; None: nothing.
NAMED_FUNCTIONS: Final[Mapping[PriceModel.ValueType, RateFunction | None]] = {
    PRICE_MODEL_STATE_OF_PRACTICE: None,
    PRICE_MODEL_FAIR: FAIR,
}


def require_amounts(message: TariffDeclared | AllocationDeclared) -> None:
    """Raise RejectedError unless all amounts are written in the digits 0 to 9. What was declared to
    an earlier release may not be, and is still read."""
    for field, text in _amounts_of(message):
        amount(field, text)


def _amounts_of(message: TariffDeclared | AllocationDeclared) -> Iterator[tuple[str, str]]:
    if isinstance(message, AllocationDeclared):
        yield "allocated_su", message.allocated_su
        return
    for number, rate in enumerate(message.rates):
        yield f"rates[{number}].su", rate.su
    for number, point in enumerate(message.points):
        yield f"points[{number}].solo_share", point.solo_share
        yield f"points[{number}].factor", point.factor
    for hour, text in enumerate(message.hour_factors):
        yield f"hour_factors[{hour}]", text
    for field in _OPTIONAL_AMOUNTS:
        if text := getattr(message, field):
            yield field, text


def tariff_of(message: TariffDeclared) -> PriceTariff:
    """Raises RejectedError, naming the field."""
    return PriceTariff(
        name=message.name,
        version=message.version,
        from_us=message.from_us,
        until_us=message.until_us,
        function=function_of(message.model, message.points),
        rates=tuple(
            Rate(
                rate.resource,
                decimal_of(f"rates[{number}].su", rate.su, MOST_RATE_SU),
                RateScope(rate.cluster, rate.node_model, rate.partition, rate.qos),
            )
            for number, rate in enumerate(message.rates)
        ),
        hour_factors=tuple(
            decimal_of(f"hour_factors[{hour}]", text, MOST_HOUR_FACTOR)
            for hour, text in enumerate(message.hour_factors)
        ),
        idle_w_per_core=decimal_of("idle_w_per_core", message.idle_w_per_core or "0", MOST_IDLE_W),
        operator_pays_failures=message.node_failure == PAYER_OPERATOR,
        operator_pays_requeues=message.requeue == PAYER_OPERATOR,
        surcharge=surcharge_of(message.surcharge_share, message.surcharge_most_su),
        unit_cost=unit_cost_of(message.currency, message.su_cost),
    )


def surcharge_of(share: str, most_su: str) -> Surcharge | None:
    """Return the surcharge of the texts of a tariff or a charge; None: nobody is surcharged. Raises
    RejectedError."""
    if not share:
        if most_su:
            raise RejectedError(
                "surcharge_most_su", "needs surcharge_share: give both, or leave this out"
            )
        return None
    most = decimal_of("surcharge_most_su", most_su, MOST_RATE_SU) if most_su else None
    return Surcharge(decimal_of("surcharge_share", share, _ONE), most)


def unit_cost_of(currency: str, su_cost: str) -> UnitCost | None:
    """Return the cost of a service unit of the texts of a tariff or a charge; None: service units
    are not billed in a currency. Raises RejectedError."""
    if not currency and not su_cost:
        return None
    if not su_cost:
        raise RejectedError("su_cost", "must say what a service unit costs in the currency")
    return UnitCost(currency, decimal_of("su_cost", su_cost, MOST_SU_COST))


def function_of(model: PriceModel.ValueType, points: Sequence[RatePoint]) -> RateFunction | None:
    """Return what neighbours take off; None: nothing. Raises RejectedError."""
    if (model == PRICE_MODEL_RATE_FUNCTION) != bool(points):
        raise RejectedError("points", "must be given for PRICE_MODEL_RATE_FUNCTION and no other")
    if not points:
        if model not in NAMED_FUNCTIONS:
            raise RejectedError("model", f"must have a rate function here, got {model}")
        return NAMED_FUNCTIONS[model]
    return RateFunction(
        tuple(
            (
                decimal_of(f"points[{number}].solo_share", point.solo_share, _ONE),
                decimal_of(f"points[{number}].factor", point.factor, _ONE),
            )
            for number, point in enumerate(points)
        )
    )


def allocated_su(message: AllocationDeclared) -> Decimal:
    """Raises RejectedError for less than 0, and for parts of 0.000001 SU."""
    found = decimal_of("allocated_su", message.allocated_su, _MOST_ALLOCATED_SU)
    if found != found.quantize(QUANTUM):
        raise RejectedError("allocated_su", f"must be a multiple of {QUANTUM}")
    return found


def require_past(message: PeriodClosed) -> None:
    """Raise RejectedError for a period that is not over."""
    if message.until_us > message.closed_at_us:
        raise RejectedError("until_us", "must not lie behind closed_at_us: the period is not over")


def require_finish(message: RepriceAsked) -> None:
    """Raise RejectedError for a charge of a version that did not keep what it is made of."""
    if not message.charge.HasField("finished"):
        raise RejectedError("charge", "has no finish by which it could be made again")
