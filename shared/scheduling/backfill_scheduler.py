"""One cluster under EASY backfill, whatever its jobs take of it: which entry acts next, and what is
reserved.

Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling"
(2001), section 2. What fits is counted in `easy.py` by whole nodes, in `consumable.py` by parts of
them; watts are counted here, where there are budgets of power.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final, cast

from shared.scheduling.dispatch import DONE, Scheduler, Served
from shared.scheduling.headroom import LeastHeadroom
from shared.scheduling.load import Reservation, Soonest
from shared.scheduling.power import Budgets, PowerBudget, Shortage
from shared.scheduling.powered_entries import PoweredEntries
from shared.scheduling.wait_queue import Block, Entry, WaitQueue

# The next entry that acts, or an order before which none does: as far as was looked.
Turn = Entry | int

_NEVER: Final = Soonest(inf, 0)


class BackfillScheduler(Scheduler):
    """Starts and reserves in the order of its queue.

    An entry starts when it fits and delays no reservation: it ends by the shadow time, or takes
    only what the reserved entry does not need.

    What starts fits under every one of the `budgets` until its limit, beside what runs and
    what is reserved there. Where watts alone refuse an entry, it starts in the first of its other
    modes that fits. Schedulers that share a budget begin anew with every pass: what one of them
    gives back another one may take. An entry that no budget will ever let start blocks nobody, nor
    does one whose nodes are allocated for ever.

    A pass is `begin`, `turn`, `serve` while `next_order` is not DONE, `finish`; or `pass_alone`. An
    entry that was refused stays refused until nodes are free again: what it lacked only grows less.
    So a scheduler that lives on looks at new entries alone, and begins anew after a `release`.

    `backfills` False makes it first come, first served: nothing passes the reservation.
    """

    def __init__(
        self, queue: WaitQueue, number: int, budgets: Sequence[PowerBudget], *, backfills: bool
    ) -> None:
        self.number, self.queue, self.next_order = number, queue, DONE
        self.budgets = Budgets(budgets)
        self._is_capped = self.budgets.any
        self._powered = PoweredEntries(queue)
        # The first entry that cannot start, in the mode that is reserved for.
        self._blocked: Entry | None = None
        self._turns: Iterator[Turn] = iter(())
        self._next: Turn = DONE
        self._backfills, self._pauses, self._is_open = backfills, False, False
        self._now_s, self._from = 0.0, 0

    # A pass -------------------------------------------------------------------------------------

    def begin(self, now_s: float) -> None:
        """Start a pass in which other schedulers take turns."""
        self._is_open = True
        self._open_pass(now_s, pauses=True)

    def finish(self) -> None:
        """End the pass."""
        self._is_open = False

    def pass_alone(self, now_s: float) -> list[Served]:
        """Make a pass that this scheduler is alone in: return what starts."""
        if not self._open_pass(now_s, pauses=False):
            return []
        acting = cast("Iterator[Entry]", self._turns)  # without pauses there are only entries
        return [served for entry in acting if (served := self._act(entry))]

    def _open_pass(self, now_s: float, *, pauses: bool) -> bool:
        """Start a pass; False where nothing changed since the last one."""
        self._now_s, self._pauses = now_s, pauses
        if self.shadow_s < now_s:
            self._unsettle()  # a running job is overdue: it is expected to end at any moment
        if self._is_capped and self.budgets.begin(now_s):
            self._unsettle()
        if self._from == DONE:
            return False
        self._powered.begin(now_s)
        self._turns = self._acting(self._from)
        self._from = DONE
        return True

    def turn(self) -> None:
        """Look for the next entry that will start or reserve, a little way: no entry acts
        before `next_order`."""
        turn = self._next = next(self._turns, DONE)
        self.next_order = turn if isinstance(turn, int) else turn.order

    def serve(self) -> Served | None:
        """Let the entry of the present turn act, if it is one: return what starts, if any."""
        turn = self._next
        return None if isinstance(turn, int) else self._act(turn)

    # Between and in passes ------------------------------------------------------------------------

    def add(self, entry: Entry) -> None:
        """Put an entry that arrived into the queue."""
        self.queue.add(entry)
        if self._blocked is not None and entry.order < self._blocked.order:
            self._unsettle()
        if entry.order < self._from:
            self._from = entry.order

    def drop(self, arrival: int) -> None:
        """Take out the entry of a job that started elsewhere, and what was reserved for it."""
        order = self.queue.order_of(arrival)
        if order is None:
            return
        self.queue.start(arrival)
        if self.reserved_for == arrival:
            if self._is_open:
                self._cancel(order)
            else:
                self._forget_reservation()
                self._from = min(self._from, order)
        elif self.next_order == order:
            self.turn()

    def _cancel(self, order: int) -> None:
        """Forget the reservation to an entry that was removed: those behind it get their turn
        again."""
        self.budgets.withdraw()
        self._forget_reservation()
        self._turns = self._acting(order)
        self.turn()

    def look_again(self) -> None:
        """Give those behind the reservation their turn again."""
        if self._blocked is not None:
            self._turns = self._acting(self._blocked.order + 1)
            self.turn()

    def _unsettle(self) -> None:
        """Give every entry its turn again: nodes or watts were released."""
        self._forget_reservation()
        self._from = 0

    def _forget_reservation(self) -> None:
        if self._blocked is not None:
            self.budgets.give_up(self._blocked.arrival)
        self._blocked = None

    # What it answers ----------------------------------------------------------------------------

    @property
    def is_relieved(self) -> bool:
        """Return True when another pass may start more: see Budgets."""
        return self.budgets.is_relieved

    @property
    @abstractmethod
    def shadow_s(self) -> float:
        """Return when the reservation begins; infinite where there is none."""

    @property
    def reservation(self) -> Reservation | None:
        """Return what is reserved for the first entry that cannot start."""
        blocked = self._blocked
        return Reservation(blocked.arrival, blocked.nodes, self.shadow_s) if blocked else None

    def reservation_for(self, arrival: int) -> Reservation | None:
        """Return what is reserved for a job of this arrival number; None where that is nothing."""
        return self.reservation if self.reserved_for == arrival else None

    @property
    def reserved_for(self) -> int:
        """Return the arrival number of the job with the reservation; below 0 without one."""
        return self._blocked.arrival if self._blocked is not None else -1

    @abstractmethod
    def expected_ends(self) -> list[tuple[float, int]]:
        """Return when the holders of nodes are expected to end."""

    @property
    @abstractmethod
    def is_any_allocated_for_ever(self) -> bool:
        """Return True where some nodes are never expected back."""

    def expects_nodes(self, entry: Entry) -> bool:
        """Return False where too many nodes that an entry needs are allocated for ever."""
        return not self._ever_fits(entry) or self._earliest(entry, self._now_s).start_s < inf

    def end_s(self, entry: Entry) -> float:
        """Return when the entry ends at the latest if it starts now."""
        return self._now_s + entry.limit_s

    def shortages(self, entry: Entry) -> list[Shortage]:
        """Return the budgets that do not let the entry start now, as they are now."""
        return self.budgets.shortages(entry.draw_mw, self.end_s(entry), entry.arrival)

    def _has_power(self, entry: Entry) -> bool:
        """Return True when no budget is exceeded and no reservation there is delayed."""
        return not self._is_capped or self.budgets.has(
            entry.draw_mw, self._now_s + entry.limit_s, entry.arrival
        )

    @abstractmethod
    def _ever_fits(self, entry: Entry) -> bool:
        """Return True where the entry fits when nothing runs."""

    @abstractmethod
    def _earliest(self, entry: Entry, from_s: float) -> Soonest:
        """Return when an entry fits, from a time on, if limits hold: what is overdue is expected
        to end at any moment."""

    # What it does -------------------------------------------------------------------------------

    def _act(self, entry: Entry) -> Served | None:
        """Start an entry, or reserve for it: return what starts, if any."""
        starting = self._starting(entry)
        if starting is not None:
            return self._start(starting)
        # Since it was looked up another scheduler may have taken the watts that were left.
        if self._blocked is None:
            self._block(entry)
        return None

    @abstractmethod
    def _starting(self, entry: Entry) -> Entry | None:
        """Return the entry in the mode in which it starts now, another one only where watts alone
        refuse its own; None where there is none."""

    @abstractmethod
    def _start(self, entry: Entry) -> Served: ...

    def _block(self, entry: Entry) -> None:
        """Reserve for the first entry that cannot start, in the mode in which room and watts are
        there first. What no budget will ever let start, or whose nodes are allocated for ever,
        waits for another cap, and blocks nobody."""
        soonest = self._soonest(entry)
        for mode in entry.others:
            other = entry.in_mode(mode)
            found = self._soonest(other)
            if found.start_s < soonest.start_s:
                soonest, entry = found, other
        if soonest.start_s == inf:
            return
        self._blocked = entry
        if self._is_capped:
            start_s, limit_s, draw_mw = soonest.start_s, entry.limit_s, entry.draw_mw
            self.has_moved |= self.budgets.reserve(entry.arrival, start_s, limit_s, draw_mw)
        self._reserve(entry, soonest)

    @abstractmethod
    def _reserve(self, entry: Entry, soonest: Soonest) -> None: ...

    def _soonest(self, entry: Entry) -> Soonest:
        """Return when an entry's room and watts will be there if limits hold; infinite where no
        budget ever has the watts, or nodes are allocated for ever."""
        soonest = self._earliest(entry, self._now_s)
        while self._is_capped:
            later_s = self._affordable_s(entry, soonest.start_s)
            if later_s <= soonest.start_s:
                break
            if later_s == inf:
                return _NEVER
            soonest = self._earliest(entry, later_s)
        return soonest

    def _affordable_s(self, entry: Entry, from_s: float) -> float:
        """Return the first time, from one on, at which budgets have what an entry draws: see
        Budgets."""
        return self.budgets.earliest(entry.draw_mw, entry.limit_s, from_s, entry.arrival)

    # The next entry -----------------------------------------------------------------------------

    def _acting(self, order: int) -> Iterator[Turn]:
        """Yield the entries, from an order on, that act; each has acted when the next is asked for.

        Without a reservation each entry acts, but those that never fit; behind it those that start.
        """
        while self._blocked is None:
            entry = self._first_that_fits(order)
            if entry is None:
                return
            yield entry
            order = entry.order + 1
        if self._backfills and self.queue.last_order >= order and self._may_any_start():
            yield from self._backfilling(order)

    def _backfilling(self, order: int) -> Iterator[Turn]:
        """Yield the entries, from an order on, that start behind the reservation.

        Where asked to, it pauses before it looks through entries: a job that just got a reservation
        often starts on the next cluster of its rank, and a start behind it would be void. Or it is
        reserved for there sooner and with less, so that watts are left which were not here. So the
        first pause is before anything is passed over.
        """
        least, has_paused = self.budgets.least_headroom, not self._pauses
        for block in self.queue.blocks_from(order):
            place = block.place_of(order)
            pauses = self._pauses and place < len(block.entries)
            if pauses and not has_paused:
                yield block.entries[place].order
                least, has_paused, pauses = self.budgets.least_headroom, True, False
            if self._may_none_start(block, order, least):
                continue
            if pauses:
                yield block.entries[place].order
            while (entry := self._first_to_start(block, order)) is not None:
                yield entry
                order = entry.order + 1
                if not self._may_any_start():
                    return
            least = self.budgets.least_headroom  # others had their turn

    @abstractmethod
    def _first_that_fits(self, order: int) -> Entry | None:
        """Return the first entry, from an order on, that ever fits."""

    @abstractmethod
    def _may_any_start(self) -> bool:
        """Return False when no entry fits."""

    @abstractmethod
    def _may_none_start(self, block: Block, order: int, least: LeastHeadroom | None) -> bool:
        """Return True when no entry of a block, from an order on, will start in this pass: what
        there is only grows less in it."""

    @abstractmethod
    def _first_to_start(self, block: Block, order: int) -> Entry | None:
        """Return the first entry of a block, from an order on, that starts beside the
        reservation."""
