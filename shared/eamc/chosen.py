"""Signatures at the P-state that a rule chooses: equation 4 applied to a projection."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from shared.eamc.frequency import FrequencyRule, Weighing, choose_pstates, distance
from shared.models.projection import Projection

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ChosenPStates:
    """Arrays of the shape (signatures,), NaN where a signature has no projection: clock, time and
    power there with their relative standard deviations, the distance that was least where it is
    what the rule goes by, and the time at the nominal P-state."""

    freq_ghz: Floats
    time_s: Floats
    power_w: Floats
    time_sd: Floats
    power_sd: Floats
    distance: Floats
    nominal_s: Floats

    @classmethod
    def choose(
        cls, projection: Projection, rule: FrequencyRule, weighing: Weighing, quantile: float = 0.5
    ) -> Self:
        """Choose by a quantile of time and energy: see choose_pstates."""
        pstate = choose_pstates(projection, rule, weighing, quantile)
        at = np.arange(len(pstate)), pstate
        planned = projection.planned(quantile)
        return cls(
            freq_ghz=np.asarray(projection.pstates_ghz)[pstate],
            time_s=projection.time_s[at],
            power_w=projection.power_w[at],
            time_sd=projection.time_sd[at],
            power_sd=projection.power_sd[at],
            distance=distance(planned.energy_j, planned.time_s, weighing)[at],
            nominal_s=projection.time_s[:, -1],
        )
