"""What jobs are charged by: rates of resources, hours of the day, and what neighbours take off.

Decimal throughout, and whole microseconds: the same digits everywhere.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from coplace_client.checks import require_count, require_text
from coplace_client.errors import RejectedError
from shared.domain.currency import require_currency

CORE: Final = "core"
GIB: Final = "gib"
ENERGY: Final = "energy"
HOUR_US: Final = 3_600_000_000
HOURS_A_DAY: Final = 24
MOST_RATE_SU: Final = Decimal(1_000_000)
MOST_HOUR_FACTOR: Final = Decimal(1_000)
MOST_IDLE_W: Final = Decimal(10_000)
MOST_SU_COST: Final = Decimal(1_000_000)
# So many digits lie within what is computed without rounding.
_MOST_DIGITS: Final = 18
_MOST_DECIMALS: Final = 12
_ZERO, _ONE = Decimal(0), Decimal(1)


def decimal_of(field: str, text: str, most: Decimal) -> Decimal:
    """Parse a decimal from 0 to `most`, of at most 18 digits, 12 of them behind the point. Raises
    RejectedError."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise RejectedError(field, f"must be a decimal, got {text[:40]!r}") from None
    if not (value.is_finite() and 0 <= value <= most):
        raise RejectedError(field, f"must be from 0 to {most}, got {text[:40]!r}")
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if len(digits) > _MOST_DIGITS or exponent < -_MOST_DECIMALS:
        problem = f"must have at most {_MOST_DIGITS} digits, {_MOST_DECIMALS} of them decimals"
        raise RejectedError(field, f"{problem}, got {text[:40]!r}")
    return value


class RateScope(NamedTuple):
    """The properties by which rates distinguish jobs; empty where a job has none."""

    cluster: str = ""
    node_model: str = ""
    partition: str = ""
    qos: str = ""


ANY_JOB: Final = RateScope()


@dataclass(frozen=True, slots=True)
class Rate:
    """Service units for one of a resource and an hour, for energy those of a kWh; what is empty in
    `scope` holds for any. Raises RejectedError on construction."""

    resource: str
    su: Decimal
    scope: RateScope = ANY_JOB

    def __post_init__(self) -> None:
        require_text("rates.resource", self.resource)
        if not 0 <= self.su <= MOST_RATE_SU:
            raise RejectedError("rates.su", f"must be from 0 to {MOST_RATE_SU}, got {self.su}")

    def applies_to(self, scope: RateScope) -> bool:
        """Return whether a job of this cluster, node model, partition and QOS pays it."""
        if self.scope == ANY_JOB:
            return True
        return all(not of or of == has for of, has in zip(self.scope, scope, strict=True))


@dataclass(frozen=True, slots=True)
class RateFunction:
    """F of POPPA's equation 2 over L: what a second of T_solo costs of what it costs alone, by the
    share T_solo / T_co. Straight between its points (share, factor).

    Raises RejectedError unless shares rise from 0 to 1 and factors fall nowhere, up to 1 at 1: who
    is slowed down more never pays more, and who ran alone pays in full.
    """

    points: tuple[tuple[Decimal, Decimal], ...]

    def __post_init__(self) -> None:
        points = self.points
        if len(points) < 2 or points[0][0] != 0 or points[-1] != (_ONE, _ONE):
            raise RejectedError(
                "points", "must begin at the share 0 and end with the factor 1 at 1"
            )
        for number, (before, after) in enumerate(pairwise(points), 1):
            if not before[0] < after[0]:
                raise RejectedError(f"points[{number}].solo_share", "must lie above the one before")
            if not 0 <= before[1] <= after[1]:
                problem = "must not lie below the one before: more slowdown would cost more"
                raise RejectedError(f"points[{number}].factor", problem)

    def at(self, solo_share: Decimal) -> Decimal:
        """Return the factor of a share above 0, in the precision of the context."""
        following = bisect_left(self.points, solo_share, key=lambda point: point[0])
        (low, below), (high, above) = self.points[following - 1 : following + 1]
        return below + (above - below) * (solo_share - low) / (high - low)


# Equation 3: discounted by the degradation itself.
FAIR: Final = RateFunction(((_ZERO, _ZERO), (_ONE, _ONE)))


@dataclass(frozen=True, slots=True)
class Surcharge:
    """What of a run's discount is put on the jobs that slowed it down, from 0 to 1; and the most
    for an hour beside it, service units, None: without such a bound. Raises RejectedError."""

    share: Decimal
    most_su_per_hour: Decimal | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            problem = f"must lie above 0, and at most at 1, got {self.share}"
            raise RejectedError("surcharge_share", problem)


@dataclass(frozen=True, slots=True)
class UnitCost:
    """What a service unit costs in a national currency. Raises RejectedError on construction."""

    currency: str
    su_cost: Decimal

    def __post_init__(self) -> None:
        require_currency("currency", self.currency)
        if not 0 < self.su_cost <= MOST_SU_COST:
            problem = f"must lie above 0, and at most at {MOST_SU_COST}, got {self.su_cost}"
            raise RejectedError("su_cost", problem)


@dataclass(frozen=True, slots=True)
class PriceTariff:
    """One version of a tariff, for jobs that start from `from_us` until `until_us` (0: for ever).

    Without a `function` neighbours take nothing off. `operator_pays_failures` and `_requeues` say
    who bears runs without a result, `surcharge` who bears what neighbours take off (None: the
    operator). `unit_cost` is None where accounts are billed in service units alone. Raises
    RejectedError on construction.
    """

    name: str
    version: int
    from_us: int
    until_us: int
    function: RateFunction | None
    rates: tuple[Rate, ...]
    hour_factors: tuple[Decimal, ...] = ()
    idle_w_per_core: Decimal = _ZERO
    operator_pays_failures: bool = False
    operator_pays_requeues: bool = False
    surcharge: Surcharge | None = None
    unit_cost: UnitCost | None = None
    # The factors of a day's hours until each of them, and of the whole day.
    _until_hour: tuple[Decimal, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_until_hour", (_ZERO, *accumulate(self.hour_factors)))
        require_text("name", self.name)
        require_count("version", self.version)
        if self.from_us < 0 or (self.until_us and self.until_us <= self.from_us):
            raise RejectedError("until_us", "must be after from_us, or 0")
        if len(self.hour_factors) not in (0, HOURS_A_DAY):
            problem = (
                f"must be {HOURS_A_DAY}, one an hour, or left out; got {len(self.hour_factors)}"
            )
            raise RejectedError("hour_factors", problem)
        if not any(rate.resource == CORE for rate in self.rates):
            raise RejectedError("rates", f"must say what a {CORE!r} costs, be it 0")

    def applies_at(self, time_us: int) -> bool:
        """Return whether a job that starts then is charged by it."""
        return self.from_us <= time_us and (not self.until_us or time_us < self.until_us)

    def rate(self, resource: str, scope: RateScope) -> Decimal:
        """Return the first rate that applies; 0 where none does."""
        of_it = (rate for rate in self.rates if rate.resource == resource)
        return next((rate.su for rate in of_it if rate.applies_to(scope)), _ZERO)

    def weighted_us(self, from_us: int, until_us: int) -> Decimal:
        """Return a stretch of time with each of its microseconds times the factor of its hour."""
        if not self.hour_factors:
            return Decimal(until_us - from_us)
        return self._weighed_since_1970_us(until_us) - self._weighed_since_1970_us(from_us)

    def _weighed_since_1970_us(self, time_us: int) -> Decimal:
        hours, rest_us = divmod(time_us, HOUR_US)
        days, hour = divmod(hours, HOURS_A_DAY)
        whole = days * self._until_hour[-1] + self._until_hour[hour]
        return whole * HOUR_US + self.hour_factors[hour] * rest_us
