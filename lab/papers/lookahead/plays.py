"""One play of the comparison: a policy or an ablation, on one workload with one seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lab.papers.lookahead.workloads import SOURCES
from lab.papers.placement.measures import HOUR_S, MWH_J
from lab.simulate.clusters import setup_of
from lab.simulation.lookahead import AS_TUNED, Ahead
from lab.simulation.metrics import Summary, summarise
from lab.simulation.policy import SimulatedPolicy
from lab.simulation.sweep import Case, play_jobs
from shared.scheduling.lookahead import Prices, WaitOrder

BASE: Final = "priority-inc-v"
MEASURES: Final[Mapping[str, Callable[[Summary], float]]] = {
    "energy with idle, MWh": lambda of: (of.busy_energy_j + of.idle_energy_j) / MWH_J,
    "response, h": lambda of: of.response_s.mean / HOUR_S,
    "makespan, h": lambda of: of.makespan_s / HOUR_S,
    "p99 wait, h": lambda of: of.wait_s.p99 / HOUR_S,
}


def _bounded(**changes: Any) -> Ahead:
    return replace(AS_TUNED, bounds=replace(AS_TUNED.bounds, **changes))


# What look-ahead is without one of its rules, with one alone, or at a price of the makespan.
VARIANTS: Final[Mapping[str, Ahead]] = {
    "look-ahead": AS_TUNED,
    "by size": _bounded(order=WaitOrder.SIZE),
    "by age": _bounded(order=WaitOrder.AGE),
    "judged by the head's forecast": _bounded(judges_orders=True),
    "no forecast": _bounded(steps_back=False),
    "order alone": replace(_bounded(steps_back=False, patience_s=1e9), keeps_pstates=True),
    "P-states alone": _bounded(order=WaitOrder.AGE, steps_back=False),
    "static P-states": replace(AS_TUNED, keeps_pstates=True),
    "makespan price 30": replace(AS_TUNED, prices=Prices(makespan_per_h=30.0)),
    "easy, order alone": replace(
        _bounded(steps_back=False, patience_s=1e9),
        keeps_pstates=True,
        starts_from=SimulatedPolicy.EASY,
    ),
}


@dataclass(frozen=True, slots=True)
class Play:
    """A variant, or BASE, on a workload with a seed."""

    workload: str
    seed: int
    variant: str

    def measured(self, data: Path, jobs: int) -> dict[str, float]:
        """Play it: its measures by name. Raises OSError or UnusableError for data that cannot be
        read."""
        source = SOURCES[self.workload]
        system = source.system
        ahead = VARIANTS.get(self.variant)
        policy = SimulatedPolicy.PRIORITY_INC_V if ahead is None else SimulatedPolicy.LOOK_AHEAD
        case = Case(policy, seed=self.seed, ahead=ahead or AS_TUNED)
        drawn = source.jobs(data, self.seed, jobs)
        summary = summarise(play_jobs(setup_of(system, data / "eamc"), case, drawn).played)
        return {name: measure(summary) for name, measure in MEASURES.items()}
