"""Which jobs may share their nodes: the fixed rule and what it expects of a pair."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shared.models.degradation import pair_features, slowdown_ratio

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """The degradation model on one cluster.

    `gbps` holds the bandwidth of each application there, NaN where no signature exists.
    `weights` is None while no degradation model is published: then nobody shares.
    """

    gbps: Floats
    peak_gbps: float
    weights: tuple[float, ...] | None
    max_slowdown: float
    _sums: dict[int, Floats] = field(default_factory=dict, init=False)
    _guests: dict[int, tuple[int, ...]] = field(default_factory=dict, init=False)

    def slowdown(self, app: int, beside: int) -> float:
        """Predicted T_co / T_solo of `app` beside an application; NaN without a prediction."""
        if self.weights is None:
            return float("nan")
        features = pair_features(self.gbps[app], self.gbps[beside], self.peak_gbps)
        return float(slowdown_ratio(self.weights, features))

    def summed_slowdowns(self, host: int) -> Floats:
        """Sum of both slowdowns for a guest of each application, infinite where the rule refuses.

        The rule: both slowdowns are predicted, and neither is above `max_slowdown`.
        """
        if host not in self._sums:
            self._sums[host] = self._evaluate(host)
        return self._sums[host]

    def guests_of(self, host: int) -> tuple[int, ...]:
        """The applications that an application accepts beside it by the rule."""
        if host not in self._guests:
            accepted = np.flatnonzero(np.isfinite(self.summed_slowdowns(host)))
            self._guests[host] = tuple(accepted.tolist())
        return self._guests[host]

    def _evaluate(self, host: int) -> Floats:
        if self.weights is None:
            return np.full(len(self.gbps), np.inf)
        host_gbps = self.gbps[host]
        guest = slowdown_ratio(self.weights, pair_features(self.gbps, host_gbps, self.peak_gbps))
        hosted = slowdown_ratio(self.weights, pair_features(host_gbps, self.gbps, self.peak_gbps))
        accepted = (guest <= self.max_slowdown) & (hosted <= self.max_slowdown)
        return np.where(accepted, guest + hosted, np.inf)
