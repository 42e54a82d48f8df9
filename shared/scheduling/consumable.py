"""One cluster whose nodes are given out in parts, under EASY backfill.

What Slurm calls consumable resources (select/cons_tres): cores, memory and named resources of each
node, jobs of equal units, neighbours by a policy. The rules are those of `easy.py`: an entry starts
when it delays no reservation. Here it delays one when it lasts beyond the shadow time and leaves
fewer units of the reserved shape at that time than were reserved.

"How many units fit" is exact for equal units: the least over the resources of free by needed, node
by node. A job that is beside others is taken to need what it holds until its own limit, so that a
neighbour who comes moves nobody's release.
"""

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np

from shared.scheduling.capacity import Capacity, Held
from shared.scheduling.dispatch import Scheduler, Served
from shared.scheduling.easy import DONE, Turn
from shared.scheduling.headroom import LeastHeadroom
from shared.scheduling.load import Reservation
from shared.scheduling.node_classes import Soonest
from shared.scheduling.node_selection import NodeSelection, Shadow
from shared.scheduling.node_states import KnownStates
from shared.scheduling.power import Budgets, PowerBudget, Shortage
from shared.scheduling.powered_entries import PoweredEntries
from shared.scheduling.problem import Kind, NodeTable, Shape
from shared.scheduling.sharing import Neighbours
from shared.scheduling.wait_queue import Block, Entry, LeastByKind, WaitQueue
from shared.scheduling.workload import Floats


class ConsumableScheduler(Scheduler):
    """Does what `EasyScheduler` does where jobs take parts of nodes, need named resources or
    share.

    `states` are what is known from passes before, under the same policy of neighbours and with the
    same numbers of groups.
    """

    def __init__(
        self,
        capacity: Capacity,
        held: Sequence[Held],
        queue: WaitQueue,
        kinds: Sequence[Kind],
        neighbours: Neighbours,
        number: int = 0,
        budgets: Sequence[PowerBudget] = (),
        *,
        factors: Floats | None = None,
        backfills: bool = True,
        states: KnownStates | None = None,
    ) -> None:
        self.number, self.queue, self.kinds = number, queue, kinds
        self.neighbours = neighbours
        self.held = {each.holder: each for each in held}
        self.next_order = DONE
        # What is blocked, since when, and its reservation once somebody asked for it.
        self._blocked: Entry | None = None
        self._blocked_s = 0.0
        self._shadow: Shadow | None = None
        self._backfills = backfills
        self._now_s, self._from, self._pauses, self._is_open = 0.0, 0, False, False
        self._turns: Iterator[Turn] = iter(())
        self._next: Turn = DONE
        factors = np.ones(capacity.table.nodes) if factors is None else factors
        self._nodes = NodeSelection(capacity, self.held, kinds, neighbours, factors, states)
        self._most: dict[int, int] = {}
        self._beside_anyone: dict[Shape, tuple[int, int]] = {}
        self.budgets = Budgets(budgets)
        self._powered = PoweredEntries(queue)
        self._is_capped = self.budgets.any
        self._may_hold_for_ever = False
        for each in held:
            self._may_hold_for_ever |= each.release_s == inf
            self.budgets.hold(each.holder, each.release_s, each.draw_mw)

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
        self._open_pass(now_s, pauses=False)
        started: list[Served] = []
        for turn in self._turns:
            assert isinstance(turn, Entry)
            if (served := self._act(turn)) is not None:
                started.append(served)
        return started

    def turn(self) -> None:
        """Look for the next entry that will start or reserve: see EasyScheduler."""
        turn = self._next = next(self._turns, DONE)
        self.next_order = turn if isinstance(turn, int) else turn.order

    def serve(self) -> Served | None:
        """Let the entry of the present turn act, if it is one: what starts, if any."""
        turn = self._next
        return None if isinstance(turn, int) else self._act(turn)

    def add(self, entry: Entry) -> None:
        """An entry arrived."""
        self.queue.add(entry)
        if self._blocked is not None and entry.order < self._blocked.order:
            self._unsettle()
        self._from = min(self._from, entry.order)

    def drop(self, arrival: int) -> None:
        """Take out the entry of a job that started elsewhere, and what was reserved for it."""
        order = self.queue.order_of(arrival)
        if order is None:
            return
        self.queue.remove(arrival)
        if self._blocked is not None and self._blocked.arrival == arrival:
            if self._is_open:
                self.budgets.withdraw()
                self._forget_reservation()
                self._turns = self._acting(order)
                self.turn()
            else:
                self._forget_reservation()
                self._from = min(self._from, order)
        elif self.next_order == order:
            self.turn()

    def release(self, holder: int) -> None:
        """What the job `holder` holds is free again."""
        held = self.held.pop(holder)
        self.capacity.give(held.kind, held.allocation)
        self.budgets.let_go(holder)
        self._nodes.count_anew()
        self._beside_anyone.clear()
        self._unsettle()

    def redraw(self, holder: int, release_s: float, draw_mw: int) -> None:
        """What a job draws, and when it is expected to end, is otherwise from now on."""
        self.held[holder] = self.held[holder]._replace(release_s=release_s, draw_mw=draw_mw)
        self.budgets.let_go(holder)
        self.budgets.hold(holder, release_s, draw_mw)
        if release_s == inf:
            self._may_hold_for_ever = True
        self._nodes.regroup()
        self._unsettle()

    # What it answers ----------------------------------------------------------------------------

    @property
    def capacity(self) -> Capacity:
        """What is free now."""
        return self._nodes.capacity

    @property
    def table(self) -> NodeTable:
        """What its nodes have."""
        return self._nodes.table

    @property
    def shadow(self) -> Shadow | None:
        """The reservation with what is free at its time. It is worked out when first asked for,
        since most reservations never are: what runs stays the same until then."""
        if self._shadow is None and self._blocked is not None:
            soonest = self._earliest(self._blocked, self._blocked_s)
            self._shadow = self._shadow_of(self._blocked, soonest)
        return self._shadow

    @property
    def reservation(self) -> Reservation | None:
        """What is reserved for the first entry that cannot start."""
        return self.shadow.reservation if self.shadow else None

    @property
    def reserved_for(self) -> int:
        """The arrival number of whom it is reserved for; below 0 for nobody."""
        return self._blocked.arrival if self._blocked is not None else -1

    def expected_ends(self) -> list[tuple[float, int]]:
        """When the holders of nodes are expected to end."""
        return [(held.release_s, held.holder) for held in self.held.values()]

    def most_units(self, entry: Entry) -> int:
        """How many units of an entry's kind the cluster takes when nothing runs."""
        number = entry.kind
        if number not in self._most:
            self._most[number] = self._nodes.most_units(self.kinds[number].shape)
        return self._most[number]

    def units_now(self, entry: Entry) -> int:
        """How many units of its kind fit now, beside the neighbours that it may have."""
        return self._nodes.counted(entry.kind).total

    def units_beside_anyone(self, entry: Entry) -> int:
        """How many would fit if everybody accepted everybody."""
        shape, changes = self.kinds[entry.kind].shape, self._nodes.changes
        known = self._beside_anyone.get(shape)
        if known is None or known[0] != changes:
            units = self._nodes.units_beside_anyone(shape)
            self._beside_anyone[shape] = known = changes, units
        return known[1]

    def why_no_neighbour(self, entry: Entry) -> str:
        """Why it may not join those beside whom a unit of it would fit."""
        kind = self.kinds[entry.kind]
        newcomer = kind.app, kind.shape.needs[0]
        return self.neighbours.refusal(newcomer, self._nodes.groups_beside(kind.shape))

    @property
    def is_any_held_for_ever(self) -> bool:
        """True where nobody expects some nodes back."""
        if not self._may_hold_for_ever:
            return False
        return any(held.release_s == inf for held in self.held.values())

    def expects_nodes(self, entry: Entry) -> bool:
        """False where too much of its nodes is held for ever."""
        return not self._ever_fits(entry) or self._earliest(entry, self._now_s).start_s < inf

    def end_s(self, entry: Entry) -> float:
        """When the entry ends at the latest if it starts now."""
        return self._now_s + entry.limit_s

    def in_time(self, entry: Entry) -> bool:
        """True when it ends before anything is reserved."""
        return self.shadow is None or self.end_s(entry) <= self.shadow.reservation.start_s

    def starting(self, entry: Entry) -> Entry | None:
        """The entry in the mode in which it starts now, another one only where watts alone refuse
        its own; None where its units do not fit or a reservation would be delayed."""
        if not self._nodes.may_fit(entry.kind, entry.nodes):
            return None
        has_power = self._has_power(entry)  # sooner asked for than nodes
        if not has_power and not entry.others:
            return None
        if not self.leaves_reservation(entry) or entry.nodes > self.units_now(entry):
            return None
        if has_power:
            return entry
        for mode in entry.others:
            other = entry.in_mode(mode)
            if self._has_power(other) and self.leaves_reservation(other):
                return other
        return None

    def leaves_reservation(self, entry: Entry) -> bool:
        """True when it ends before anything is reserved, or leaves enough for it."""
        shadow = self.shadow
        if shadow is None or self.end_s(entry) <= shadow.reservation.start_s:
            return True
        return self._nodes.fits_beyond(entry.kind, entry.nodes, shadow)

    def shortages(self, entry: Entry) -> list[Shortage]:
        """The budgets that do not let the entry start now, as they are now."""
        return self.budgets.shortages(entry.draw_mw, self.end_s(entry), entry.arrival)

    @property
    def is_relieved(self) -> bool:
        """True when another pass may start more: see Budgets."""
        return self.budgets.is_relieved

    def _has_power(self, entry: Entry) -> bool:
        """True when no budget is exceeded and no reservation there is delayed."""
        return not self._is_capped or self.budgets.has(
            entry.draw_mw, self.end_s(entry), entry.arrival
        )

    # What it does -------------------------------------------------------------------------------

    def _open_pass(self, now_s: float, *, pauses: bool) -> None:
        self._now_s, self._pauses = now_s, pauses
        if self.shadow is not None and self.shadow.reservation.start_s < now_s:
            self._unsettle()  # a running job is overdue: it is expected to end at any moment
        if self._is_capped and self.budgets.begin(now_s):
            self._unsettle()
        self._nodes.forget_choices()
        self._powered.begin(now_s)
        self._turns = self._acting(self._from) if self._from != DONE else iter(())
        self._from = DONE

    def _act(self, entry: Entry) -> Served | None:
        starting = self.starting(entry)
        if starting is None:
            # What was found before another cluster took what both need is refused, and no more.
            if self._blocked is None:
                self._block(entry)
            return None
        entry = starting
        kind, waits = self.kinds[entry.kind], self._blocked is not None
        beyond = None if self.in_time(entry) else self.shadow
        allocation = self._nodes.allocation(entry.kind, entry.nodes, beyond)
        self.queue.remove(entry.arrival)
        end_s, draw_mw = self.end_s(entry), entry.draw_mw
        held = Held(end_s, entry.arrival, kind, allocation, draw_mw)
        self._nodes.take(held, beyond)
        self.held[entry.arrival] = held
        self.budgets.hold(entry.arrival, end_s, draw_mw)
        return self.number, entry, allocation, waits

    def _block(self, entry: Entry) -> None:
        """Reserve the entry's units, in the mode in which they and the watts are there first, if
        limits hold; what no budget will ever let start, or whose nodes are held for ever, waits for
        another cap, and blocks nobody."""
        self._forget_reservation()
        if self._is_capped or self._may_hold_for_ever:
            soonest = self._soonest(entry)
            for mode in entry.others:
                other = entry.in_mode(mode)
                found = self._soonest(other)
                if found.start_s < soonest.start_s:
                    soonest, entry = found, other
            if soonest.start_s == inf:
                return
            self._shadow = self._shadow_of(entry, soonest)
            self.budgets.reserve(entry.arrival, soonest.start_s, entry.limit_s, entry.draw_mw)
        self._blocked, self._blocked_s = entry, self._now_s

    def _shadow_of(self, entry: Entry, soonest: Soonest) -> Shadow:
        self._nodes.reserve(soonest.states)
        reservation = Reservation(entry.arrival, entry.nodes, soonest.start_s)
        return Shadow(reservation, self.kinds[entry.kind], soonest.units - entry.nodes)

    def _soonest(self, entry: Entry) -> Soonest:
        """When an entry's units and watts will be there if limits hold; infinite where no budget
        ever has the watts, or nodes are held for ever."""
        soonest = self._earliest(entry, self._now_s)
        power = entry.draw_mw, entry.limit_s
        while True:
            later_s = self.budgets.earliest(*power, soonest.start_s, entry.arrival)
            if later_s == inf:
                return soonest._replace(start_s=inf)
            if later_s <= soonest.start_s:
                return soonest
            soonest = self._earliest(entry, later_s)

    def _earliest(self, entry: Entry, from_s: float) -> Soonest:
        """When its units will be there, from a time on: what is overdue is expected back at any
        moment."""
        return self._nodes.classes.earliest(self.kinds[entry.kind], entry.nodes, from_s)

    def _unsettle(self) -> None:
        """Something came back: every entry gets its turn again."""
        self._forget_reservation()
        self._from = 0

    def _forget_reservation(self) -> None:
        if self._blocked is not None:
            self.budgets.give_up(self._blocked.arrival)
        self._blocked = self._shadow = None
        self._nodes.forget_choices()

    # The next entry -----------------------------------------------------------------------------

    def _acting(self, order: int) -> Iterator[Turn]:
        """The entries, from an order on, that act; each has acted when the next is asked for.

        Without a reservation each entry acts, but those that never fit; behind it those that start.
        """
        while self._blocked is None:
            entry = next((e for e in self._from_order(order) if self._ever_fits(e)), None)
            if entry is None:
                return
            yield entry
            order = entry.order + 1
        if self._backfills and self.queue.last_order >= order:
            yield from self._backfilling(order)

    def _backfilling(self, order: int) -> Iterator[Turn]:
        """Those that start behind the reservation. Where asked to, it pauses before it looks at
        entries: see EasyScheduler."""
        anywhere = self.queue.least_by_kind()
        if not self._may_start_any(anywhere):
            return
        least = self.budgets.least_headroom
        for block in self.queue.blocks_from(order):
            if self._may_none_start(block, order, least):
                continue
            if self._pauses and (place := block.place_of(order)) < len(block.entries):
                yield block.entries[place].order
            while (entry := self._first_to_start(block, order)) is not None:
                yield entry
                order = entry.order + 1
                if not self._may_start_any(anywhere):
                    return
            least = self.budgets.least_headroom  # others had their turn

    def _may_none_start(self, block: Block, order: int, least: LeastHeadroom | None) -> bool:
        """True when no entry of a block, from an order on, will start in this pass: what there is
        only grows less in it."""
        if least is not None and not self._powered.has_any(block, order, least):
            return True
        return not self._has_room_for_any(block)

    def _has_room_for_any(self, block: Block) -> bool:
        """False when there are units for no entry of a block."""
        for number, (units, limit_s) in block.least_by_kind().items():
            if not self._was_refused(number, units, limit_s):
                return True
        return False

    def _from_order(self, order: int) -> Iterator[Entry]:
        for block in self.queue.blocks_from(order):
            yield from block.entries[block.place_of(order) :]

    def _ever_fits(self, entry: Entry) -> bool:
        return entry.nodes <= self.most_units(entry)

    def _first_to_start(self, block: Block, order: int) -> Entry | None:
        """The first entry of a block, from an order on, that may start."""
        least = self.budgets.least_headroom
        if least is not None and not self._powered.has_for_any(block, least):
            kept = self._powered.with_reservation(block, order, least)
            return next((entry for entry in kept if self.starting(entry) is not None), None)
        entries, known, now_s = block.entries, self._nodes.known, self._now_s
        for place in range(block.place_of(order), len(entries)):
            entry = entries[place]
            # As in starting, but there are thousands of them.
            counted = known.get(entry[5])
            if counted is not None and entry[2] > counted.total:
                continue
            if (
                least is not None
                and not (entry[7] or entry[1] in least.kept_for)
                and not least.has(entry[6], now_s + entry[3])
            ):
                continue
            if self.starting(entry) is not None:
                return entry
        return None

    def _may_start_any(self, least_by_kind: LeastByKind) -> bool:
        """False when no kind has room for the least that one of its entries asks for."""
        for number, (units, limit_s) in least_by_kind.items():
            if not self._nodes.may_fit(number, units):
                continue
            if units > self._nodes.counted(number).total:
                continue
            shadow = self.shadow
            if shadow is None or self._now_s + limit_s <= shadow.reservation.start_s:
                return True
            if self._nodes.fits_beyond(number, units, shadow):
                return True
        return False

    def _was_refused(self, number: int, units: int, limit_s: float) -> bool:
        """True when there was no room for so many units of a kind, or none beside the reservation:
        since then there is only less."""
        if not self._nodes.may_fit(number, units):
            return True
        shadow = self.shadow
        if shadow is None or self._now_s + limit_s <= shadow.reservation.start_s:
            return False
        return not self._nodes.may_fit_beyond(number, units)
