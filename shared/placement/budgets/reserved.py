"""Watts that are kept between passes: reserved for jobs that wait, for suspended ones, and for
those for which watts are being freed."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from shared.placement.budgets.joint_margin import JointMargin
from shared.placement.state.job_table import JobTable
from shared.scheduling.backfill import Dispatch, looking
from shared.scheduling.load import Reservation
from shared.scheduling.power import Budgets, PowerBudget, PowerReservation
from shared.scheduling.wait_queue import WaitQueue
from shared.streams.state.state import State

# The arrival number of no job, in shortages.
NOBODY: Final = -1
ByCluster = Mapping[str, Sequence[PowerBudget]]


def freed_holder(arrival: int) -> int:
    """Return what budgets call the holder of watts that are being freed for the job of this
    arrival number; and the other way about."""
    return NOBODY - 1 - arrival


def holder_id(arrival: int, job_ids: Mapping[int, str]) -> str:
    """Return the id of the job whose reservation is meant, or for which watts are being freed;
    empty for nobody's."""
    if arrival == NOBODY:
        return ""
    return job_ids.get(max(arrival, freed_holder(arrival)), "a requeued or removed job")


class KeptWatts(NamedTuple):
    """Watts for a job on one cluster, from a time on for so long; `holder` is its arrival number,
    or whatever budgets are to call it. `coming` is, by cluster, what is not there yet: what runs
    was asked to give it up."""

    cluster: str
    holder: int
    start_s: float
    duration_s: float
    draw_mw: int
    coming: Sequence[tuple[str, int]] = ()

    def put_into(self, budgets: ByCluster) -> None:
        """Reserve them: of what is not there yet nobody else is deprived."""
        for budget in budgets[self.cluster]:
            coming_mw = sum(mw for name, mw in self.coming if budget in budgets[name])
            kept_mw = max(self.draw_mw - coming_mw, 0)
            budget.reserve(self.holder, self.start_s, self.duration_s, kept_mw)


class SuspendedTurn(NamedTuple):
    """When and for how long the last round kept watts for a suspended job."""

    cluster: str
    arrival: int
    start_s: float
    left_s: float


class ReservedWatts(NamedTuple):
    """Watts that the last pass reserved for a job that waits."""

    cluster: str
    arrival: int
    start_s: float
    end_s: float
    draw_mw: int

    def from_now(self, now_s: float) -> KeptWatts:
        """Return what is kept of the reservation where it was to begin before."""
        start_s, duration_s = max(self.start_s, now_s), self.end_s - self.start_s
        return KeptWatts(self.cluster, self.arrival, start_s, duration_s, self.draw_mw)


class Reserved:
    """Watts that are reserved for jobs. What the last pass reserved is state, since no rebuild
    finds it out, and so is when suspended jobs were to run on; what they are to have beside what
    waits, and what is being freed, is worked out in every round."""

    def __init__(self, state: State, job_table: JobTable, margin: JointMargin) -> None:
        self._job_table, self._margin = job_table, margin
        self._kept = state.value("reserved-watts", tuple[ReservedWatts, ...])
        self.reservations = self._kept.get() or ()
        self._kept_turns = state.value("suspended-turns", tuple[SuspendedTurn, ...])
        self._turns = self._kept_turns.get() or ()
        self.of_suspended: list[KeptWatts] = []
        self.of_sharing: list[KeptWatts] = []

    def note(self, plan: Dispatch) -> None:
        """Store what a pass reserved, and when suspended jobs are to run on: it is reserved from
        now on."""
        reservations = tuple(_reservations(plan))
        if reservations != self.reservations:
            self.reservations = reservations
            self._kept.put(reservations)
        turns = tuple(SuspendedTurn(*kept[:4]) for kept in self.of_suspended)
        if turns != self._turns:
            self._turns = turns
            self._kept_turns.put(turns)

    def keep(self, budgets: ByCluster) -> None:
        """Put into budgets what is kept beside what waits."""
        for kept in [*self.of_suspended, *self.of_sharing]:
            kept.put_into(budgets)

    def committed(self, now_s: float, suspended: Container[int] = ()) -> ByCluster:
        """Return budgets with all that is held, with what the last pass reserved for jobs that
        still wait, and with what is kept beside. Where the round ends after one of the `suspended`
        jobs was to run on, what was reserved from its end on begins later too: else each would
        wait behind the other for ever."""
        budgets = self._margin.budgets(now_s)
        for budget in distinct(budgets):
            budget.advance(now_s)
        for name, occupancy in self._job_table.allocations.occupancy.items():
            under = Budgets(budgets[name])
            for held in occupancy.held:
                under.hold(held.holder, held.release_s, held.draw_mw)
        for one in self.reservations:
            if one.cluster in budgets and self._waits(one.arrival):
                kept = one.from_now(now_s)
                late = [t for t in self._turns if t.start_s < now_s and t.arrival in suspended]
                ends_s = [now_s + t.left_s for t in late if _is_behind(kept, t, budgets)]
                kept._replace(start_s=max([kept.start_s, *ends_s])).put_into(budgets)
        self.keep(budgets)
        return budgets

    def _waits(self, arrival: int) -> bool:
        job = self._job_table.at_arrival(arrival)
        return job is not None and job.waits


def _is_behind(kept: KeptWatts, turn: SuspendedTurn, budgets: ByCluster) -> bool:
    """Return whether watts are kept from the end of a suspended job on, under a budget of its."""
    if kept.start_s < turn.start_s + turn.left_s:
        return False
    return any(budget in budgets[turn.cluster] for budget in budgets[kept.cluster])


def distinct(budgets: ByCluster) -> list[PowerBudget]:
    """Return the budgets of all clusters; one that clusters share comes once."""
    return list({id(each): each for under in budgets.values() for each in under}.values())


def _reservations(plan: Dispatch) -> Iterator[ReservedWatts]:
    """Yield what a pass reserved, once a job: also where no cap is in force, since one may be
    declared before what is reserved begins."""
    for cluster, reservation in sorted(plan.reservations().items()):
        scheduler = plan.schedulers[cluster]
        found = [budget.reservation_of(reservation.arrival) for budget in scheduler.budgets]
        if not scheduler.budgets.any:
            found = [_reservation(scheduler.queue, reservation)]
        for watts in found:
            if watts is not None and watts.start_s == reservation.start_s:
                yield ReservedWatts(cluster, reservation.arrival, *watts)
                break
    for cluster in sorted(plan.schedulers):
        looks = looking(plan.schedulers[cluster])
        for each in looks.planned() if looks is not None else ():
            yield ReservedWatts(cluster, each.arrival, each.start_s, each.end_s, each.draw_mw)


def _reservation(queue: WaitQueue, reservation: Reservation) -> PowerReservation | None:
    """Return what an entry will draw that has a reservation."""
    order = queue.order_of(reservation.arrival)
    entry = None if order is None else queue.first(reservation.nodes, order)
    if entry is None or entry.arrival != reservation.arrival:
        return None
    return PowerReservation(reservation.start_s, reservation.start_s + entry.limit_s, entry.draw_mw)
