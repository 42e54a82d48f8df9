"""What kept an entry from starting in a pass over the queue, typed and in figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shared.scheduling.backfill import ClusterScheduler, Dispatch, units_of
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.licences import LicenceShortage
from shared.scheduling.load import ClusterState
from shared.scheduling.power import Shortage
from shared.scheduling.slurm import SlurmScheduler
from shared.scheduling.slurm_nodes import SlurmNodesScheduler
from shared.scheduling.slurm_units import SlurmUnitsScheduler
from shared.scheduling.wait_queue import Entry
from shared.scheduling.windows import Window


class TooFew(NamedTuple):
    """The cluster has fewer nodes than are needed, or fewer units fit on it when it is empty."""

    needed: int
    total: int


class Busy(NamedTuple):
    """Fewer nodes or units are free than are needed, until a reservation begins: 0 without."""

    needed: int
    free: int
    until_s: float = 0.0


class ReservationBegins(NamedTuple):
    """The reservation that the entry is of begins at a time."""

    reservation: str
    begin_s: float


class KeptForOthers(NamedTuple):
    """The entry would fit but for windows that it would run into if it started now: it ends at a
    time at the latest."""

    needed: int
    free: int
    ends_s: float
    windows: Sequence[Window]


class NeighboursRefuse(NamedTuple):
    """Fewer units are free beside neighbours that suit the job than are needed, and why."""

    needed: int
    free: int
    why: str


class DelaysReservation(NamedTuple):
    """The entry would end after a reservation begins, of the job of this arrival number, and leave
    less than it needs: of nodes it may use the `extra` ones, of units nobody counts them."""

    needed: int
    ends_s: float
    reserved_for: int
    start_s: float
    extra: int | None = None


class AwaitsLook(NamedTuple):
    """Slurm's backfill has not reached the entry: it looks again at a time, after a last look at so
    many jobs, or until its table had so many records; 0 where the last one did not end early."""

    at_s: float
    depth: int = 0
    records: int = 0


class NodesNeverReleased(NamedTuple):
    """Suspended jobs that no cap lets resume have nodes that the entry needs."""


class WattsMissing(NamedTuple):
    """Budgets of power refuse the entry, at so many lower P-states too."""

    shortages: Sequence[Shortage]
    lower_pstates: int


class LicencesMissing(NamedTuple):
    """Too few licences are free until the limit of the entry, or some are reserved for others."""

    shortages: Sequence[LicenceShortage]


Refusal = (
    TooFew
    | Busy
    | ReservationBegins
    | KeptForOthers
    | NeighboursRefuse
    | DelaysReservation
    | AwaitsLook
    | NodesNeverReleased
    | LicencesMissing
    | WattsMissing
)


@dataclass(frozen=True, slots=True)
class Refusals:
    """Returns what kept the entries of one pass from starting."""

    plan: Dispatch

    def of(self, cluster: str, entry: Entry) -> list[Refusal]:
        """Return why an entry did not start when its turn came, empty where nothing kept it. Of
        watts that is what there is when the pass is over, without what the job itself has on
        another cluster: there was more before, but not enough."""
        scheduler = self.plan.schedulers[cluster]
        if isinstance(scheduler, ConsumableScheduler):
            nodes = _no_units(scheduler, entry)
        elif isinstance(scheduler, SlurmScheduler):
            nodes = _no_turn(scheduler, entry)
        else:
            nodes = _no_nodes(scheduler, entry, scheduler.state_before(entry))
        found: list[Refusal] = []
        if nodes is not None:
            reservation = scheduler.reservation_for(entry.arrival)
            if reservation and isinstance(nodes, Busy):
                nodes = nodes._replace(until_s=reservation.start_s)
            found.append(nodes)
        if scheduler.is_any_allocated_for_ever and not scheduler.expects_nodes(entry):
            found.append(NodesNeverReleased())
        if licences := _no_licences(scheduler, entry):
            found = [each for each in found if not isinstance(each, AwaitsLook)]
            found.append(LicencesMissing(licences))
        if shortages := self.shortages(cluster, entry):
            found = [each for each in found if not isinstance(each, AwaitsLook)]
            found.append(WattsMissing(shortages, len(entry.others)))
        return found

    def shortages(self, cluster: str, entry: Entry) -> list[Shortage]:
        """Return the budgets of power that did not let an entry start."""
        return self.plan.schedulers[cluster].shortages(entry)

    def lacks_watts_alone(self, cluster: str, entry: Entry) -> bool:
        """Return whether an entry would start now, behind all that did, but for budgets of
        power."""
        scheduler = self.plan.schedulers[cluster]
        if isinstance(scheduler, ConsumableScheduler):
            has_room = _no_units(scheduler, entry) is None
            has_room = has_room and not scheduler.licence_shortages(entry)
        elif isinstance(scheduler, SlurmScheduler):
            has_room = isinstance(_no_turn(scheduler, entry), AwaitsLook)
            has_room = has_room and not _no_licences(scheduler, entry)
        else:
            is_own = scheduler.reservation and scheduler.reservation.arrival == entry.arrival
            now = scheduler.state
            now = now._replace(reservation=None) if is_own else now
            has_room = _no_nodes(scheduler, entry, now) is None
        return has_room and bool(self.shortages(cluster, entry))


def _no_nodes(scheduler: EasyScheduler, entry: Entry, before: ClusterState) -> Refusal | None:
    nodes = entry.nodes
    if (refused := _too_few(nodes, scheduler.total, before.free)) is not None:
        return refused
    ends_s, reservation = scheduler.end_s(entry), before.reservation
    if before.in_time(ends_s) or nodes <= before.extra:
        return None
    assert reservation is not None
    return DelaysReservation(nodes, ends_s, reservation.arrival, reservation.start_s, before.extra)


def _too_few(nodes: int, total: int, free: int) -> Refusal | None:
    if nodes > total:
        return TooFew(nodes, total)
    return Busy(nodes, free) if nodes > free else None


def _no_turn(scheduler: SlurmNodesScheduler | SlurmUnitsScheduler, entry: Entry) -> Refusal:
    """Return what refuses an entry as it is when the pass is over: its nodes, what the last look
    reserved for those before it, or that no look has reached it."""
    if isinstance(scheduler, SlurmUnitsScheduler):
        refused = _no_units(scheduler.units, entry)
    else:
        refused = _too_few(entry.nodes, scheduler.total, scheduler.free)
    if refused is not None:
        return refused
    if (delayed := scheduler.delayed_by(entry)) is not None:
        reservation, extra = delayed
        ends_s, (arrival, _, start_s) = scheduler.end_s(entry), reservation
        return DelaysReservation(entry.nodes, ends_s, arrival, start_s, extra)
    rules, depth, records = scheduler.parameters, 0, 0
    if entry.order >= scheduler.ended_before:
        is_full = scheduler.is_table_full
        depth, records = (0, rules.records) if is_full else (rules.depth, 0)
    return AwaitsLook(scheduler.next_look_s, depth, records)


def _no_licences(scheduler: ClusterScheduler, entry: Entry) -> list[LicenceShortage]:
    """Return the licences that an entry lacks: jobs that need some make a cluster consumable."""
    units = units_of(scheduler)
    return [] if units is None else units.licence_shortages(entry)


def _no_units(scheduler: ConsumableScheduler, entry: Entry) -> Refusal | None:
    """Return what refuses an entry now that the pass is over: what did then does so still."""
    if (own := scheduler.awaited_window(entry)) is not None:
        return ReservationBegins(own.name, own.from_s)
    units, now = entry.nodes, scheduler.units_now(entry)
    if units <= now:
        return _reserved(scheduler, entry)
    most = scheduler.most_units(entry)
    if units > most:
        return TooFew(units, most)
    if scheduler.windows.any and units <= scheduler.units_without_windows(entry):
        against = scheduler.windows_against(entry)
        return KeptForOthers(units, now, scheduler.end_s(entry), against)
    beside_anyone = scheduler.units_beside_anyone(entry)
    if units > beside_anyone:
        return Busy(units, beside_anyone)
    return NeighboursRefuse(units, now, scheduler.why_no_neighbour(entry))


def _reserved(scheduler: ConsumableScheduler, entry: Entry) -> Refusal | None:
    """Return the reservation that the entry would delay, though its units are free."""
    reservation = scheduler.reservation
    is_own = reservation is not None and reservation.arrival == entry.arrival
    if reservation is None or is_own or scheduler.leaves_reservation(entry):
        return None
    ends_s = scheduler.end_s(entry)
    return DelaysReservation(entry.nodes, ends_s, reservation.arrival, reservation.start_s)
