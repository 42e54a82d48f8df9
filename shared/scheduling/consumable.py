"""One cluster whose nodes are allocated in parts, under EASY backfill.

Slurm calls this consumable resources (select/cons_tres): cores, memory and named resources of each
node, jobs of equal units, neighbours by a policy. The rules are those of `backfill_scheduler.py`:
an entry starts when it delays no reservation. Here it delays one when it lasts beyond the shadow
time and leaves fewer units of the reserved shape at that time than were reserved.

"How many units fit" is exact for equal units: the least over the resources of free by needed, node
by node. A job with neighbours is taken to need its units until its own limit, so that a new
neighbour moves no release.

Where windows keep nodes for others, an entry counts as one of another kind: of its own without the
nodes on which it would run into one, from its start to its limit.

Licences are budgets beside those of power: an entry starts when it gets all that it needs until its
limit, and a reservation keeps them from its start on.
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from shared.domain.resources import Resources
from shared.scheduling.backfill_scheduler import BackfillScheduler
from shared.scheduling.capacity import AllocatedUnits, Capacity
from shared.scheduling.dispatch import Served
from shared.scheduling.eligibility import NodeBits
from shared.scheduling.headroom import LeastHeadroom
from shared.scheduling.licences import NO_LICENCES, Licences, LicenceShortage
from shared.scheduling.load import Soonest
from shared.scheduling.node_selection import NodeSelection, Shadow
from shared.scheduling.node_states import KnownStates
from shared.scheduling.power import PowerBudget
from shared.scheduling.problem import Kind, NodeTable, Shape
from shared.scheduling.sharing import Neighbours
from shared.scheduling.wait_queue import Block, Entry, LeastByKind, WaitQueue
from shared.scheduling.windows import NO_WINDOWS, Window, Windows
from shared.scheduling.workload import Floats


class ConsumableScheduler(BackfillScheduler):
    """Does what `EasyScheduler` does where jobs take parts of nodes, need named resources or
    share.

    `states` are what is known from passes before, under the same policy of neighbours and with the
    same numbers of groups.
    """

    def __init__(
        self,
        capacity: Capacity,
        allocated: Sequence[AllocatedUnits],
        queue: WaitQueue,
        kinds: Sequence[Kind],
        neighbours: Neighbours,
        number: int = 0,
        budgets: Sequence[PowerBudget] = (),
        *,
        factors: Floats | None = None,
        backfills: bool = True,
        states: KnownStates | None = None,
        windows: Windows = NO_WINDOWS,
        licences: Licences = NO_LICENCES,
        asleep: Sequence[NodeBits] = (),
        boot_s: float = 0.0,
    ) -> None:
        """Nodes that are `asleep` are taken last, see NodeSelection, and what starts on them ends
        later by `boot_s`."""
        self._boot_s = boot_s if asleep else 0.0
        super().__init__(queue, number, budgets, backfills=backfills)
        self.windows, self._has_windows = windows, windows.any
        self.licences, self._has_licences = licences, licences.any
        self._is_capped |= licences.any
        # In the present pass, by how many windows begin before an entry ends: what kinds are then,
        # and the nodes that are shut to jobs of no reservation.
        self._numbers: dict[int, dict[int, int]] = {}
        self._shut_to_all: dict[int, NodeBits] = {}
        self.kinds, self.neighbours = kinds, neighbours
        self.allocated = {each.holder: each for each in allocated}
        # The reservation once it was asked for, and as of when.
        self._shadow: Shadow | None = None
        self._blocked_s = 0.0
        factors = np.ones(capacity.table.nodes) if factors is None else factors
        self._nodes = NodeSelection(
            capacity, self.allocated, kinds, neighbours, factors, states, windows, asleep
        )
        self._most: dict[int, int] = {}
        self._beside_anyone: dict[int, tuple[int, int]] = {}
        self._may_allocate_for_ever = False
        self._last_kind = -1  # of which some entry might start when that was asked last
        for each in allocated:
            self._may_allocate_for_ever |= each.release_s == inf
            self.budgets.hold(each.holder, each.release_s, each.draw_mw)
            if licences.any:
                licences.hold(each.holder, each.release_s, each.kind.licences)

    # A pass, and between passes -------------------------------------------------------------------

    def _open_pass(self, now_s: float, *, pauses: bool) -> bool:
        self._nodes.forget_choices()
        if self._has_windows:
            self._numbers.clear()
            self._shut_to_all.clear()
            if self.windows.turns_within(self._now_s, now_s):
                self._unsettle()
        if self._has_licences and self.licences.begin(now_s):
            self._unsettle()
        return super()._open_pass(now_s, pauses=pauses)

    def release(self, holder: int) -> None:
        """Free the units of the job `holder`."""
        allocated = self.allocated.pop(holder)
        self.capacity.give(allocated.kind, allocated.allocation)
        self.budgets.release(holder)
        self.licences.release(holder)
        self._nodes.count_anew()
        self._beside_anyone.clear()
        self._unsettle()

    def redraw(self, holder: int, release_s: float, draw_mw: int) -> None:
        """Change the draw of a running job, and when it is expected to end."""
        self.allocated[holder] = self.allocated[holder]._replace(
            release_s=release_s, draw_mw=draw_mw
        )
        self.budgets.release(holder)
        self.budgets.hold(holder, release_s, draw_mw)
        self.licences.prolong(holder, release_s)
        if release_s == inf:
            self._may_allocate_for_ever = True
        self._nodes.regroup()
        self._unsettle()

    def _cancel(self, order: int) -> None:
        self.licences.withdraw()
        super()._cancel(order)

    # What it answers ----------------------------------------------------------------------------

    @property
    def is_relieved(self) -> bool:
        """Return True when another pass may start more: see Budgets."""
        return self.budgets.is_relieved or self.licences.is_relieved

    @property
    def capacity(self) -> Capacity:
        """Return what is free now."""
        return self._nodes.capacity

    @property
    def table(self) -> NodeTable:
        """Return the resources of its nodes."""
        return self._nodes.table

    @property
    def shadow(self) -> Shadow | None:
        """Return the reservation with what is free at its time. It is worked out when first asked
        for, since most reservations never are: running jobs stay the same until then."""
        if self._shadow is None and self._blocked is not None:
            soonest = self._earliest(self._blocked, self._blocked_s)
            self._shadow = self._shadow_of(self._blocked, soonest)
        return self._shadow

    @property
    def shadow_s(self) -> float:
        """Return when the reservation begins; infinite where there is none."""
        shadow = self.shadow
        return shadow.start_s if shadow is not None else inf

    def expected_ends(self) -> list[tuple[float, int]]:
        """Return when the holders of nodes are expected to end."""
        return [(allocated.release_s, allocated.holder) for allocated in self.allocated.values()]

    def most_units(self, entry: Entry) -> int:
        """Return how many units of an entry's kind the cluster takes when nothing runs."""
        number = entry.kind
        if number not in self._most:
            self._most[number] = self._nodes.most_units(number)
        return self._most[number]

    def units_now(self, entry: Entry) -> int:
        """Return how many units of its kind fit now, beside the neighbours that it may have."""
        return self._nodes.counted(self._number(entry)).total

    def units_without_windows(self, entry: Entry) -> int:
        """Return how many units of its kind would fit now if no nodes were kept for others."""
        return self._nodes.counted(entry.kind).total

    def awaited_window(self, entry: Entry) -> Window | None:
        """Return the window that an entry is of, where that has not begun; None otherwise."""
        own = self.windows.find(_reservation(self.kinds[entry.kind].shape))
        return own if own is not None and self._now_s < own.from_s else None

    def windows_against(self, entry: Entry) -> list[Window]:
        """Return the windows that an entry would run into if it started now, on nodes where it may
        be."""
        end_s, shape = self._now_s + entry.limit_s, self.kinds[entry.kind].shape
        nodes = 0 if shape.where else -1
        for each in shape.where:
            nodes |= each.nodes
        found = self.windows.against(_reservation(shape), self._now_s, end_s)
        return [each for each in found if each.nodes & nodes]

    def units_beside_anyone(self, entry: Entry) -> int:
        """Return how many units would fit if every job accepted every neighbour."""
        number, changes = self._number(entry), self._nodes.changes
        as_of, units = self._beside_anyone.get(number, (-1, 0))
        if as_of != changes:
            units = self._nodes.units_beside_anyone(number)
            self._beside_anyone[number] = changes, units
        return units

    def why_no_neighbour(self, entry: Entry) -> str:
        """Return why it may not join the jobs beside which a unit of it would fit."""
        kind, shape = self.kinds[entry.kind], self._nodes.shape_of(self._number(entry))
        newcomer = kind.app, kind.shape.millicores
        return self.neighbours.refusal(newcomer, self._nodes.groups_beside(shape))

    @property
    def is_any_allocated_for_ever(self) -> bool:
        """Return True where some nodes are never expected back."""
        if not self._may_allocate_for_ever:
            return False
        return any(allocated.release_s == inf for allocated in self.allocated.values())

    def _starting(self, entry: Entry) -> Entry | None:
        number = self._number(entry)
        if not self._nodes.may_fit(number, entry.nodes):
            return None
        is_affordable = self._is_affordable(entry)  # sooner asked for than nodes
        if not is_affordable and not entry.others:
            return None
        # What it costs the reservation is asked of what fits alone: it takes longer to work out.
        if entry.nodes > self._nodes.counted(number).total:
            return None
        beyond = self._beyond(self._lasts_s(entry, number))
        if beyond is not None and not self._nodes.fits_beyond(number, entry.nodes, beyond):
            return None
        return entry if is_affordable else self._affordable_mode(entry)

    def _affordable_mode(self, entry: Entry) -> Entry | None:
        """Return the entry in the first of its other modes in which it starts now; None where there
        is none."""
        for mode in entry.others:
            other = entry.in_mode(mode)
            if not (self._is_affordable(other) and self.leaves_reservation(other)):
                continue
            if not self._has_windows or entry.nodes <= self.units_now(other):
                return other
        return None

    def leaves_reservation(self, entry: Entry) -> bool:
        """Return True when it ends before anything is reserved, or leaves enough for it."""
        number = self._number(entry)
        beyond = self._beyond(self._lasts_s(entry, number))
        return beyond is None or self._nodes.fits_beyond(number, entry.nodes, beyond)

    def _lasts_s(self, entry: Entry, number: int) -> float:
        """Return for how long an entry has its nodes at most if it starts now: longer where too few
        of them are awake."""
        if not self._boot_s or self._nodes.has_units_awake(number, entry.nodes):
            return entry.limit_s
        return entry.limit_s + self._boot_s

    def _beyond(self, limit_s: float) -> Shadow | None:
        """Return the reservation beyond whose time lasts what starts now, with such a limit; None
        where it ends before."""
        shadow = self.shadow
        return None if shadow is None or self._now_s + limit_s <= shadow.start_s else shadow

    # What it does -------------------------------------------------------------------------------

    def _start(self, entry: Entry) -> Served:
        number = self._number(entry)
        beyond = self._beyond(self._lasts_s(entry, number))
        kind, allocation = self._nodes.allocation(number, entry.nodes, beyond)
        self.queue.start(entry.arrival)
        end_s, draw_mw = self.end_s(entry), entry.draw_mw
        if self._boot_s and self._nodes.is_asleep(allocation.nodes):
            end_s += self._boot_s
        allocated = AllocatedUnits(end_s, entry.arrival, kind, allocation, draw_mw)
        self._nodes.take(allocated, beyond)
        self.allocated[entry.arrival] = allocated
        self.budgets.hold(entry.arrival, end_s, draw_mw)
        if self._has_licences:
            self.licences.hold(entry.arrival, end_s, self.licences_of(entry))
        return self.number, entry, allocation, self._blocked is not None

    def _block(self, entry: Entry) -> None:
        if self._has_windows and self.awaited_window(entry) is not None:
            return  # its nodes are kept for it already, and others wait behind nobody until then
        self._blocked_s = self._now_s
        if self._is_capped or self._may_allocate_for_ever or self._has_windows:
            super()._block(entry)
        else:
            self._blocked = entry  # its reservation is worked out when first asked for

    def _reserve(self, entry: Entry, soonest: Soonest) -> None:
        self._shadow = self._shadow_of(entry, soonest)
        if self._has_licences:
            needs = self.licences_of(entry)
            start_s, limit_s = soonest.start_s, entry.limit_s
            self.has_moved |= self.licences.reserve(entry.arrival, start_s, limit_s, needs)

    def _shadow_of(self, entry: Entry, soonest: Soonest) -> Shadow:
        self._nodes.reserve(soonest.states)
        extra = soonest.units - entry.nodes
        return Shadow(soonest.start_s, self._nodes.ways(soonest.kind)[soonest.way], extra)

    def _earliest(self, entry: Entry, from_s: float) -> Soonest:
        """Return when it fits in the place where it does first; of places where it never does none
        counts."""
        if not self._has_windows:
            return self._earliest_of(entry.kind, entry.nodes, from_s)
        shut = self._shut(entry.kind, from_s, entry.limit_s)
        while True:
            number = self._nodes.without(entry.kind, shut)
            soonest = self._earliest_of(number, entry.nodes, from_s)
            opens_s = self._opens_s(entry, from_s)
            if opens_s <= soonest.start_s or not soonest.fits:
                if opens_s == inf:
                    return Soonest(inf, 0)
                from_s = opens_s
                shut = self._shut(entry.kind, from_s, entry.limit_s)
                continue
            # Before that it does not fit: until then no nodes are given back by windows, and all
            # that is shut from its start on may be more.
            then = self._shut(entry.kind, soonest.start_s, entry.limit_s)
            if then == shut or soonest.start_s == inf:
                return soonest
            from_s, shut = soonest.start_s, then

    def _earliest_of(self, number: int, units: int, from_s: float) -> Soonest:
        """Return when so many units of a kind fit, whatever windows follow."""
        places = self._nodes.ways(number)
        classes = self._nodes.classes
        best: Soonest | None = None
        if places[0].parts:
            best = classes.earliest_of_gang([place.parts for place in places], from_s)
            best.kind = number
            return best
        for at, place in enumerate(places if len(places) > 1 else ()):
            if units > self._nodes.most_units_of(place):
                continue
            soonest = classes.earliest(place, units, from_s)
            if best is None or soonest.start_s < best.start_s:
                best = soonest
                best.way = at
        best = best or classes.earliest(places[0], units, from_s)
        best.kind = number
        return best

    # Licences -----------------------------------------------------------------------------------

    def licences_of(self, entry: Entry) -> Resources:
        """Return the licences that an entry needs."""
        return self.kinds[entry.kind].licences

    def licence_shortages(self, entry: Entry) -> list[LicenceShortage]:
        """Return the licences that do not let an entry start now."""
        needs = self.licences_of(entry)
        return self.licences.shortages(needs, self.end_s(entry), entry.arrival) if needs else []

    def _is_affordable(self, entry: Entry) -> bool:
        """Return whether an entry gets its power and its licences until its limit, and delays no
        reservation of them."""
        if not (self._has_licences and (needs := self.licences_of(entry))):
            return self._has_power(entry)
        is_licensed = self.licences.has(needs, self.end_s(entry), entry.arrival)
        return is_licensed and self._has_power(entry)

    def _lacks_licences(self, block: Block, kind: int, limit_s: float) -> bool:
        """Return True where no entry of a kind in a block gets its licences. Of jobs with a
        reservation that is not known: it does not count against them."""
        needs = self.kinds[kind].licences
        if not needs or self.licences.has(needs, self._now_s + limit_s):
            return False
        for arrival in self.licences.kept_for(needs):
            order = self.queue.order_of(arrival)
            if order is not None and block.first_order <= order <= block.last_order:
                return False
        return True

    def _affordable_s(self, entry: Entry, from_s: float) -> float:
        start_s = super()._affordable_s(entry, from_s)
        if not self._has_licences:
            return start_s
        needs = self.licences_of(entry)
        return self.licences.earliest(needs, entry.limit_s, start_s, entry.arrival)

    # Nodes that are kept for others --------------------------------------------------------------

    def _number(self, entry: Entry) -> int:
        """Return the number of the kind that an entry is if it starts now."""
        return self._number_of(entry.kind, entry.limit_s) if self._has_windows else entry.kind

    def _number_of(self, kind: int, limit_s: float) -> int:
        """Return the number of a kind without the nodes that windows shut to what starts now, with
        such a limit. With a longer one there are no more nodes."""
        if not self._has_windows:
            return kind
        begun = self.windows.begun_by(self._now_s + limit_s)
        numbers = self._numbers.get(begun)
        if numbers is None:
            numbers = self._numbers[begun] = {}
            self._shut_to_all[begun] = self.windows.shut("", self._now_s, self._now_s + limit_s)
        number = numbers.get(kind)
        if number is None:
            if _reservation(self.kinds[kind].shape):  # of one its end makes a difference too
                return self._nodes.without(kind, self._shut(kind, self._now_s, limit_s))
            number = numbers[kind] = self._nodes.without(kind, self._shut_to_all[begun])
        return number

    def _shut(self, kind: int, start_s: float, limit_s: float) -> NodeBits:
        reservation = _reservation(self.kinds[kind].shape)
        return self.windows.shut(reservation, start_s, start_s + limit_s)

    def _opens_s(self, entry: Entry, start_s: float) -> float:
        reservation = _reservation(self.kinds[entry.kind].shape)
        return self.windows.opens_s(reservation, start_s, start_s + entry.limit_s)

    def _forget_reservation(self) -> None:
        if self._has_licences and self._blocked is not None:
            self.licences.give_up(self._blocked.arrival)
        super()._forget_reservation()
        self._shadow = None
        self._nodes.forget_choices()

    # The next entry -----------------------------------------------------------------------------

    def _first_that_fits(self, order: int) -> Entry | None:
        for block in self.queue.blocks_from(order):
            entries = block.entries
            for place in range(block.place_of(order), len(entries)):
                if self._ever_fits(entries[place]):
                    return entries[place]
        return None

    def _may_none_start(self, block: Block, order: int, least: LeastHeadroom | None) -> bool:
        if least is not None and not self._powered.has_any(block, order, least):
            return True
        # Without budgets a pause decides nothing, and to walk through a block costs less than to go
        # through the bounds of its kinds.
        return self._is_capped and not self._has_room_for_any(block)

    def _has_room_for_any(self, block: Block) -> bool:
        """Return False when there are units for no entry of a block."""
        for kind, (units, limit_s) in block.least_by_kind().items():
            if self._was_refused(kind, units, limit_s):
                continue
            if not (self._has_licences and self._lacks_licences(block, kind, limit_s)):
                return True
        return False

    def _ever_fits(self, entry: Entry) -> bool:
        return entry.nodes <= self.most_units(entry)

    def _first_to_start(self, block: Block, order: int) -> Entry | None:
        least = self.budgets.least_headroom
        if least is not None and not self._powered.has_for_any(block, least):
            kept = self._powered.reserved_entries(block, order, least)
            return next((entry for entry in kept if self._starting(entry) is not None), None)
        kinds, nodes, most = block.kinds, block.nodes, self._nodes.most_of_kinds()
        entries, now_s = block.entries, self._now_s
        for place in range(block.place_of(order), len(nodes)):
            kind, units = kinds[place], nodes[place]
            # As in starting, but there are thousands of them: most are of a kind without room.
            if units > most[kind]:
                continue
            entry = entries[place]
            if self._was_refused(kind, units, entry.limit_s):
                continue
            if (
                least is not None
                and not (entry.others or entry.arrival in least.kept_for)
                and not least.has(entry.draw_mw, now_s + entry.limit_s)
            ):
                continue
            if self._starting(entry) is not None:
                return entry
        return None

    def _may_any_start(self) -> bool:
        """Return False when no kind has free units for the least that its entries ask for."""
        least = self.queue.least_by_kind()
        if self._last_kind in least and self._may_kind_start(self._last_kind, least):
            return True
        for kind in least:
            if self._may_kind_start(kind, least):
                self._last_kind = kind
                return True
        return False

    def _may_kind_start(self, kind: int, least: LeastByKind) -> bool:
        """Return False when a kind has no free units for the least that its entries ask for."""
        units, limit_s = least[kind]
        if self._has_windows and not self._nodes.may_fit_somewhere(kind, units):
            return False
        number = self._number_of(kind, limit_s)
        if not self._nodes.may_fit(number, units) or units > self._nodes.counted(number).total:
            return False
        beyond = self._beyond(limit_s)
        return beyond is None or self._nodes.fits_beyond(number, units, beyond)

    def _was_refused(self, kind: int, units: int, limit_s: float) -> bool:
        """Return True when so many units of a kind with such a limit did not fit, or not beside the
        reservation: since then there is only less."""
        nodes, number = self._nodes, kind
        if self._has_windows:
            if not nodes.may_fit_somewhere(kind, units):
                return True
            number = self._number_of(kind, limit_s)
        if not nodes.may_fit(number, units):
            return True
        return self._now_s + limit_s > self.shadow_s and not nodes.may_fit_beyond(number, units)


def _reservation(shape: Shape) -> str:
    """Return the name of the reservation that jobs of a shape are of; empty where they are of
    none."""
    return shape.where[0].reservation if shape.where else ""
