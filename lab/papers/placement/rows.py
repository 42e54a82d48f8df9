"""What is compared: policies with their weights, on workloads, over seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lab.simulation.jobs import WorkloadSpec
from lab.simulation.metrics import Summary
from lab.simulation.policy import SimulatedPolicy as Policy


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tables: a policy with the weight of time over energy."""

    policy: Policy
    t_weight: float = 1.0

    @property
    def label(self) -> str:
        """Return the row as tables name it."""
        return f"{self.policy} w={self.t_weight:g}" if self.policy in WEIGHED else self.policy


# D'Amico and Corbalan (2021), section 5: Base chooses by part_eff too, at the nominal P-state.
WEIGHED: Final = (Policy.REORDER, Policy.PRIORITY_INC, Policy.PRIORITY_INC_V)
BASE: Final = Row(Policy.BASE)
MIN_RUNTIME: Final = Row(Policy.MIN_RUNTIME)
MIN_ENERGY: Final = Row(Policy.MIN_ENERGY)
# Min_runtime but at the nominal P-state, not at that of the least projected time.
NOMINAL: Final = Row(Policy.EASY)
EAMC: Final = tuple(Row(policy, weight) for policy in WEIGHED for weight in (1.0, 1.5))
LOOK_AHEAD: Final = Row(Policy.LOOK_AHEAD)
# What look-ahead starts from.
PRIORITY_V: Final = Row(Policy.PRIORITY_INC_V)
ROWS: Final = (BASE, MIN_RUNTIME, NOMINAL, MIN_ENERGY, *EAMC, LOOK_AHEAD)

# The workloads by the share of jobs that are best off on the second cluster: all eight
# applications alike, or so many that run STREAM.
UNIFORM: Final = "13 %"
THIRD: Final = "33 %"
HALF: Final = "50 %"
WORKLOADS: Final[Mapping[str, WorkloadSpec]] = {
    UNIFORM: WorkloadSpec(share=None),
    THIRD: WorkloadSpec(share=0.33),
    HALF: WorkloadSpec(share=0.5),
}


@dataclass(frozen=True, slots=True)
class Grid:
    """The results of rows on each workload, in the order of the seeds."""

    seeds: tuple[int, ...]
    summaries: Mapping[tuple[str, Row], Sequence[Summary]]

    def of(self, workload: str, row: Row) -> Sequence[Summary]:
        """Return one summary a seed. Raises KeyError for what was not played."""
        return self.summaries[workload, row]

    def replaced(self, row: Row, by: Row) -> "Grid":
        """Return the grid where one row has the results of another."""
        taken = {(workload, row): self.of(workload, by) for workload in WORKLOADS}
        return Grid(self.seeds, {**self.summaries, **taken})
