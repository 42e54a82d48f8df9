"""One cluster whose nodes are allocated in parts, under Slurm's two schedulers: see `slurm.py`.

Slurm plans in parts of nodes where it gives them (select/cons_tres): each job that waits gets its
own cores and memory of its own nodes, from the earliest time on at which they are free until its
limit. Jobs of equal units, neighbours, gangs and windows are those of `consumable.py`.

Licences are those of now alone, as in Slurm: an entry that lacks some is passed over, and nothing
is reserved for it.
"""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from shared.scheduling.consumable import ConsumableScheduler, reservation_of
from shared.scheduling.dispatch import Served
from shared.scheduling.load import Reservation
from shared.scheduling.looks import NO_LOOK, Look
from shared.scheduling.node_states import UnitsOfJob
from shared.scheduling.problem import Allocation, Kind, held_by
from shared.scheduling.slurm import SlurmBackfill, SlurmScheduler
from shared.scheduling.units_profile import Gap, UnitsProfile
from shared.scheduling.wait_queue import Entry

# What an entry asks for: a kind, so many units, for how long.
_Asked = tuple[int, int, float]


class _Planned(NamedTuple):
    """Nodes that are reserved from a time until another for an entry of this order."""

    start_s: float
    order: int
    end_s: float
    reservation: Reservation
    kind: Kind
    allocation: Allocation


class SlurmUnitsScheduler(SlurmScheduler):
    """Plans on the nodes of a cluster as `units` knows them. That makes no passes of its own."""

    def __init__(
        self, units: ConsumableScheduler, parameters: SlurmBackfill, look: Look = NO_LOOK
    ) -> None:
        budgets = [*units.budgets]
        super().__init__(units.table.nodes, units.queue, parameters, units.number, budgets, look)
        self.units, self._profile = units, UnitsProfile(0.0, units.nodes)
        # By kind, how many units had room first for how long, and when: since then there is only
        # less, and for more there was none sooner.
        self._first_gaps: dict[int, list[tuple[int, float, float]]] = {}
        self._seen_kinds: dict[int, int] = {}
        # The nodes of what this pass planned, as jobs of which kinds, by arrival number.
        self.planned_on: dict[int, tuple[Kind, Allocation]] = {}
        # What the last look reserved, and whom what would delay: as far as somebody asked.
        self._plan: tuple[UnitsProfile, list[_Planned]] | None = None
        self._delayed: dict[tuple[_Asked, int], Reservation | None] = {}
        self._keep_planned()

    def begin(self, now_s: float) -> None:
        """Find what starts in this pass, by both schedulers."""
        self.planned_on.clear()
        self._forget_plan()
        self.units.ask_at(now_s)
        super().begin(now_s)

    def serve(self) -> Served | None:
        """Start the next entry, unless another cluster took its licences."""
        entry, is_backfilled = self._due.pop(0)
        kind, allocation = self.planned_on[entry.arrival]
        if self._is_capped:
            self.budgets.give_up(entry.arrival)
        self.units.licences.give_up(entry.arrival)
        if self.units.licence_shortages(entry):
            self._is_changed = True
            return None
        self.units.start_on(entry, kind, allocation)
        self._forget_plan()
        return self.number, entry, allocation, is_backfilled

    def drop(self, arrival: int) -> None:
        """Take out the entry of a job that started elsewhere."""
        self.units.licences.give_up(arrival)
        self._forget_plan()
        super().drop(arrival)

    def release(self, holder: int) -> None:
        """Free the units of the job `holder`."""
        self.units.release(holder)
        self._is_changed = True

    # What it answers ----------------------------------------------------------------------------

    def delayed_by(self, entry: Entry) -> tuple[Reservation, None] | None:
        """Return the first reservation, of the jobs before an entry, beside which and those that
        begin sooner it does not fit where it would start now without any; None where there is
        none."""
        if self._plan is None:
            self._plan = self._planned_on()
        free, planned = self._plan
        before = [each for each in planned if each.order < entry.order]
        key = (entry.kind, entry.nodes, entry.limit_s), len(before)
        if key not in self._delayed:
            self._delayed[key] = self._first_delayed(entry, before, free)
        found = self._delayed[key]
        return None if found is None else (found, None)

    def _planned_on(self) -> tuple[UnitsProfile, list[_Planned]]:
        """Return what the running jobs leave, and what the last look reserved of it, the soonest
        first. If it was in another pass, also one of this moment, that is later where it is not
        there any more."""
        free, found = self._free(), list[_Planned]()
        left = free.copy()
        for each in self.planned():
            order = self.queue.order_of(each.arrival)
            assert order is not None
            start_s, lasts_s = each.start_s, each.end_s - each.start_s + self.units.boot_s
            known = self.planned_on.get(each.arrival)
            if known is not None and self._backfill_s == self._now_s:
                kind, allocation = known
            else:
                waiting = self.queue.blocks_from(order)[0].entry_of(order)
                assert waiting is not None
                entry = waiting._replace(limit_s=each.end_s - each.start_s)
                gap = self._gap(left, entry, max(start_s, self._now_s))
                if gap is None:
                    continue
                start_s = gap.start_s
                kind, allocation = self._choice(left, entry, gap)
            end_s = start_s + lasts_s
            left.take(start_s, end_s, kind, allocation)
            found.append(_Planned(start_s, order, end_s, each.reservation, kind, allocation))
        return free, sorted(found, key=_start_s)

    def _first_delayed(
        self, entry: Entry, planned: Iterable[_Planned], free: UnitsProfile
    ) -> Reservation | None:
        """Return the first reservation on the nodes that an entry would take now beside which it
        does not fit there."""
        gap = self._gap(free, entry, self._now_s)
        if gap is None or gap.start_s > self._now_s:
            return None
        states, end_s = self.units.nodes.states, self._now_s + self._lasts_s(entry)
        kind, (nodes, counts) = self._choice(free, entry, gap)
        taken, asked = dict(zip(nodes, counts, strict=True)), states.units(kind)
        sooner: dict[int, list[tuple[float, UnitsOfJob]]] = {node: [] for node in nodes}
        for each in planned:
            if each.start_s >= end_s:
                break
            for node, units in zip(*each.allocation, strict=True):
                if node not in taken:
                    continue
                sooner[node].append((each.end_s, states.units_of_job(each.kind, units)))
                then = free.state_at(node, each.start_s)
                for until_s, of_job in sooner[node]:
                    then = states.add_units(then, of_job) if until_s > each.start_s else then
                if states.units_in(asked, then) < taken[node]:
                    return each.reservation
        return None

    def expected_ends(self) -> list[tuple[float, int]]:
        """Return when the holders of nodes are expected to end."""
        return self.units.expected_ends()

    @property
    def is_any_allocated_for_ever(self) -> bool:
        """Return True where some nodes are never expected back."""
        return self.units.is_any_allocated_for_ever

    def expects_nodes(self, entry: Entry) -> bool:
        """Return False where too many nodes that an entry needs are allocated for ever."""
        return self.units.expects_nodes(entry)

    # What it does -------------------------------------------------------------------------------

    def _forget_plan(self) -> None:
        self._plan = None
        self._delayed.clear()

    def _sight(self) -> int:
        units, now_s = self.units, self._now_s
        waiting = tuple(
            [(e.order, e.nodes, e.limit_s, e.draw_mw, self._seen_kind(e.kind)) for e in self.queue]
        )
        running = tuple(sorted([(a.release_s, a.allocation) for a in units.allocated.values()]))
        kept = tuple([(w.from_s <= now_s, w.until_s <= now_s, w[1:]) for w in units.windows.all])
        nodes = tuple([tuple(row) for row in units.table.amounts.tolist()])
        return hash((nodes, waiting, running, kept, units.licences.unused(), *self._undrawn()))

    def _seen_kind(self, number: int) -> int:
        """Return a kind as a number: what it needs, and where."""
        found = self._seen_kinds.get(number)
        if found is None:
            kind = self.units.kinds[number]
            shapes = [kind.shape, *(part.shape for part in kind.shape.parts)]
            needs = tuple([(each.needs, each.exclusive, each.most_per_node) for each in shapes])
            where = tuple([each[:3] for shape in shapes for each in shape.where])
            parts = tuple([part.nodes for part in kind.shape.parts])
            found = hash((needs, where, parts, tuple([count for _, count in kind.licences])))
            self._seen_kinds[number] = found
        return found

    def _has_gap(self, first: Entry) -> bool:
        return first.nodes <= self.units.units_now(first)

    def _draw_profile(self) -> None:
        self._first_gaps.clear()
        self._profile = self._free()

    def _free(self) -> UnitsProfile:
        """Return what the running jobs leave over time."""
        profile = UnitsProfile(self._now_s, self.units.nodes)
        profile.let_leave(self._now_s + self.parameters.interval_s)
        for time_s in self.units.windows.times_s():
            if time_s > self._now_s:
                profile.cut(time_s)
        return profile

    def _gap_s(self, entry: Entry, from_s: float) -> float:
        needs = self.units.licences_of(entry)
        if needs and not self.units.licences.has(needs, self.end_s(entry), entry.arrival):
            return inf
        known_s, units, limit_s = self._now_s, entry.nodes, entry.limit_s
        first_gaps = self._first_gaps.setdefault(entry.kind, [])
        for fewer, shorter_s, first_s in first_gaps:
            if first_s > known_s and fewer <= units and shorter_s <= limit_s:
                known_s = first_s
        gap = self._gap(self._profile, entry, max(from_s, known_s)) if known_s < inf else None
        start_s = inf if gap is None else gap.start_s
        if from_s <= known_s:
            first_gaps.append((units, limit_s, start_s))
        return start_s

    def _gap(self, profile: UnitsProfile, entry: Entry, from_s: float) -> Gap | None:
        """Return where an entry has room first, from a time on, of its places the first of those
        where that is soonest."""
        windows, shape = self.units.windows, self.units.kinds[entry.kind].shape
        asked = entry.nodes, self._lasts_s(entry), from_s, windows, reservation_of(shape)
        soonest: Gap | None = None
        for place in self.units.nodes.ways(entry.kind):
            gap = profile.earliest(place, *asked)
            if gap is not None and (soonest is None or gap.start_s < soonest.start_s):
                soonest = gap
        return soonest

    def _choice(self, profile: UnitsProfile, entry: Entry, gap: Gap) -> tuple[Kind, Allocation]:
        """Return the nodes of an entry where it has room, and what the job is on them."""
        allocation = profile.allocation(gap, entry.nodes)
        return held_by(self.units.nodes.ways(entry.kind), allocation.nodes), allocation

    def _take_gap(self, entry: Entry, start_s: float) -> None:
        gap = self._gap(self._profile, entry, start_s)
        assert gap is not None
        kind, allocation = self._choice(self._profile, entry, gap)
        self._profile.take(start_s, start_s + self._lasts_s(entry), kind, allocation)
        self.planned_on[entry.arrival] = kind, allocation
        if start_s <= self._now_s:
            needs = self.units.licences_of(entry)
            self.units.licences.reserve(entry.arrival, start_s, entry.limit_s, needs)

    def _lasts_s(self, entry: Entry) -> float:
        """Return for how long an entry has its nodes at most: they may have to boot."""
        return entry.limit_s + self.units.boot_s


def _start_s(planned: _Planned) -> float:
    return planned.start_s
