"""What the paper says of these policies, and what is measured here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lab.papers.placement import measures
from lab.papers.placement.intervals import Interval, Measure, gain, interval
from lab.papers.placement.rows import (
    BASE,
    EAMC,
    HALF,
    MIN_ENERGY,
    MIN_RUNTIME,
    THIRD,
    UNIFORM,
    WORKLOADS,
    Grid,
    Row,
)
from lab.simulation.policy import SimulatedPolicy

Found = Callable[[Grid], Interval]


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure of the paper and its place there, the interval and row measured for it; percent."""

    text: str
    paper: str
    where: str
    found: Found


PRIORITY: Final = tuple(row for row in EAMC if row.policy is not SimulatedPolicy.REORDER)


def _one(ours: Row, theirs: Row, measure: Measure, workload: str) -> Found:
    return lambda grid: gain(grid.of(workload, ours), grid.of(workload, theirs), measure)


def _up_to(
    rows: Sequence[Row], theirs: Row, measure: Measure, workloads: Sequence[str] = tuple(WORKLOADS)
) -> Found:
    """The largest of the mean gains of several rows, with its interval."""

    def largest(grid: Grid) -> Interval:
        gains = (
            gain(grid.of(workload, row), grid.of(workload, theirs), measure)
            for workload in workloads
            for row in rows
        )
        return max(gains, key=lambda each: each.mean)

    return largest


def _down_to(ours: Row, theirs: Row, measure: Measure) -> Found:
    """The least gain of one row where a third or half of the jobs run STREAM."""

    def least(grid: Grid) -> Interval:
        pairs = ((grid.of(workload, ours), grid.of(workload, theirs)) for workload in (THIRD, HALF))
        return min((gain(*pair, measure) for pair in pairs), key=lambda each: each.mean)

    return least


def _largest(rows: Sequence[Row], measure: Measure) -> Found:
    def found(grid: Grid) -> Interval:
        every = (
            interval(grid.of(workload, row), measure) for workload in WORKLOADS for row in rows
        )
        return max(every, key=lambda each: each.mean)

    return found


makespan, response, energy = measures.makespan_d, measures.response_h, measures.energy_mwh
# "The priority policies" are PriorityInc and PriorityInc-V at both weights.
CLAIMS: Final = (
    Claim(
        "over Min_runtime, response, 13 %",
        "2",
        "5.2",
        _up_to(PRIORITY, MIN_RUNTIME, response, [UNIFORM]),
    ),
    Claim("the same, 33 %", "10", "5.2", _up_to(PRIORITY, MIN_RUNTIME, response, [THIRD])),
    Claim("the same, 50 %", "25", "5.2", _up_to(PRIORITY, MIN_RUNTIME, response, [HALF])),
    Claim("over Min_runtime, makespan, at most", "6", "5.2", _up_to(EAMC, MIN_RUNTIME, makespan)),
    Claim(
        "over Min_runtime, energy, 13 %, w=1",
        "9",
        "5.1",
        _one(PRIORITY[0], MIN_RUNTIME, energy, UNIFORM),
    ),
    Claim("over Min_runtime, energy, at most", "20", "5.2", _up_to(EAMC, MIN_RUNTIME, energy)),
    Claim("over Min_energy, response, at most", "49", "1", _up_to(EAMC, MIN_ENERGY, response)),
    Claim("over Min_energy, makespan, at most", "26", "1", _up_to(EAMC, MIN_ENERGY, makespan)),
    Claim(
        "over Min_energy, response, 13 %",
        "48",
        "5.2",
        _up_to(PRIORITY, MIN_ENERGY, response, [UNIFORM]),
    ),
    Claim(
        "over Min_energy, response, 33 and 50 %",
        "39",
        "5.2",
        _up_to(PRIORITY, MIN_ENERGY, response, [THIRD, HALF]),
    ),
    Claim(
        "over Min_energy, makespan, 33 and 50 %",
        "20",
        "5.2",
        _up_to(PRIORITY, MIN_ENERGY, makespan, [THIRD, HALF]),
    ),
    Claim("over Min_energy, energy, at most", "6; 4", "1; 5.2", _up_to(EAMC, MIN_ENERGY, energy)),
    Claim(
        "jobs on their best cluster, at most", "82", "5.2", _largest(EAMC, measures.best_percent)
    ),
    Claim(
        "the same, Min_runtime and Min_energy",
        "55",
        "5.2",
        _largest((MIN_RUNTIME, MIN_ENERGY), measures.best_percent),
    ),
    Claim(
        "STREAM on p2, priority policies",
        "almost 100",
        "5.1",
        _largest(PRIORITY, measures.stream_on_p2_percent),
    ),
    Claim(
        "response on p2 over Min_runtime, at most",
        "53",
        "5.2",
        _up_to(PRIORITY, MIN_RUNTIME, measures.p2_response_h),
    ),
    Claim(
        "Min_runtime over Base, makespan, 13 %",
        "39",
        "5.1",
        _one(MIN_RUNTIME, BASE, makespan, UNIFORM),
    ),
    Claim(
        "Min_runtime over Base, response, 13 %",
        "64",
        "5.1",
        _one(MIN_RUNTIME, BASE, response, UNIFORM),
    ),
    Claim(
        "Min_energy over Base, energy, 13 %", "5", "5.1", _one(MIN_ENERGY, BASE, energy, UNIFORM)
    ),
    Claim(
        "Base over Min_runtime, response, 50 %",
        "19",
        "5.2",
        _one(BASE, MIN_RUNTIME, response, HALF),
    ),
    Claim(
        "Base over Min_runtime, energy, 50 %", "10", "5.2", _one(BASE, MIN_RUNTIME, energy, HALF)
    ),
    Claim(
        "Base over Min_runtime, makespan, 50 %",
        "-7",
        "5.2",
        _one(BASE, MIN_RUNTIME, makespan, HALF),
    ),
    Claim(
        "Min_energy over Min_runtime, response, at least",
        "-51",
        "5.2",
        _down_to(MIN_ENERGY, MIN_RUNTIME, response),
    ),
    Claim(
        "Min_energy over Min_runtime, makespan, at least",
        "-23",
        "5.2",
        _down_to(MIN_ENERGY, MIN_RUNTIME, makespan),
    ),
    Claim(
        "Min_energy over Min_runtime, energy, 33 %",
        "15",
        "5.2",
        _one(MIN_ENERGY, MIN_RUNTIME, energy, THIRD),
    ),
    Claim(
        "Min_energy over Min_runtime, energy, 50 %",
        "17",
        "5.2",
        _one(MIN_ENERGY, MIN_RUNTIME, energy, HALF),
    ),
)
