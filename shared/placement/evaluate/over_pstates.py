"""What the signatures of one application say of a cluster, over its P-states."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shared.domain.pstates import same_ghz
from shared.eamc.frequency import FrequencyRule, worth_choosing
from shared.models.projection import Projection
from shared.models.spread import Quantile


class OverPStates:
    """An application on one cluster, over its P-states, by number: those are `known` that have a
    projection, the lowest first. What is `planned` are quantiles; deviations are NaN where nothing
    says how good a prediction is. Once made it stays: thousands of jobs are compared by it."""

    def __init__(
        self, projection: Projection, planned: Quantile, far: NDArray[np.float64], app: int
    ) -> None:
        self._projection, self._app, self.ghz = projection, app, projection.pstates_ghz
        self.known: list[int] = np.flatnonzero(projection.available[app]).tolist()
        self.time_s: list[float] = projection.time_s[app].tolist()
        self.power_w: list[float] = projection.power_w[app].tolist()
        self.time_sd: list[float] = projection.time_sd[app].tolist()
        self.power_sd: list[float] = projection.power_sd[app].tolist()
        self.planned_s: list[float] = planned.time_s[app].tolist()
        self.planned_w: list[float] = planned.power_w[app].tolist()
        self.planned_j: list[float] = planned.energy_j[app].tolist()
        self.distance: list[float] = far[app].tolist()
        self._of: dict[float, int | None] = {}

    def of(self, ghz: float) -> int | None:
        """Return the known P-state of a frequency; None where there is none."""
        if ghz not in self._of:
            same = [pstate for pstate in self.known if same_ghz(self.ghz[pstate], ghz)]
            self._of[ghz] = same[0] if same else None
        return self._of[ghz]

    def worth_choosing(self) -> list[int]:
        """Return the P-states that cost least at some price of time over energy."""
        return list(worth_choosing(self._projection, self._app))

    def by_cost(self, rule: FrequencyRule) -> list[int]:
        """Return the known P-states in the order in which a policy would choose them."""
        if rule in (FrequencyRule.NOMINAL, FrequencyRule.MIN_RUNTIME):
            cost: Sequence[float] = self.planned_s
        elif rule is FrequencyRule.MIN_ENERGY:
            cost = self.planned_j
        else:
            cost = self.distance
        return sorted(self.known, key=lambda pstate: cost[pstate])
