"""What the paper says of these policies, and what is measured here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lab.papers.placement import measures
from lab.papers.placement.intervals import Interval, Measure, gains
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

# The results of each seed, of each cell: a policy with its weight, on a workload.
Cells = Callable[[Grid], list[list[float]]]


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure of the paper and its place there, and the cells here of which it is the largest, or
    the least; percent. Arrivals and sizes of the jobs were fitted to a few."""

    text: str
    paper: str
    where: str
    cells: Cells
    is_least: bool = False
    is_fitted: bool = False

    def best_mean(self, grid: Grid) -> Interval:
        """Return the best of the means of the cells over seeds."""
        best = min if self.is_least else max
        return best(map(Interval.of, self.cells(grid)), key=lambda each: each.mean)

    def best_of_each(self, grid: Grid) -> Interval | None:
        """Return the mean over seeds of the best cell of each, as the paper's is that of one
        workload; None of a single cell."""
        cells = self.cells(grid)
        best = min if self.is_least else max
        return Interval.of([*map(best, zip(*cells, strict=True))]) if len(cells) > 1 else None


# PriorityInc-V demotes nothing as it is read by default: it would be PriorityInc once more.
OURS: Final = tuple(row for row in EAMC if row.policy is not SimulatedPolicy.PRIORITY_INC_V)
PRIORITY: Final = tuple(row for row in OURS if row.policy is not SimulatedPolicy.REORDER)


def _saved(
    rows: Sequence[Row], theirs: Row, measure: Measure, workloads: Sequence[str] = tuple(WORKLOADS)
) -> Cells:
    """What each of several rows saves over another on each workload."""
    return lambda grid: [
        gains(grid.of(workload, row), grid.of(workload, theirs), measure)
        for workload in workloads
        for row in rows
    ]


def _one(ours: Row, theirs: Row, measure: Measure, workload: str) -> Cells:
    return _saved([ours], theirs, measure, [workload])


def _values(rows: Sequence[Row], measure: Measure) -> Cells:
    return lambda grid: [
        [*map(measure, grid.of(workload, row))] for workload in WORKLOADS for row in rows
    ]


makespan, response, energy = measures.makespan_d, measures.response_h, measures.energy_mwh
# "The priority policies" are PriorityInc at both weights.
CLAIMS: Final = (
    Claim(
        "over Min_runtime, response, 13 %",
        "2",
        "5.2",
        _saved(PRIORITY, MIN_RUNTIME, response, [UNIFORM]),
    ),
    Claim("the same, 33 %", "10", "5.2", _saved(PRIORITY, MIN_RUNTIME, response, [THIRD])),
    Claim("the same, 50 %", "25", "5.2", _saved(PRIORITY, MIN_RUNTIME, response, [HALF])),
    Claim("over Min_runtime, makespan, at most", "6", "5.2", _saved(OURS, MIN_RUNTIME, makespan)),
    Claim(
        "over Min_runtime, energy, 13 %, w=1",
        "9",
        "5.1",
        _one(PRIORITY[0], MIN_RUNTIME, energy, UNIFORM),
    ),
    Claim("over Min_runtime, energy, at most", "20", "5.2", _saved(OURS, MIN_RUNTIME, energy)),
    Claim("over Min_energy, response, at most", "49", "1", _saved(OURS, MIN_ENERGY, response)),
    Claim("over Min_energy, makespan, at most", "26", "1", _saved(OURS, MIN_ENERGY, makespan)),
    Claim(
        "over Min_energy, response, 13 %",
        "48",
        "5.2",
        _saved(PRIORITY, MIN_ENERGY, response, [UNIFORM]),
    ),
    Claim(
        "over Min_energy, response, 33 and 50 %",
        "39",
        "5.2",
        _saved(PRIORITY, MIN_ENERGY, response, [THIRD, HALF]),
    ),
    Claim(
        "over Min_energy, makespan, 33 and 50 %",
        "20",
        "5.2",
        _saved(PRIORITY, MIN_ENERGY, makespan, [THIRD, HALF]),
    ),
    Claim("over Min_energy, energy, at most", "6; 4", "1; 5.2", _saved(OURS, MIN_ENERGY, energy)),
    Claim("jobs on their best cluster, at most", "82", "5.2", _values(OURS, measures.best_percent)),
    Claim(
        "the same, Min_runtime and Min_energy",
        "55",
        "5.2",
        _values((MIN_RUNTIME, MIN_ENERGY), measures.best_percent),
    ),
    Claim(
        "STREAM on p2, priority policies",
        "almost 100",
        "5.1",
        _values(PRIORITY, measures.stream_on_p2_percent),
    ),
    Claim(
        "response on p2 over Min_runtime, at most",
        "53",
        "5.2",
        _saved(PRIORITY, MIN_RUNTIME, measures.p2_response_h),
    ),
    Claim(
        "Min_runtime over Base, makespan, 13 %",
        "39",
        "5.1",
        _one(MIN_RUNTIME, BASE, makespan, UNIFORM),
        is_fitted=True,
    ),
    Claim(
        "Min_runtime over Base, response, 13 %",
        "64",
        "5.1",
        _one(MIN_RUNTIME, BASE, response, UNIFORM),
        is_fitted=True,
    ),
    Claim(
        "Min_energy over Base, energy, 13 %", "5", "5.1", _one(MIN_ENERGY, BASE, energy, UNIFORM)
    ),
    Claim(
        "Base over Min_runtime, response, 50 %",
        "19",
        "5.2",
        _one(BASE, MIN_RUNTIME, response, HALF),
        is_fitted=True,
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
        _saved([MIN_ENERGY], MIN_RUNTIME, response, [THIRD, HALF]),
        is_least=True,
    ),
    Claim(
        "Min_energy over Min_runtime, makespan, at least",
        "-23",
        "5.2",
        _saved([MIN_ENERGY], MIN_RUNTIME, makespan, [THIRD, HALF]),
        is_least=True,
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
