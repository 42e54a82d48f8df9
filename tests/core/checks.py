"""What has to hold of a pass: starts and reservations are those of the plain rules, what is said to
refuse an entry does so, and what asks for no more than there is starts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from coplace.v1.placement_pb2 import CONSTRAINT_KIND_CAPACITY, CONSTRAINT_KIND_LICENCES

from shared.placement.decide.schedulers import Arriving
from shared.placement.explain.refusals import NOTHING, WhyNot
from shared.placement.processor.placement import Placement
from shared.scheduling.backfill import ClusterScheduler, Dispatch, schedule
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.slurm import SlurmScheduler
from shared.scheduling.wait_queue import Entry
from tests.core.plain import Lack, Region, Start, Waiting
from tests.core.plain_state import require


@dataclass
class Pass:
    """One pass of a round: how the region was before, and what came of it."""

    before: Region
    plan: Dispatch | None = None


class Checks:
    """Of the passes of one placement."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement

    def starts(self, passes: Iterable[Pass]) -> None:
        """Starts and reservations of all passes of a round."""
        for one in passes:
            assert one.plan is not None
            starts = [_start(s.entry, s.cluster, s.allocation) for s in one.plan.starts]
            one.before.check(starts)
            require(not one.before.faults, "; ".join(one.before.faults))
            found = {c: tuple(p) for c, p in one.plan.reservations().items()}
            right = {c: tuple(p) for c, p in one.before.promises.items()}
            require(found == right, f"promised {found}, should be {right}")

    def waiting(self, last: Pass, number: int) -> None:
        """All that wait after the last pass of a round of this number."""
        for place, waiting in enumerate(last.before.waiting):
            self._check_reasons(last, waiting)
            if (place + number) % 6 == 0:
                self._check_relaxed(last.before.now_s, waiting)

    def _id(self, arrival: int) -> str:
        return self.placement.layers.state.jobs.by_arrival[arrival]

    def _check_reasons(self, one: Pass, waiting: Waiting) -> None:
        """What is said to refuse an entry does so, and nothing else."""
        assert one.plan is not None
        outcomes, where = self.placement.queries._last, waiting.cluster
        assert outcomes is not None
        entry = self._entry_of(waiting)
        why_not = outcomes.refusals.why(where, entry)
        why = why_not.text
        require(NOTHING not in why_not.constraints, f"{waiting}: {why}")
        lacks = one.before.lacks(waiting)
        shortages = [
            Lack(f"{s.cap.scope} {s.cap.name}", s.at_s, s.available_mw, s.until_s)
            for s in why_not.shortages
        ]
        require(sorted(shortages) == sorted(lacks), f"{waiting}: {why}; should be {lacks}")
        self._check_licences(one, waiting, entry, why_not)
        promise = one.before.promises.get(where)
        is_own = promise is not None and promise.arrival == waiting.arrival
        of_capacity = [c for c in why_not.constraints if c.kind == CONSTRAINT_KIND_CAPACITY]
        for told in (c for c in of_capacity if c.needed is not None):
            until_s = promise.start_s if promise is not None and is_own else 0.0
            figures = told.needed, told.until_s
            require(figures == (waiting.units, until_s), f"{waiting}: {told}")
        counted = type(one.plan.schedulers[where]).__name__ == "EasyScheduler"
        expected = (
            self._by_counting(one.before, waiting)
            if counted
            else self._in_parts(one.before, waiting)
        )
        parts = why.split("; ")
        others = "power cap", "lower P-state", " licence-"
        of_nodes = "; ".join(p for p in parts if not any(other in p for other in others))
        is_right = expected in of_nodes if expected else not of_nodes
        may_be_greedy = "leave less than" in of_nodes and waiting.shape.most != 1
        require(is_right or may_be_greedy, f"{waiting}: {why}; should be {expected!r}")

    def _check_licences(self, one: Pass, waiting: Waiting, entry: Entry, why_not: WhyNot) -> None:
        """The licences that refuse an entry are those that are said to, with their holders."""
        assert one.plan is not None
        lacks = one.before.unlicensed(waiting)
        scheduler = one.plan.schedulers[waiting.cluster]
        found = _licence_lacks(scheduler, entry)
        told = [lack for lack, _ in found]
        require(told == lacks, f"{waiting}: lacks {told}, should lack {lacks}")
        named = [c for c in why_not.constraints if c.kind == CONSTRAINT_KIND_LICENCES]
        require(bool(named) == bool(lacks), f"{waiting}: {named}, should be of {lacks}")
        by_name = {budget.name: budget for budget in one.before.licences}
        for lack, holders in found:
            budget = by_name[lack.budget]
            stays = [s for name in budget.clusters for s in one.before.clusters[name].stays]
            right = {(s.arrival, budget.of(s)) for s in stays if budget.of(s)}
            require(set(holders) == right, f"{lack}: held by {holders}, should be {right}")

    def _by_counting(self, stood: Region, waiting: Waiting) -> str:
        """What refused an entry when its turn came last."""
        total, was = len(stood.clusters[waiting.cluster].has), stood.refused.get(waiting[1:3])
        if waiting.units > total:
            return f"needs {waiting.units} nodes, the cluster has {total}"
        assert was is not None
        if waiting.units > was.free:
            return f"needs {waiting.units} nodes, {was.free} free"
        promise = was.promise
        if promise is None or stood.now_s + waiting.limit_s <= promise.start_s:
            return ""
        return f"its {was.extra} extra nodes" if waiting.units > was.extra else ""

    def _in_parts(self, stood: Region, waiting: Waiting) -> str:
        """What refuses an entry when the pass is over."""
        nodes = stood.clusters[waiting.cluster]
        shape = nodes.apart_from_others(waiting)
        if nodes.awaits(waiting, stood.now_s):
            return f"its reservation reservation-{waiting.reservation} begins at"
        if waiting.units > nodes.most(shape):
            return f"{nodes.most(shape)} fit on the cluster when it is empty"
        now = nodes.open_to(waiting, stood.now_s)
        if nodes.total(now, nodes.stays) < waiting.units <= nodes.total(shape, nodes.stays):
            return ", and run into reservation-"
        shape = now
        if waiting.units > (free := nodes.units_beside_anyone(shape)):
            return f", {free} free"
        if waiting.units > (free := nodes.total(shape, nodes.stays)):
            return f"{free} free beside neighbours that suit it"
        if stood.leaves_promise(waiting):
            return ""
        job_id = self._id(stood.promises[waiting.cluster].arrival)
        return f"leave less than the reservation of {job_id} at"

    def _check_relaxed(self, now_s: float, waiting: Waiting) -> None:
        """An entry that asks no more than what there is, of all that is named against it, starts in
        the next pass."""
        entry = self._entry_of(waiting)
        plan = self._with(now_s, waiting, entry)
        require(not _starts(plan), f"{waiting} starts in a second pass")
        less = _relaxed(plan, entry, waiting.cluster)
        scheduler = _backfilling(plan.schedulers[waiting.cluster])
        if less is None or (less.nodes < entry.nodes and _is_gang(scheduler, entry)):
            return  # parts of a gang ask for no less than they are
        require(less != entry._replace(others=()), f"{waiting}: what is named is no constraint")
        again = self._with(now_s, waiting, less)
        does = (waiting.arrival, waiting.cluster) in _starts(again)
        require(does or _is_kept_later(plan, again), f"{waiting} does not start as {less}")

    def _with(self, now_s: float, waiting: Waiting, entry: Entry) -> Dispatch:
        """A pass with an entry in the place of one that waits."""
        apart = Arriving(self.placement.layers.decide.waiting_jobs.kinds)
        schedulers: dict[str, ClusterScheduler] = self.placement.layers.decide.schedulers(
            now_s, apart=apart
        )
        queue = schedulers[waiting.cluster].queue
        queue.remove(entry.arrival)
        queue.add(entry)
        return schedule(now_s, schedulers)

    def _entry_of(self, waiting: Waiting) -> Entry:
        tracked = self.placement.layers.state.jobs.of_arrival(waiting.arrival)
        entry = self.placement.layers.decide.waiting_jobs.entry(tracked, waiting.cluster)
        assert entry is not None
        return entry


def _is_gang(scheduler: object, entry: Entry) -> bool:
    """Whether the scheduler places parts: also such as are whole nodes, in places of their own."""
    if not isinstance(scheduler, ConsumableScheduler):
        return False
    return bool(scheduler.kinds[entry.kind].shape.parts)


def _relaxed(plan: Dispatch, entry: Entry, cluster: str) -> Entry | None:
    """The entry with no more than what a pass without starts left of all that is named; None where
    something is named of which there is nothing.

    All at once: while it waits for one of them, others take what it gives up of another.
    """
    scheduler = _backfilling(plan.schedulers[cluster])
    if isinstance(scheduler, ConsumableScheduler) and scheduler.licence_shortages(entry):
        return None  # an entry with fewer is of another kind
    if isinstance(scheduler, EasyScheduler):
        before = scheduler.state_before(entry)
        free, promise = before.free, before.reservation
    else:
        free, promise = scheduler.units_now(entry), scheduler.reservation
    if not free:
        return None
    less = entry._replace(nodes=min(entry.nodes, free), others=())
    others = promise if promise is not None and promise.arrival != entry.arrival else None
    if others is not None and not _leaves_promise(scheduler, less):
        rest_s = others.start_s - plan.now_s
        if rest_s <= 0:
            return None
        less = less._replace(limit_s=min(rest_s, less.limit_s))
    while shortages := scheduler.shortages(less):  # each names the first moment with less
        left_mw = min(shortage.available_mw for shortage in shortages)
        if left_mw < 0:
            return None
        less = less._replace(draw_mw=left_mw)
    return less


def _is_kept_later(plan: Dispatch, again: Dispatch) -> bool:
    """Whether watts or licences of a job are kept for later than in the other pass, where they were
    kept for sooner on a cluster that this entry blocks now. At its turn they were not yet."""
    pairs = [
        (before, after)
        for name, scheduler in plan.schedulers.items()
        for before, after in zip(scheduler.budgets, again.schedulers[name].budgets, strict=True)
    ]
    kept = [
        (before.reservation_of(arrival), after.reservation_of(arrival))
        for before, after in pairs
        for arrival in before.kept_for
    ]
    return any(one and other and other.start_s > one.start_s for one, other in kept)


def _licence_lacks(
    scheduler: ClusterScheduler, entry: Entry
) -> list[tuple[Lack, Sequence[tuple[int, int]]]]:
    """What a scheduler says that an entry lacks, and of which jobs."""
    if not isinstance(scheduler, ConsumableScheduler):
        return []
    found = scheduler.licence_shortages(entry)
    return [
        (Lack(f"{name} of {s.cap.scope} {s.cap.name}", s.at_s, s.available_mw, s.until_s), holders)
        for name, s, holders in found
    ]


def _backfilling(scheduler: ClusterScheduler) -> EasyScheduler | ConsumableScheduler:
    assert not isinstance(scheduler, SlurmScheduler)
    return scheduler


def _leaves_promise(scheduler: EasyScheduler | ConsumableScheduler, entry: Entry) -> bool:
    """Whether an entry takes nothing of what is promised, however long it lasts."""
    if isinstance(scheduler, EasyScheduler):
        return entry.nodes <= scheduler.state_before(entry).extra
    return scheduler.leaves_reservation(entry)


def _start(entry: Entry, cluster: str, allocation: Any) -> Start:
    units = tuple(zip(*allocation, strict=True)) if allocation else ()
    return Start(entry.arrival, cluster, entry.draw_mw, units)


def _starts(plan: Dispatch) -> set[tuple[int, str]]:
    return {(start.entry.arrival, start.cluster) for start in plan.starts}
