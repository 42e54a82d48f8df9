"""Which frequency a job that runs should go on at, from what is measured of it.

D'Amico and Corbalan (2021), section 3.4: the application keeps running, and a new frequency is
calculated based on runtime data; section 3.2 does the same for an application's first run.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coplace_client.signature import Signature
from shared.domain.coefficients import Coefficients
from shared.eamc.frequency import FrequencyRule, Weighing, choose_pstates
from shared.eamc.reference import reference_signature
from shared.eamc.to_solution import (
    MIN_ENERGY_THRESHOLD,
    MIN_TIME_THRESHOLD,
    min_energy_to_solution,
    min_time_to_solution,
)
from shared.models.ear import project
from shared.models.projection import Projection

Ints = NDArray[np.int64]


class AdviceRule(StrEnum):
    """How the frequency is chosen."""

    MIN_DISTANCE = "min-distance"
    MIN_ENERGY = "min-energy"
    MIN_RUNTIME = "min-runtime"
    MIN_ENERGY_TO_SOLUTION = "min-energy-to-solution"
    MIN_TIME_TO_SOLUTION = "min-time-to-solution"


class Point(NamedTuple):
    """What one node does over one iteration at a P-state."""

    freq_ghz: float
    time_s: float
    power_w: float


class Advice(NamedTuple):
    """Where a job runs as measured, and where it should run as projected."""

    present: Point
    predicted: Point


@dataclass(frozen=True, slots=True)
class AdvicePolicy:
    """What the operator wants; `t_weight` is that of EAMC's distance, the thresholds are those of
    EAR's two policies."""

    rule: AdviceRule = AdviceRule.MIN_DISTANCE
    t_weight: float = 1.0
    min_energy_threshold: float = MIN_ENERGY_THRESHOLD
    min_time_threshold: float = MIN_TIME_THRESHOLD

    def pstates(self, projection: Projection, default: Ints) -> Ints:
        """Return the chosen P-state of each signature, shape (signatures,); EAR's policies start
        from `default`."""
        match self.rule:
            case AdviceRule.MIN_ENERGY_TO_SOLUTION:
                return min_energy_to_solution(projection, default, self.min_energy_threshold)
            case AdviceRule.MIN_TIME_TO_SOLUTION:
                return min_time_to_solution(projection, default, self.min_time_threshold)
            case rule:
                weighing = Weighing(self.t_weight)
                return choose_pstates(projection, FrequencyRule(rule.value), weighing)


def advice(policy: AdvicePolicy, table: Coefficients, measured: Signature) -> Advice | None:
    """Return the better P-state; None where the job is at it, or no coefficients lead from where it
    is."""
    if measured.tpi_scale != table.tpi_scale or reference_signature([measured], table) is None:
        return None
    projection = project(table, [measured])
    own, nominal = table.index_of(measured.freq_ghz), len(table.pstates_ghz) - 1
    default = nominal if projection.available[0, nominal] else own
    chosen = int(policy.pstates(projection, np.array([default]))[0])
    if chosen == own:
        return None
    time_s, power_w = projection.time_s[0, chosen], projection.power_w[0, chosen]
    return Advice(
        Point(measured.freq_ghz, measured.time_s, measured.power_w),
        Point(table.pstates_ghz[chosen], float(time_s), float(power_w)),
    )
