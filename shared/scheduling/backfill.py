"""EASY backfill over all clusters of a region on one priority queue.

Lifka (1995) for one cluster; D'Amico and Corbalan (2021), section 4.2.1, for job-cluster entries:
entries are served in order, each cluster keeps one reservation, for its first blocked entry, and
the holes that it reserves are that cluster's alone. Starting a job removes all its entries at
once; where one of them had a reservation, the entries behind it get their turn again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from shared.scheduling.conservative import ConservativeScheduler
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.dispatch import DONE, Dispatcher, Scheduler, Served
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import Reservation
from shared.scheduling.problem import Allocation
from shared.scheduling.slurm import SlurmScheduler
from shared.scheduling.slurm_nodes import SlurmNodesScheduler
from shared.scheduling.slurm_units import SlurmUnitsScheduler
from shared.scheduling.wait_queue import Entry

# The entries of one arrival, each with the number of its cluster.
Arrival = tuple[tuple[int, Entry], ...]
# A cluster that gives out whole nodes, or parts of them, under EASY; or under Slurm's backfill.
ClusterScheduler = EasyScheduler | ConsumableScheduler | SlurmNodesScheduler | SlurmUnitsScheduler


@dataclass(frozen=True, slots=True)
class Start:
    """An entry that starts now, on the nodes of its `allocation`; None where any free ones will do.

    `backfilled` means before a blocked entry.
    """

    cluster: str
    entry: Entry
    allocation: Allocation | None
    backfilled: bool


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The outcome of a pass: starts in the order of the queue, neighbours in the order of their
    starts.

    `schedulers` answer why other entries did not start.
    """

    now_s: float
    starts: tuple[Start, ...]
    schedulers: Mapping[str, ClusterScheduler]

    @property
    def is_relieved(self) -> bool:
        """Return True when another pass may start more: see Budgets."""
        return any(scheduler.is_relieved for scheduler in self.schedulers.values())

    def reservations(self) -> dict[str, Reservation]:
        """Return the reservations, by cluster, of those that make one at a time."""
        reservations = {
            name: scheduler.reservation
            for name, scheduler in self.schedulers.items()
            if not isinstance(scheduler, SlurmScheduler)
        }
        return {
            name: reservation
            for name, reservation in reservations.items()
            if reservation is not None
        }

    def all_reservations(self) -> dict[str, list[Reservation]]:
        """Return the reservations, by cluster, of those too that make many."""
        found = {name: [each] for name, each in self.reservations().items()}
        for name, scheduler in self.schedulers.items():
            if isinstance(scheduler, SlurmScheduler):
                found[name] = [planned.reservation for planned in scheduler.planned()]
        return found

    def reservations_of(self, arrival: int) -> dict[str, Reservation]:
        """Return the reservations of one job, by cluster."""
        found: dict[str, Reservation] = {}
        for name, scheduler in self.schedulers.items():
            if (reservation := scheduler.reservation_for(arrival)) is not None:
                found[name] = reservation
        return found


def looking(scheduler: Scheduler | None) -> SlurmScheduler | None:
    """Return the scheduler of a cluster under Slurm's discipline; None for any other. Here, since
    only compiled code asks a compiled class with abstract methods for its subclasses rightly."""
    return scheduler if isinstance(scheduler, SlurmScheduler) else None


def units_of(scheduler: Scheduler) -> ConsumableScheduler | None:
    """Return what a cluster that is allocated in parts knows of them; None for one of whole
    nodes."""
    if isinstance(scheduler, SlurmUnitsScheduler):
        return scheduler.units
    return scheduler if isinstance(scheduler, ConsumableScheduler) else None


def schedule(now_s: float, schedulers: Mapping[str, ClusterScheduler]) -> Dispatch:
    """Make one pass over the queue, which the entries that start leave; schedulers are numbered by
    their place."""
    names = list(schedulers)
    starts = tuple(
        Start(names[number], entry, allocation, backfilled)
        for number, entry, allocation, backfilled in one_pass(list(schedulers.values()), now_s)
    )
    return Dispatch(now_s, starts, schedulers)


def serve(schedulers: Sequence[Scheduler], now_s: float) -> list[Served]:
    """Make passes over several schedulers until no more starts; entries that start leave all
    queues."""
    if len(schedulers) == 1:
        return schedulers[0].pass_alone(now_s)
    started = one_pass(schedulers, now_s)
    while any(scheduler.is_relieved for scheduler in schedulers):
        started += one_pass(schedulers, now_s)
    return started


def one_pass(schedulers: Sequence[Scheduler], now_s: float) -> list[Served]:
    """Make one pass over several schedulers as one queue.

    A scheduler that has served looks for its next entry once a job that starts has left all queues:
    the watts reserved for it elsewhere may be those that the next entry needs. So may be those of a
    job that is reserved for sooner than elsewhere: those behind a reservation get their turn again.
    """
    for scheduler in schedulers:
        scheduler.begin(now_s)
    for scheduler in schedulers:
        scheduler.turn()
    started: list[Served] = []
    orders = [scheduler.next_order for scheduler in schedulers]
    while orders and (order := min(orders)) != DONE:
        number = orders.index(order)
        served = schedulers[number].serve()
        if served is not None:
            started.append(served)
        _tell_others(schedulers, number, served)
        schedulers[number].turn()
        orders = [scheduler.next_order for scheduler in schedulers]
    for scheduler in schedulers:
        scheduler.finish()
    return started


def _tell_others(schedulers: Sequence[Scheduler], number: int, served: Served | None) -> None:
    """Let the others know of the turn of the one of this number."""
    has_moved, schedulers[number].has_moved = schedulers[number].has_moved, False
    if served is None and not has_moved:
        return
    for other, scheduler in enumerate(schedulers):
        if other == number:
            continue
        if served is not None:
            scheduler.drop(served[1].arrival)
        else:
            scheduler.look_again()


class Backfill(Dispatcher):
    """The schedulers of several clusters as one dispatcher: see Dispatcher.

    `arrivals` are, of one arrival after the other, the entries with the numbers of their clusters.
    Schedulers are numbered by their place.
    """

    def __init__(
        self,
        schedulers: Sequence[Scheduler],
        arrivals: Iterator[Arrival],
    ) -> None:
        self._schedulers, self._arrivals = schedulers, arrivals
        self._periodic = [each for each in schedulers if isinstance(each, SlurmScheduler)]
        budgets = [budget for scheduler in schedulers for budget in scheduler.budgets]
        steps_s = {from_s for budget in budgets for from_s, _ in budget.cap.steps}
        for each in schedulers:
            if (units := units_of(each)) is not None:
                steps_s.update(units.windows.times_s())
            elif isinstance(each, ConservativeScheduler):
                steps_s.update(each.times_s)
        # When a cap changes, or nodes are kept for others or no more, the next time last.
        self._steps_s = sorted((s for s in steps_s if s > -inf), reverse=True)

    @property
    def waits(self) -> bool:
        """Return True while anything waits."""
        return any(len(scheduler.queue) for scheduler in self._schedulers)

    def arrive(self) -> None:
        """Put the entries of the next arrival into the queues."""
        for number, entry in next(self._arrivals):
            self._schedulers[number].add(entry)

    def end(self, number: int, holder: int) -> None:
        """Free the nodes of a job."""
        self._schedulers[number].release(holder)

    def decide(self, now_s: float) -> list[Served]:
        """Return the entries that start now."""
        return serve(self._schedulers, now_s)

    def wake_s(self, now_s: float) -> float:
        """Return when a cap or what is kept for others changes next, or a scheduler looks again."""
        steps_s = self._steps_s
        if not (steps_s or self._periodic):
            return inf
        while steps_s and steps_s[-1] <= now_s:
            steps_s.pop()
        step_s = steps_s[-1] if steps_s else inf
        for scheduler in self._periodic:
            step_s = min(step_s, scheduler.wake_s)
        return step_s
