"""A cluster as simulations know it, with the scheduler of each discipline."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

import numpy as np

from shared.scheduling.capacity import Capacity
from shared.scheduling.conservative import ConservativeScheduler
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import Load
from shared.scheduling.power import NO_CAP_MW, Cap, PowerBudget, Scope, milliwatts
from shared.scheduling.problem import CORES, MEMORY, UNKNOWN, NodeTable, whole_node
from shared.scheduling.sharing import Nobody
from shared.scheduling.slurm import SLURM_DEFAULTS, SlurmBackfill
from shared.scheduling.slurm_nodes import SlurmNodesScheduler
from shared.scheduling.wait_queue import WaitQueue
from shared.scheduling.windows import Maintained, Windows

# A cap over several pools, by their numbers.
Over = tuple[Cap, Sequence[int]]


class Discipline(StrEnum):
    """Disciplines by what may pass an entry that has to wait; the order of entries is the
    workload's."""

    FCFS = "fcfs"  # nothing
    EASY = "easy"  # an entry that does not delay the first entry that waits
    CONSERVATIVE = "conservative"  # an entry that delays no other that waits
    SLURM = "slurm"  # an entry that delays none of many reservations, every so often


@dataclass(frozen=True, slots=True)
class Pool:
    """The resources of one cluster: nodes, or cores where it gives out cores.

    All together draws `cap_w` at most: `idle_w` of each unit, whatever runs, and what jobs draw
    beyond that. Where idle power does not count the cap is one of dynamic power alone. Some units
    are `maintained` for a time, which Slurm's discipline does not know.
    """

    units: int
    cap_w: float = inf
    idle_w: float = 0.0
    cap_counts_idle: bool = True
    slurm: SlurmBackfill = SLURM_DEFAULTS
    maintained: tuple[Maintained, ...] = ()

    @property
    def base_mw(self) -> int:
        """Return what counts under a cap whatever runs."""
        return milliwatts(self.units * self.idle_w) if self.cap_counts_idle else 0

    @property
    def left_mw(self) -> int:
        """Return what its jobs may draw beyond that, all together."""
        return milliwatts(self.cap_w) - self.base_mw if self.cap_w < inf else NO_CAP_MW

    @property
    def most_w(self) -> float:
        """Return what all may draw under the cap, idle power included whether it counts or not."""
        return self.cap_w if self.cap_counts_idle else self.cap_w + self.units * self.idle_w

    def budgets(self, number: int) -> list[PowerBudget]:
        """Return the budget of its cap; none where there is no cap."""
        if self.cap_w == inf:
            return []
        cap = Cap(Scope.CLUSTER, f"{number}", ((-inf, milliwatts(self.cap_w)),))
        return [PowerBudget(cap, self.base_mw)]

    def scheduler(
        self, discipline: Discipline, number: int, budgets: Sequence[PowerBudget] = ()
    ) -> EasyScheduler | ConsumableScheduler | ConservativeScheduler | SlurmNodesScheduler:
        """Return a scheduler of the pool with nothing running and nothing waiting, under these
        budgets."""
        if discipline is Discipline.CONSERVATIVE:
            return ConservativeScheduler(self.units, number, budgets, self.maintained)
        load, queue = Load(self.units, self.units), WaitQueue()
        if discipline is Discipline.SLURM:
            return SlurmNodesScheduler(load, queue, self.slurm, number, budgets)
        backfills = discipline is Discipline.EASY
        if self.maintained:
            return self._between_windows(queue, number, budgets, backfills=backfills)
        return EasyScheduler(load, queue, number=number, budgets=budgets, backfills=backfills)

    def _between_windows(
        self, queue: WaitQueue, number: int, budgets: Sequence[PowerBudget], *, backfills: bool
    ) -> ConsumableScheduler:
        """Return a scheduler that knows its units one by one, all alike."""
        amounts = np.array([[1] * self.units, [UNKNOWN] * self.units], dtype=np.int64)
        table = NodeTable((CORES, MEMORY), amounts)
        found = [each.window(n, self.units) for n, each in enumerate(self.maintained)]
        return ConsumableScheduler(
            Capacity(table),
            [],
            queue,
            [whole_node(1, len(table.names))],
            Nobody(),
            number,
            budgets,
            backfills=backfills,
            windows=Windows(found),
        )


def budgets_of(pools: Sequence[Pool], over: Sequence[Over] = ()) -> list[list[PowerBudget]]:
    """Return the budgets of each pool with nothing committed yet: its own, and those that it
    shares."""
    budgets = [pool.budgets(number) for number, pool in enumerate(pools)]
    for cap, numbers in over:
        base_mw = sum(pools[number].base_mw for number in numbers)
        shared = PowerBudget(cap, base_mw, is_shared=True)
        for number in numbers:
            budgets[number].append(shared)
    return budgets
