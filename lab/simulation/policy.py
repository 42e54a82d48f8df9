"""The policies that can be simulated, as an order of entries and a discipline."""

from enum import StrEnum
from typing import Final

import numpy as np

from shared.domain.eamc_policy import Policy
from shared.scheduling.pool import Discipline
from shared.scheduling.workload import NO_ENTRY, Floats, Ints, Mask


class SimulatedPolicy(StrEnum):
    """The first five know of no energy: jobs are offered to each cluster as it is declared, at the
    nominal P-state. The others are those of `ranking.Policy`, with EASY backfill, and look-ahead,
    which starts from PriorityInc-V."""

    FCFS = "fcfs"
    SJF = "sjf"
    EASY = "easy"
    CONSERVATIVE = "conservative"
    SLURM = "slurm"
    BASE = "base"
    MIN_RUNTIME = "min-runtime"
    MIN_ENERGY = "min-energy"
    REORDER = "reorder"
    PRIORITY_INC = "priority-inc"
    PRIORITY_INC_V = "priority-inc-v"
    LOOK_AHEAD = "look-ahead"

    @property
    def discipline(self) -> Discipline:
        """Return what may pass an entry that has to wait; shortest job first lets nothing pass
        either."""
        return _DISCIPLINES.get(self, Discipline.EASY)

    @property
    def ranking(self) -> Policy | None:
        """Return how clusters and P-states are chosen, None where no energy is known of."""
        if self is SimulatedPolicy.LOOK_AHEAD:
            return Policy.PRIORITY_INC_V
        return None if self in ONE_POOL else Policy(self.value)

    @property
    def keeps_shared_caps(self) -> bool:
        """Return whether it keeps caps over several clusters: not where it reserves for all that
        waits."""
        return self.discipline in (Discipline.EASY, Discipline.FCFS)

    @property
    def knows_maintenance(self) -> bool:
        """Return whether it knows when nodes are maintained: not where jobs are planned, or
        Slurm's backfill looks."""
        return self not in (SimulatedPolicy.SLURM, SimulatedPolicy.LOOK_AHEAD)

    @property
    def takes_discipline(self) -> bool:
        """Return whether what may pass what waits is another choice: of EAMC's policies."""
        return self.ranking is not None and self is not SimulatedPolicy.LOOK_AHEAD

    @property
    def takes_slower_modes(self) -> bool:
        """Return whether it takes slower modes: not where it reserves for all that waits, of which
        it knows one mode, or look-ahead chooses among all of them."""
        return self.keeps_shared_caps and self is not SimulatedPolicy.LOOK_AHEAD

    @property
    def has_threshold(self) -> bool:
        """Return whether the threshold of PriorityInc-V changes anything."""
        return self.ranking is Policy.PRIORITY_INC_V

    @property
    def weighs(self) -> bool:
        """Return whether the weight of time over energy changes anything."""
        return self not in (*ONE_POOL, SimulatedPolicy.MIN_RUNTIME, SimulatedPolicy.MIN_ENERGY)


ONE_POOL: Final = (
    SimulatedPolicy.FCFS,
    SimulatedPolicy.SJF,
    SimulatedPolicy.EASY,
    SimulatedPolicy.CONSERVATIVE,
    SimulatedPolicy.SLURM,
)
_DISCIPLINES: Final = {
    SimulatedPolicy.FCFS: Discipline.FCFS,
    SimulatedPolicy.SJF: Discipline.FCFS,
    SimulatedPolicy.CONSERVATIVE: Discipline.CONSERVATIVE,
    SimulatedPolicy.SLURM: Discipline.SLURM,
}


def order_of(policy: SimulatedPolicy, rank: Ints, tier: Ints, limit_s: Floats) -> Ints:
    """Return the order of entries of the shape (jobs, clusters), jobs by submission.

    By tier, then by submission, then by rank; shortest job first puts the time until the limit
    before the submission. There is no entry where `rank` is NO_ENTRY.
    """
    entries = rank != NO_ENTRY
    job = np.broadcast_to(np.arange(len(rank))[:, np.newaxis], rank.shape)
    if policy is SimulatedPolicy.SJF:
        return _ordered(entries, tier, limit_s, job, rank)
    return _ordered(entries, tier, job, rank)


def _ordered(entries: Mask, *keys: Floats | Ints) -> Ints:
    """0, 1, 2... to the entries by keys, of which the first decides."""
    places = np.lexsort([key[entries] for key in reversed(keys)])
    numbers = np.empty(len(places), dtype=np.int64)
    numbers[places] = np.arange(len(places))
    order = np.full(entries.shape, NO_ENTRY, dtype=np.int64)
    order[entries] = numbers
    return order
