"""What energy costs on a cluster by the hour: money, or grams of CO2, per kWh."""

from dataclasses import dataclass, field
from itertools import accumulate
from math import floor, inf

from coplace_client.errors import UnusableError

_HOUR_S = 3600.0
_J_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Tariff:
    """The price of a kWh in each hour; behind the last hour the first follows again.

    Hours count from 0 s. One hour alone is a constant price. Raises UnusableError for no hour and
    for a price below 0.
    """

    per_kwh: tuple[float, ...] = (1.0,)
    _until: tuple[float, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.per_kwh or not all(0 <= price < inf for price in self.per_kwh):
            raise UnusableError(f"a tariff needs prices of at least 0, got {self.per_kwh}")
        object.__setattr__(self, "_until", (0.0, *accumulate(self.per_kwh)))

    def cost(self, power_w: float, start_s: float, end_s: float) -> float:
        """Return what a power costs from one time to another."""
        if len(self.per_kwh) == 1:
            return power_w * (end_s - start_s) / _J_PER_KWH * self.per_kwh[0]
        return power_w * (self._price_s(end_s) - self._price_s(start_s)) / _J_PER_KWH

    def next_drop_s(self, now_s: float) -> float:
        """Return when the price will next be below the present one; infinite if never."""
        hours = len(self.per_kwh)
        hour = floor(now_s / _HOUR_S)
        price = self.per_kwh[hour % hours]
        later = (hour + 1 + ahead for ahead in range(hours - 1))
        return next((h * _HOUR_S for h in later if self.per_kwh[h % hours] < price), inf)

    def _price_s(self, at_s: float) -> float:
        """Return the integral of the price from 0 s on."""
        hour = floor(at_s / _HOUR_S)
        rounds, rest = divmod(hour, len(self.per_kwh))
        whole = rounds * self._until[-1] + self._until[rest]
        return whole * _HOUR_S + self.per_kwh[rest] * (at_s - hour * _HOUR_S)
