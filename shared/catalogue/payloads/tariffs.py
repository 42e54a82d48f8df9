"""Tariffs and allocations as they are declared, in the domain's terms."""

from collections.abc import Mapping, Sequence
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
from shared.domain.money import QUANTUM
from shared.domain.tariff import (
    FAIR,
    MOST_HOUR_FACTOR,
    MOST_IDLE_W,
    MOST_RATE_SU,
    PriceTariff,
    Rate,
    RateFunction,
    RateScope,
    Surcharge,
    decimal_of,
)

# Integer accounts of 0.000001 SU hold a million of them.
_MOST_ALLOCATED_SU: Final = Decimal(10**12)
_ONE: Final = Decimal(1)
# What neighbours take off by each model that has no points; None: nothing.
NAMED_FUNCTIONS: Final[Mapping[PriceModel.ValueType, RateFunction | None]] = {
    PRICE_MODEL_STATE_OF_PRACTICE: None,
    PRICE_MODEL_FAIR: FAIR,
}


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
    )


def surcharge_of(share: str, most_su: str) -> Surcharge | None:
    """Return the surcharge of the texts of a tariff or a charge; None: nobody is surcharged. Raises
    RejectedError."""
    if not share:
        if most_su:
            raise RejectedError("surcharge_most_su", "bounds nothing without surcharge_share")
        return None
    most = decimal_of("surcharge_most_su", most_su, MOST_RATE_SU) if most_su else None
    return Surcharge(decimal_of("surcharge_share", share, _ONE), most)


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
