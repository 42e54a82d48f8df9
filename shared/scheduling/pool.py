"""A cluster as simulations know it, with the scheduler of each discipline."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from shared.scheduling.conservative import ConservativeScheduler
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import Load
from shared.scheduling.power import Cap, PowerBudget, Scope, Step, milliwatts
from shared.scheduling.slurm import SLURM_DEFAULTS, SlurmBackfill, SlurmScheduler
from shared.scheduling.wait_queue import WaitQueue


class Discipline(StrEnum):
    """What may pass an entry that has to wait; the order of entries is the workload's."""

    FCFS = "fcfs"  # nothing
    EASY = "easy"  # what does not delay the first entry that waits
    CONSERVATIVE = "conservative"  # what delays no entry that waits
    SLURM = "slurm"  # what delays none of many reservations, every so often


@dataclass(frozen=True, slots=True)
class Pool:
    """What one cluster has to give: nodes, or cores where it gives out cores.

    The jobs that run draw `cap_w` at most, until one of `steps` says otherwise.
    """

    units: int
    cap_w: float = inf
    steps: tuple[Step, ...] = ()
    slurm: SlurmBackfill = SLURM_DEFAULTS

    def budgets(self, number: int) -> list[PowerBudget]:
        """What its jobs may draw; none where there is no cap."""
        first = ((-inf, milliwatts(self.cap_w)),) if self.cap_w < inf else ()
        steps = (*first, *self.steps)
        return [PowerBudget(Cap(Scope.CLUSTER, f"{number}", steps))] if steps else []

    def scheduler(
        self, discipline: Discipline, number: int, budgets: Sequence[PowerBudget] = ()
    ) -> EasyScheduler | ConservativeScheduler | SlurmScheduler:
        """The pool with nothing running and nothing waiting, under these budgets."""
        if discipline is Discipline.CONSERVATIVE:
            return ConservativeScheduler(self.units, number, budgets)
        if discipline is Discipline.SLURM:
            return SlurmScheduler(self.units, self.slurm, number, budgets)
        load, backfills = Load(self.units, self.units), discipline is Discipline.EASY
        return EasyScheduler(load, WaitQueue(), number=number, budgets=budgets, backfills=backfills)
