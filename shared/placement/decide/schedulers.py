"""The clusters of a region as a scheduling pass takes them."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from shared.placement.decide.kinds import Kinds
from shared.placement.decide.looks import Looks
from shared.placement.decide.passing import Passing
from shared.placement.decide.waiting_jobs import ArrayAhead, WaitingJobs
from shared.placement.state.job_record import JobRecord
from shared.placement.state.occupancy import Occupancy
from shared.scheduling.backfill import ClusterScheduler
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.licences import NO_LICENCES, Licences
from shared.scheduling.power import PowerBudget
from shared.scheduling.sharing import Neighbours
from shared.scheduling.slurm_nodes import SlurmNodesScheduler
from shared.scheduling.slurm_units import SlurmUnitsScheduler
from shared.scheduling.wait_queue import Entry, WaitQueue
from shared.scheduling.windows import Windows


@dataclass(frozen=True, slots=True)
class Arriving:
    """The entries by cluster, of these kinds, of the job of a question, which is in no queue, and
    arrays with more tasks than their entries in the queues have. Where the job waits already, it
    comes `instead_of` what it waits as."""

    kinds: Kinds
    entries: Mapping[str, Entry] = field(default_factory=dict)
    instead_of: JobRecord | None = None
    arrays: Sequence[ArrayAhead] = ()

    @property
    def licences(self) -> Set[str]:
        """Return the names of the licences that the job needs."""
        kinds = [self.kinds.on(name)[entry.kind] for name, entry in self.entries.items()]
        return {name for kind in kinds for name, _ in kind.licences}


def schedulers_of(
    occupancy: Mapping[str, Occupancy],
    waiting_jobs: WaitingJobs,
    neighbours: Mapping[str, Neighbours],
    budgets: Mapping[str, Sequence[PowerBudget]],
    looks: Looks,
    passing: Passing,
    windows: Mapping[str, Windows],
    licences: Mapping[str, Licences],
    *,
    apart: Arriving | None = None,
) -> dict[str, ClusterScheduler]:
    """Return every cluster with what runs and what waits; a pass takes what starts out of the
    queue, but out of a copy of it, with the job of a question in it, where they are to be
    `apart`."""
    schedulers: dict[str, ClusterScheduler] = {}
    for number, (name, held) in enumerate(occupancy.items()):
        queue = waiting_jobs.queues.queue(name)
        kinds = waiting_jobs.kinds
        if apart is not None:
            queue, kinds = queue.copy(), apart.kinds
            if apart.instead_of is not None:
                queue.remove(waiting_jobs.arrival(apart.instead_of))
            if name in apart.entries:
                queue.add(apart.entries[name])
            for array in apart.arrays:
                queue.remove(array.queued_as)
                if name in array.next:
                    queue.add(array.next[name])
        under, is_apart = budgets[name], apart is not None
        schedulers[name] = _scheduler(
            held,
            queue,
            kinds,
            neighbours[name],
            under,
            looks,
            passing,
            windows[name],
            licences.get(name, NO_LICENCES),
            name,
            number,
            apart=is_apart,
        )
    return schedulers


def _scheduler(
    held: Occupancy,
    queue: WaitQueue,
    kinds: Kinds,
    neighbours: Neighbours,
    budgets: Sequence[PowerBudget],
    looks: Looks,
    passing: Passing,
    windows: Windows,
    licences: Licences,
    name: str,
    number: int,
    *,
    apart: bool,
) -> ClusterScheduler:
    """Return the scheduler of a cluster: counting nodes is enough, and faster, where no job that
    runs or waits has parts of them or licences, and none are kept for others or off; there
    predictions let jobs pass, where that is chosen, also with nodes that are off. Slurm's backfill
    looks at both where that is chosen."""
    looks_there = looks.are_made_under(budgets)
    if not (queue.in_parts or held.is_in_parts or windows.any):
        if looks_there:
            last = looks.last(name)
            return SlurmNodesScheduler(held.load, queue, looks.parameters, number, budgets, last)
        if passing.is_done_under(budgets):
            return passing.scheduler(name, held.load, queue, number, budgets)
        if not held.power.not_on:
            return EasyScheduler(held.load, queue, number, budgets)
    capacity, holds = held.available(number, apart=apart)
    units = ConsumableScheduler(
        capacity,
        holds,
        queue,
        kinds.on(name),
        neighbours,
        number,
        budgets,
        factors=held.factors,
        states=None if apart else held.states(neighbours),
        windows=windows,
        licences=licences,
        asleep=held.power.sets,
        boot_s=held.power.boot_s,
    )
    if looks_there:
        return SlurmUnitsScheduler(units, looks.parameters, looks.last(name))
    return units
