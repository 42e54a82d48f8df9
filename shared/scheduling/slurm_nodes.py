"""One cluster of whole nodes under Slurm's two schedulers: see `slurm.py`."""

from collections.abc import Sequence
from math import inf

from shared.scheduling.dispatch import Served
from shared.scheduling.easy import holder_of
from shared.scheduling.load import Load, Reservation
from shared.scheduling.looks import NO_LOOK, Look, ReservedStart
from shared.scheduling.power import NO_CAP, PowerBudget
from shared.scheduling.profile import Profile
from shared.scheduling.slurm import SlurmBackfill, SlurmScheduler
from shared.scheduling.wait_queue import Entry, WaitQueue


class SlurmNodesScheduler(SlurmScheduler):
    """Counts the free nodes of a cluster over time."""

    def __init__(
        self,
        load: Load,
        queue: WaitQueue,
        parameters: SlurmBackfill,
        number: int = 0,
        budgets: Sequence[PowerBudget] = (),
        look: Look = NO_LOOK,
    ) -> None:
        super().__init__(load.nodes, queue, parameters, number, budgets, look)
        self.total, self.free = load.nodes, load.free
        self._profile = Profile(0.0, 0, NO_CAP)
        # In this pass, by how much is planned and runs: see _beside.
        self._known: dict[tuple[int, int], list[tuple[ReservedStart, int]]] = {}
        for place, node_set in enumerate(load.node_sets):
            node_set.holder = holder_of(number, place)
            self._hold(node_set.holder, node_set.nodes, node_set.release_s, node_set.draw_mw)
        self._keep_planned()

    def begin(self, now_s: float) -> None:
        """Find what starts in this pass, by both schedulers."""
        self._known = {}
        super().begin(now_s)

    def serve(self) -> Served:
        """Start the next entry."""
        entry, is_backfilled = self._due.pop(0)
        if self._is_capped:
            self.budgets.give_up(entry.arrival)
        self.queue.start(entry.arrival)
        self.free -= entry.nodes
        self._hold(entry.arrival, entry.nodes, self._now_s + entry.limit_s, entry.draw_mw)
        return self.number, entry, None, is_backfilled

    def release(self, holder: int) -> None:
        """Free the nodes of the job `holder`."""
        _, _, nodes = self._releases.release(holder)
        self.free += nodes
        self._is_changed = True
        if self._is_capped:
            self.budgets.release(holder)

    # What it answers ----------------------------------------------------------------------------

    def delayed_by(self, entry: Entry) -> tuple[Reservation, int] | None:
        """Return the first reservation, of the jobs before an entry, that would be delayed if it
        started now, and how many nodes are free then beside what is reserved; None where none
        would."""
        before = self.planned()
        own = [place for place, each in enumerate(before) if each.arrival == entry.arrival]
        before = before[: own[0]] if own else before
        for each, free in self._beside(before):
            if each.start_s < self.end_s(entry) and free < entry.nodes:
                return each.reservation, free
        return None

    def _beside(self, planned: list[ReservedStart]) -> list[tuple[ReservedStart, int]]:
        """Return what is planned, the soonest first, with the nodes that are free then beside all
        that is; kept while the pass is the same."""
        key = len(planned), len(self._releases.in_order)
        if key not in self._known:
            self._draw_profile()
            profile = self._profile
            for each in planned:
                start_s = max(each.start_s, self._now_s)
                end_s = start_s + each.end_s - each.start_s
                profile.take(start_s, end_s, each.nodes, 0)
            self._known[key] = [
                (each, profile.free_at(max(each.start_s, self._now_s)))
                for each in sorted(planned, key=_start_s)
            ]
        return self._known[key]

    def expected_ends(self) -> list[tuple[float, int]]:
        """Return when the holders of nodes are expected to end."""
        return [(release_s, holder) for release_s, holder, _ in self._releases.in_order]

    @property
    def is_any_allocated_for_ever(self) -> bool:
        """Return True where some nodes are never expected back."""
        return self._releases.last_s == inf

    def expects_nodes(self, entry: Entry) -> bool:
        """Return False where too many nodes that an entry needs are allocated for ever."""
        back = [nodes for release_s, _, nodes in self._releases.in_order if release_s < inf]
        return entry.nodes > self.total or entry.nodes <= self.free + sum(back)

    # What it does -------------------------------------------------------------------------------

    def _hold(self, holder: int, nodes: int, release_s: float, draw_mw: int) -> None:
        self._releases.hold((release_s, holder, nodes))
        if self._is_capped:
            self.budgets.hold(holder, release_s, draw_mw)

    def _sight(self) -> int:
        waiting = tuple((e.order, e.nodes, e.limit_s, e.draw_mw) for e in self.queue)
        running = tuple(
            sorted([(release_s, nodes) for release_s, _, nodes in self._releases.in_order])
        )
        return hash((self.total, self.free, waiting, running, *self._undrawn()))

    def _has_gap(self, first: Entry) -> bool:
        return first.nodes <= self.free

    def _draw_profile(self) -> None:
        held = sum([nodes for _, _, nodes in self._releases.in_order])
        profile = Profile(self._now_s, self.free + held, NO_CAP)
        # From the last on: each then changes the first step alone.
        for release_s, _, nodes in reversed(self._releases.in_order):
            profile.take(self._now_s, self._lasts_until_s(release_s), nodes, 0)
        self._profile = profile

    def _gap_s(self, entry: Entry, from_s: float) -> float:
        if entry.nodes > self.total:
            return inf
        return self._profile.earliest(entry.nodes, 0, entry.limit_s, from_s)

    def _take_gap(self, entry: Entry, start_s: float) -> None:
        self._profile.take(start_s, start_s + entry.limit_s, entry.nodes, 0)


def _start_s(planned: ReservedStart) -> float:
    return planned.start_s
