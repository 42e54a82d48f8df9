"""One cluster under EASY backfill whose jobs take whole nodes, any of them: see
`backfill_scheduler.py`. Nodes are counted; `consumable.py` is for all other jobs.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import inf
from sys import maxsize
from typing import Final

from shared.scheduling.backfill_scheduler import BackfillScheduler
from shared.scheduling.dispatch import Served
from shared.scheduling.headroom import LeastHeadroom
from shared.scheduling.load import ClusterState, Load, Reservation, Soonest
from shared.scheduling.power import NO_CAP_MW, PowerBudget
from shared.scheduling.releases import Releases
from shared.scheduling.wait_queue import Block, Entry, WaitQueue

# Node sets of a scheduler, at most.
_SCHEDULER_BITS: Final = 24


def holder_of(scheduler: int, place: int) -> int:
    """Return what scheduler and budgets call the holder of a node set that a scheduler began with:
    below 0, as no arrival number of a job that starts is."""
    return -1 - place - (scheduler << _SCHEDULER_BITS)


class _Noted:
    """The cluster after the entry `order` acted. One is made for each, and few are looked at."""

    def __init__(
        self, order: int, free: int, extra: int, blocked: Entry | None, shadow_s: float
    ) -> None:
        self.order, self._free, self._extra = order, free, extra
        self._blocked, self._shadow_s = blocked, shadow_s

    def state(self) -> ClusterState:
        """Return it as others see it."""
        promise, blocked = None, self._blocked
        if blocked is not None:
            promise = Reservation(blocked.arrival, blocked.nodes, self._shadow_s)
        return ClusterState(self.order, self._free, self._extra, promise)


class EasyScheduler(BackfillScheduler):
    """Counts nodes: an entry starts when its nodes are free, and behind a reservation when it ends
    by the shadow time or takes `extra` nodes only, which it uses up."""

    def __init__(
        self,
        load: Load,
        queue: WaitQueue,
        number: int = 0,
        budgets: Sequence[PowerBudget] = (),
        *,
        backfills: bool = True,
    ) -> None:
        super().__init__(queue, number, budgets, backfills=backfills)
        self.total, self.free, self.extra = load.nodes, load.free, 0
        self.releases = Releases()
        self._shadow_s = inf
        self._may_wait_for_ever = self._is_capped
        # What became of the cluster entry by entry. `_undone` are the ends of it behind
        # which entries got their turn again, `_left` how many there were when a job went
        # elsewhere.
        self._trail: list[_Noted] = []
        self._undone: list[list[_Noted]] = []
        self._left: dict[int, int] = {}
        for place, node_set in enumerate(load.node_sets):
            node_set.holder = holder_of(number, place)
            self._may_wait_for_ever |= node_set.release_s == inf
            self._hold(node_set.holder, node_set.nodes, node_set.release_s, node_set.draw_mw)

    # A pass, and between passes -------------------------------------------------------------------

    def _open_pass(self, now_s: float, *, pauses: bool) -> bool:
        if not super()._open_pass(now_s, pauses=pauses):
            return False
        self._trail = []
        self._note(-1)
        if self._left:
            self._undone, self._left = [], {}
        return True

    def add(self, entry: Entry) -> None:
        """Put an entry that arrived into the queue."""
        blocked = self._blocked
        if blocked is not None and entry.order > blocked.order and entry.nodes > self.free:
            self.queue.add(entry)  # refused already: what it lacks only grows less
        else:
            super().add(entry)

    def drop(self, arrival: int) -> None:
        """Take out the entry of a job that started elsewhere, and what was reserved for it."""
        if arrival in self.queue:
            self._left[arrival] = len(self._undone)
        super().drop(arrival)

    def release(self, holder: int) -> None:
        """Free what the job `holder` had."""
        if self._is_capped:
            self.budgets.release(holder)
        _, _, nodes = self.releases.release(holder)
        self.free += nodes
        self._unsettle()

    def look_again(self) -> None:
        """Give those behind the reservation their turn again."""
        if self._blocked is not None:
            self._undo(self._blocked.order)
        super().look_again()

    def _cancel(self, order: int) -> None:
        super()._cancel(order)
        self._undo(order)

    def _undo(self, order: int) -> None:
        """Note the cluster as it is now for those from an order on, whose turn comes again."""
        place = bisect_left(self._trail, order, key=_noted_order)
        if place < len(self._trail):
            self._undone.append(self._trail[place:])
            del self._trail[place:]
            self._note(order)

    def _forget_reservation(self) -> None:
        super()._forget_reservation()
        self._shadow_s, self.extra = inf, 0

    # What it answers ----------------------------------------------------------------------------

    @property
    def shadow_s(self) -> float:
        """Return when the reservation begins; infinite where there is none."""
        return self._shadow_s

    @property
    def state(self) -> ClusterState:
        """Return the cluster as it is now."""
        return self._trail[-1].state()

    def state_before(self, entry: Entry) -> ClusterState:
        """Return the cluster when the turn of an entry came last: before its job started elsewhere,
        if it did, whatever was taken back since."""
        order = entry.order
        for undone in self._undone[self._left.get(entry.arrival, maxsize) :]:
            if undone[0].order < order:
                return _last_before(undone, order).state()
        return _last_before(self._trail, order).state()

    def expected_ends(self) -> list[tuple[float, int]]:
        """Return when the holders of nodes are expected to end."""
        return [(release_s, holder) for release_s, holder, _ in self.releases.in_order]

    @property
    def is_any_allocated_for_ever(self) -> bool:
        """Return True where some nodes are never expected back."""
        return self.releases.last_s == inf

    def _ever_fits(self, entry: Entry) -> bool:
        return entry.nodes <= self.total

    def _earliest(self, entry: Entry, from_s: float) -> Soonest:
        available, shadow_s, needed = self.free, from_s, entry.nodes
        for release_s, _, nodes in self.releases.in_order:
            if available >= needed and release_s > shadow_s:
                break
            available += nodes
            if release_s > shadow_s:
                shadow_s = release_s
        return Soonest(shadow_s, available)

    # What it does -------------------------------------------------------------------------------

    def _starting(self, entry: Entry) -> Entry | None:
        """Return the entry in the mode in which it starts now, whose own leaves what is reserved;
        None where there is none."""
        if entry.nodes > self.free:
            return None
        if self._has_power(entry):
            return entry
        for mode in entry.others:
            end_s = self._now_s + mode.limit_s
            if not self.budgets.has(mode.draw_mw, end_s, entry.arrival):
                continue
            if end_s <= self._shadow_s or entry.nodes <= self.extra:
                return entry.in_mode(mode)
        return None

    def _start(self, entry: Entry) -> Served:
        nodes, end_s = entry.nodes, self._now_s + entry.limit_s
        if end_s > self._shadow_s:
            self.extra -= nodes
        self.free -= nodes
        self.queue.start(entry.arrival)
        self._note(entry.order)
        self._hold(entry.arrival, nodes, end_s, entry.draw_mw)
        return self.number, entry, None, self._blocked is not None

    def _hold(self, holder: int, nodes: int, release_s: float, draw_mw: int) -> None:
        self.releases.hold((release_s, holder, nodes))
        if self._is_capped:
            self.budgets.hold(holder, release_s, draw_mw)

    def _reserve(self, entry: Entry, soonest: Soonest) -> None:
        self._shadow_s, self.extra = soonest.start_s, soonest.units - entry.nodes
        self._note(entry.order)

    def _note(self, order: int) -> None:
        """Note what became of the cluster."""
        noted = _Noted(order, self.free, self.extra, self._blocked, self._shadow_s)
        self._trail.append(noted)

    # The next entry -----------------------------------------------------------------------------

    def _first_that_fits(self, order: int) -> Entry | None:
        return self.queue.first(self.total, order if self._may_wait_for_ever else 0)

    def _may_any_start(self) -> bool:
        return self.free > 0

    def _may_none_start(self, block: Block, order: int, least: LeastHeadroom | None) -> bool:
        in_time = self._now_s + block.least_limit_s <= self._shadow_s
        starts = block.least_nodes <= self.free and (in_time or block.least_nodes <= self.extra)
        return not starts or (least is not None and not self._powered.has_any(block, order, least))

    def _first_to_start(self, block: Block, order: int) -> Entry | None:
        now_s, shadow_s = self._now_s, self._shadow_s
        free, extra = self.free, self.extra
        power_mw = self.budgets.undrawn_mw if self._is_capped else NO_CAP_MW
        entries = block.entries
        for place in range(block.place_of(order), len(entries)):
            entry = entries[place]
            nodes = entry.nodes
            if (
                nodes <= free
                and (nodes <= extra or now_s + entry.limit_s <= shadow_s)
                and (entry.draw_mw <= power_mw or entry.others)
                and (not self._is_capped or self._starting(entry) is not None)
            ):
                return entry
        return None


def _noted_order(noted: _Noted) -> int:
    return noted.order


def _last_before(trail: list[_Noted], order: int) -> _Noted:
    return trail[bisect_left(trail, order, key=_noted_order) - 1]
