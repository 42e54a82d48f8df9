"""One cluster under EASY backfill: what runs, what waits, and which entry acts next.

Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling"
(2001), section 2. Two resources are counted: nodes, and watts where there are budgets of power.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import inf
from sys import maxsize
from typing import Final, cast

from shared.scheduling.dispatch import Scheduler, Served
from shared.scheduling.headroom import LeastHeadroom
from shared.scheduling.load import ClusterState, Load, Reservation
from shared.scheduling.power import NO_CAP_MW, Budgets, PowerBudget, Shortage
from shared.scheduling.powered_entries import PoweredEntries
from shared.scheduling.releases import Releases
from shared.scheduling.wait_queue import Block, Entry, WaitQueue

# The next order of a scheduler in which no entry will act before something changes.
DONE: Final = maxsize

# Node sets of a scheduler, at most.
_SCHEDULER_BITS: Final = 24

# A Reservation and a ClusterState as plain tuples: one a pass, few ever looked at.
_ReservationTuple = tuple[int, int, float]
_ClusterState = tuple[int, int, int, _ReservationTuple | None]
# The next entry that acts, or an order before which none does: as far as was looked.
Turn = Entry | int


def holder_of(scheduler: int, place: int) -> int:
    """What scheduler and budgets call the holder of a node set that a scheduler began with: below
    0, as no arrival number of a job that starts is."""
    return -1 - place - (scheduler << _SCHEDULER_BITS)


class EasyScheduler(Scheduler):
    """Starts and reserves in the order of its queue, by counting nodes: those of whole-node jobs,
    of which any will do. See `consumable.py` for all others.

    An entry starts when its nodes are free and it delays no reservation: it ends by the shadow
    time, or takes extra nodes only, which it uses up.

    What starts fits under every one of the `budgets` until its limit, beside what runs and
    what is reserved there. Where watts alone refuse an entry, it starts in the first of its other
    modes that fits. Schedulers that share a budget begin anew with every pass: what one of them
    gives back another one may take. An entry that no budget will ever let start blocks nobody, nor
    does one whose nodes are held for ever.

    A pass is `begin`, `turn`, `serve` while `next_order` is not DONE, `finish`; or `pass_alone`. An
    entry that was refused stays refused until nodes come back: what it lacked only grows less. So a
    scheduler that lives on looks at new entries alone, and begins anew after a `release`.

    `backfills` False makes it first come, first served: nothing passes the reservation.
    """

    def __init__(
        self,
        load: Load,
        queue: WaitQueue,
        number: int = 0,
        budgets: Sequence[PowerBudget] = (),
        *,
        backfills: bool = True,
    ) -> None:
        self.number, self.total, self.free = number, load.nodes, load.free
        self.queue = queue
        self._reservation: _ReservationTuple | None = None
        self.extra = 0
        self.next_order = DONE
        self._turns: Iterator[Turn] = iter(())
        self._next: Turn = DONE
        self._backfills, self._pauses, self._is_open = backfills, False, False
        self.budgets = Budgets(budgets)
        self._is_capped = self._may_wait_for_ever = self.budgets.any
        self._powered = PoweredEntries(queue)
        self._now_s, self._from, self._reserved_order = 0.0, 0, 0
        self.releases = Releases()
        # What became of the cluster entry by entry. `_undone` are the ends of it that reservations
        # took with them when they were given up, `_left` how many there were when a job went
        # elsewhere.
        self._trail: list[_ClusterState] = []
        self._undone: list[list[_ClusterState]] = []
        self._left: dict[int, int] = {}
        for place, node_set in enumerate(load.node_sets):
            node_set.holder = holder_of(number, place)
            self._may_wait_for_ever |= node_set.release_s == inf
            self._hold(node_set.holder, node_set.nodes, node_set.release_s, node_set.draw_mw)

    # The life of a scheduler ----------------------------------------------------------------------

    def begin(self, now_s: float) -> None:
        """Start a pass in which other schedulers take turns."""
        self._is_open = True
        self._open_pass(now_s, pauses=True)

    def finish(self) -> None:
        """The pass is over."""
        self._is_open = False

    def pass_alone(self, now_s: float) -> list[Served]:
        """A pass that this scheduler is alone in: what starts."""
        if not self._open_pass(now_s, pauses=False):
            return []
        acting = cast("Iterator[Entry]", self._turns)  # without pauses there are only entries
        return [served for entry in acting if (served := self._act(entry))]

    def _open_pass(self, now_s: float, *, pauses: bool) -> bool:
        """Whether anything changed since the last pass."""
        self._now_s, self._pauses = now_s, pauses
        if self._reservation is not None and self._reservation[2] < now_s:
            self._unsettle()  # a running job is overdue: it is expected to end at any moment
        if self._is_capped and self.budgets.begin(now_s):
            self._unsettle()
        if self._from == DONE:
            return False
        self._trail = [(-1, self.free, self.extra, self._reservation)]
        self._powered.begin(now_s)
        if self._left:
            self._undone, self._left = [], {}
        self._turns = self._acting(self._from)
        self._from = DONE
        return True

    @property
    def is_relieved(self) -> bool:
        """True when another pass may start more: see Budgets."""
        return self.budgets.is_relieved

    def turn(self) -> None:
        """Look for the next entry that will start or reserve, a little way: no entry acts
        before `next_order`."""
        turn = self._next = next(self._turns, DONE)
        self.next_order = turn if isinstance(turn, int) else turn[0]

    def serve(self) -> Served | None:
        """Let the entry of the present turn act, if it is one: what starts, if any."""
        turn = self._next
        return None if isinstance(turn, int) else self._act(turn)

    def add(self, entry: Entry) -> None:
        """An entry arrived."""
        self.queue.add(entry)
        order, _, nodes, _, _, _, _, _ = entry
        if self._reservation is not None:
            if order < self._reserved_order:
                self._unsettle()
            elif nodes > self.free:
                return  # refused already: what it lacks only grows less
        if order < self._from:
            self._from = order

    def drop(self, arrival: int) -> None:
        """Take out the entry of a job that started elsewhere, and what was reserved for it."""
        order = self.queue.order_of(arrival)
        if order is None:
            return
        self.queue.remove(arrival)
        self._left[arrival] = len(self._undone)
        if self._reservation is not None and self._reservation[0] == arrival:
            if self._is_open:
                self._cancel(order)
            else:
                self._give_up()
                self._from = min(self._from, order)
        elif self.next_order == order:
            self.turn()

    def release(self, holder: int) -> None:
        """What the job `holder` holds is free again."""
        if self._is_capped:
            self.budgets.let_go(holder)
        _, _, nodes = self.releases.let_go(holder)
        self.free += nodes
        self._unsettle()

    # What it answers ----------------------------------------------------------------------------

    @property
    def state(self) -> ClusterState:
        """The cluster as it is now."""
        return _state(self._trail[-1])

    @property
    def reservation(self) -> Reservation | None:
        """What is reserved for the first entry that cannot start."""
        return Reservation(*self._reservation) if self._reservation else None

    @property
    def reserved_for(self) -> int:
        """The arrival number of whom it is reserved for; below 0 for nobody."""
        return self._reservation[0] if self._reservation else -1

    def expected_ends(self) -> list[tuple[float, int]]:
        """When the holders of nodes are expected to end."""
        return [(held[0], held[1]) for held in self.releases.in_order]

    def state_before(self, entry: Entry) -> ClusterState:
        """The cluster when the turn of an entry came last: before its job started elsewhere, if it
        did, whatever was taken back since."""
        order, arrival = entry[0], entry[1]
        for undone in self._undone[self._left.get(arrival, maxsize) :]:
            if undone[0][0] < order:
                return _state(undone[bisect_left(undone, (order,)) - 1])
        return _state(self._trail[bisect_left(self._trail, (order,)) - 1])

    def end_s(self, entry: Entry) -> float:
        """When the entry ends at the latest if it starts now."""
        return self._now_s + entry.limit_s

    @property
    def is_any_held_for_ever(self) -> bool:
        """True where nobody expects some nodes back."""
        held = self.releases.in_order
        return bool(held) and held[-1][0] == inf

    def expects_nodes(self, entry: Entry) -> bool:
        """False where too many of its nodes are held for ever."""
        return entry.nodes > self.total or self._shadow(entry.nodes, self._now_s)[0] < inf

    def shortages(self, entry: Entry) -> list[Shortage]:
        """The budgets that do not let the entry start now, as they are now."""
        return self.budgets.shortages(entry.draw_mw, self.end_s(entry), entry.arrival)

    def _has_power(self, entry: Entry) -> bool:
        """True when no budget is exceeded and no reservation there is delayed."""
        return self.budgets.has(entry[6], self._now_s + entry[3], entry[1])

    # What it does -------------------------------------------------------------------------------

    def _act(self, entry: Entry) -> Served | None:
        starting = self._starting(entry)
        reservation = self._reservation
        if starting is None:
            # Since it was looked up another scheduler may have taken the watts that were left.
            return self._reserve(entry) if reservation is None else None
        entry = starting
        _, arrival, nodes, limit_s, _, _, draw_mw, _ = entry
        end_s = self._now_s + limit_s
        if reservation is not None and end_s > reservation[2]:
            self.extra -= nodes
        self.free -= nodes
        self._leave(entry)
        self._hold(arrival, nodes, end_s, draw_mw)
        return self.number, entry, None, reservation is not None

    def _starting(self, entry: Entry) -> Entry | None:
        """The entry in the mode in which it starts now, whose own leaves what is reserved; None
        where there is none."""
        if entry[2] > self.free:
            return None
        if not self._is_capped or self._has_power(entry):
            return entry
        for mode in entry[7]:
            end_s = self._now_s + mode.limit_s
            if not self.budgets.has(mode.draw_mw, end_s, entry[1]):
                continue
            reservation = self._reservation
            if reservation is None or entry[2] <= self.extra or end_s <= reservation[2]:
                return entry.in_mode(mode)
        return None

    def _hold(self, holder: int, nodes: int, release_s: float, draw_mw: int) -> None:
        self.releases.hold((release_s, holder, nodes))
        if self._is_capped:
            self.budgets.hold(holder, release_s, draw_mw)

    def _reserve(self, entry: Entry) -> Served | None:
        """Reserve nodes for the next entry in the mode in which they and the watts are there first:
        the first entry on this cluster that cannot start. What no budget will ever let start, or
        whose nodes are held for ever, waits for another cap, and blocks nobody."""
        shadow_s, available = self._earliest(entry)
        promised = entry
        for mode in entry[7]:
            other = entry.in_mode(mode)
            found = self._earliest(other)
            if found[0] < shadow_s:
                (shadow_s, available), promised = found, other
        if shadow_s == inf:
            return None
        order, arrival, nodes, limit_s, _, _, draw_mw, _ = promised
        self._reservation = arrival, nodes, shadow_s
        self._reserved_order = order
        self.extra = available - nodes
        if self._is_capped:
            self.budgets.reserve(arrival, shadow_s, limit_s, draw_mw)
        self._note(order)
        return None

    def _earliest(self, entry: Entry) -> tuple[float, int]:
        """When an entry's nodes and watts will be there if limits hold, and all nodes that are free
        then; infinite where no budget ever has the watts, or nodes are held for ever."""
        _, arrival, nodes, limit_s, _, _, draw_mw, _ = entry
        shadow_s, available = self._shadow(nodes, self._now_s)
        while (
            self._is_capped
            and (later_s := self.budgets.earliest(draw_mw, limit_s, shadow_s, arrival)) > shadow_s
        ):
            if later_s == inf:
                return inf, 0
            shadow_s, available = self._shadow(nodes, later_s)
        return shadow_s, available

    def _shadow(self, needed: int, from_s: float) -> tuple[float, int]:
        """When, from a time on, there will be nodes enough if limits hold, and all that are free
        then."""
        available, shadow_s = self.free, from_s
        for release_s, _, nodes in self.releases.in_order:
            if available >= needed and release_s > shadow_s:
                break
            available += nodes
            if release_s > shadow_s:  # an overdue job is expected to end at any moment
                shadow_s = release_s
        return shadow_s, available

    def _cancel(self, order: int) -> None:
        """Forget the reservation to an entry that is gone: those behind it get their turn again."""
        self.budgets.withdraw()
        self._give_up()
        place = bisect_left(self._trail, (order,))
        self._undone.append(self._trail[place:])
        del self._trail[place:]
        self._note(order)
        self._turns = self._acting(order)
        self.turn()

    def _unsettle(self) -> None:
        """Nodes or watts came back: every entry gets its turn again."""
        self._give_up()
        self._from = 0

    def _give_up(self) -> None:
        """There is no reservation any more."""
        if self._reservation is not None:
            self.budgets.give_up(self._reservation[0])
        self._reservation, self.extra = None, 0

    def _leave(self, entry: Entry) -> None:
        self.queue.remove(entry.arrival)
        self._note(entry.order)

    def _note(self, order: int) -> None:
        """What became of the cluster."""
        self._trail.append((order, self.free, self.extra, self._reservation))

    # The next entry -----------------------------------------------------------------------------

    def _acting(self, order: int) -> Iterator[Turn]:
        """The entries, from an order on, that act; each has acted when the next is asked for.

        Where asked to, it pauses before it looks through entries: a job that just got a reservation
        often starts on the next cluster of its rank, and what was found behind it would be in vain.
        """
        queue = self.queue
        while self._reservation is None:
            entry = queue.first(self.total, order if self._may_wait_for_ever else 0)
            if entry is None:
                return
            yield entry
            order = entry[0] + 1
        if not self._backfills or queue.last_order < order:
            return
        least = self.budgets.least_headroom
        for block in queue.blocks_from(order):
            if self._may_none_start(block, order, least):
                continue
            if self._pauses and (place := block.place_of(order)) < len(block.entries):
                yield block.entries[place][0]
            while (entry := self._backfills_first(block, order)) is not None:
                yield entry
                order = entry[0] + 1
            least = self.budgets.least_headroom  # others had their turn

    def _backfills_first(self, block: Block, order: int) -> Entry | None:
        """The first entry of a block, from an order on, that starts."""
        assert self._reservation is not None
        now_s, shadow_s = self._now_s, self._reservation[2]
        free, extra = self.free, self.extra
        power_mw = self.budgets.undrawn_mw if self._is_capped else NO_CAP_MW
        entries = block.entries
        for place in range(block.place_of(order), len(entries)):
            entry = entries[place]
            nodes = entry[2]
            if (
                nodes <= free
                and (nodes <= extra or now_s + entry[3] <= shadow_s)
                and (entry[6] <= power_mw or entry[7])
                and (not self._is_capped or self._starting(entry) is not None)
            ):
                return entry
        return None

    def _may_none_start(self, block: Block, order: int, least: LeastHeadroom | None) -> bool:
        """True when no entry of a block, from an order on, may start before the reservation."""
        assert self._reservation is not None
        in_time = self._now_s + block.least_limit_s <= self._reservation[2]
        starts = block.least_nodes <= self.free and (in_time or block.least_nodes <= self.extra)
        return not starts or (least is not None and not self._powered.has_any(block, order, least))


def _state(noted: _ClusterState) -> ClusterState:
    order, free, extra, reservation = noted
    return ClusterState(order, free, extra, Reservation(*reservation) if reservation else None)
