"""Evaluation of a plan of waiting jobs: the schedulers that decide, played forward.

A plan is one queue of entries for the schedulers of `easy.py`. They reserve and backfill by limits;
here running jobs and entries end when they are expected to, which is earlier.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from shared.scheduling.backfill import Arrival, Backfill, serve
from shared.scheduling.dispatch import Served
from shared.scheduling.easy import EasyScheduler, holder_of
from shared.scheduling.engine import End, Engine
from shared.scheduling.load import Load, NodeSet
from shared.scheduling.pool import Pool, budgets_of
from shared.scheduling.power import PowerBudget, milliwatts
from shared.scheduling.wait_queue import Entry, WaitQueue


class ExecutionMode(NamedTuple):
    """A job on one cluster at one P-state: the time until its limit, its power in all, and what of
    it is its nodes' idle power where budgets count that of all nodes by themselves."""

    limit_s: float
    power_w: float
    pstate: int
    idle_w: float = 0.0

    @property
    def draw_w(self) -> float:
        """Return what counts under a budget of power."""
        return self.power_w - self.idle_w


class PlannedEntry(NamedTuple):
    """An entry of a plan: a job's place in the queue of one cluster, from `from_s` on."""

    order: int
    arrival: int
    cluster: int
    units: int
    mode: ExecutionMode
    from_s: float = 0.0

    @property
    def entry(self) -> Entry:
        """Return the entry for a scheduler."""
        draw_mw = milliwatts(self.mode.draw_w)
        return Entry(self.order, self.arrival, self.units, self.mode.limit_s, draw_mw=draw_mw)


@dataclass(frozen=True, slots=True)
class Running:
    """Units and draw of a running job, until when at the latest, and when its end is expected."""

    cluster: int
    units: int
    power_w: float
    release_s: float
    expected_s: float


class PlannedStart(NamedTuple):
    """An entry of a plan that starts; `backfilled` is before a blocked one."""

    planned: PlannedEntry
    start_s: float
    backfilled: bool


@dataclass(frozen=True, slots=True)
class Situation:
    """The clusters at an instant, and the running jobs by arrival number.

    `shared_budgets` makes those of power anew, one list a cluster, where caps span several: without
    it each cluster has its own.
    """

    now_s: float
    pools: Sequence[Pool]
    running: Mapping[int, Running]
    shared_budgets: Callable[[], Sequence[list[PowerBudget]]] | None = None

    def budgets(self) -> Sequence[list[PowerBudget]]:
        """Return the budgets of power of each cluster, with nothing committed yet."""
        if self.shared_budgets is not None:
            return self.shared_budgets()
        return budgets_of(self.pools)

    @property
    def free_units(self) -> list[int]:
        """Return the free units of each cluster."""
        free = [pool.units for pool in self.pools]
        for running in self.running.values():
            free[running.cluster] -= running.units
        return free

    @property
    def last_release_s(self) -> float:
        """Return when all running jobs have ended, by limits, but those that never do."""
        ends_s = (running.release_s for running in self.running.values() if running.release_s < inf)
        return max(ends_s, default=self.now_s)

    def starts_now(self, plan: Iterable[PlannedEntry]) -> list[PlannedStart]:
        """Return what a scheduling pass over a plan starts."""
        return _Evaluation(self, plan).served()

    def evaluate(self, plan: Iterable[PlannedEntry], share: float) -> list[PlannedStart]:
        """Return all starts of a plan if its entries run for a `share` of their limits.

        Entries that never fit are missing.
        """
        return _Evaluation(self, plan).played(share)


class _Evaluation:
    def __init__(self, situation: Situation, plan: Iterable[PlannedEntry]) -> None:
        self._situation, now_s = situation, situation.now_s
        self._schedulers = _schedulers(situation)
        self._planned = {(planned.arrival, planned.cluster): planned for planned in plan}
        self._coming: list[tuple[float, int, Entry]] = []
        self._started: set[int] = set()
        for planned in self._planned.values():
            if planned.from_s > now_s:
                self._coming.append((planned.from_s, planned.cluster, planned.entry))
            else:
                self._schedulers[planned.cluster].add(planned.entry)

    def served(self) -> list[PlannedStart]:
        """Return what one pass starts at the instant of the situation."""
        now_s = self._situation.now_s
        return [self._start(now_s, served) for served in serve(self._schedulers, now_s)]

    def played(self, share: float) -> list[PlannedStart]:
        """Return all starts until nothing is to come, if jobs run for this share of their
        limits."""
        coming = sorted(self._coming)
        arrive_s = [from_s for from_s, _, _ in coming]
        backfill = Backfill(self._schedulers, map(self._arrival, coming))

        def runs_s(served: Served) -> float:
            _, entry, _, _ = served
            return share * entry.limit_s

        engine = Engine(backfill, arrive_s, runs_s, self._situation.now_s, self._ends())
        starts: list[PlannedStart] = []
        while not engine.is_over:
            for served in engine.step():
                start = self._start(engine.now_s, served)
                starts.append(start)
                self._started.add(start.planned.arrival)
        return starts

    def _arrival(self, coming: tuple[float, int, Entry]) -> Arrival:
        """Return an entry whose time has come, unless its job runs elsewhere by then."""
        _, number, entry = coming
        return () if entry.arrival in self._started else ((number, entry),)

    def _ends(self) -> list[End]:
        return [
            (running.expected_s, cluster, holder_of(cluster, place))
            for cluster in range(len(self._schedulers))
            for place, running in enumerate(_running_on(self._situation, cluster))
        ]

    def _start(self, start_s: float, served: Served) -> PlannedStart:
        number, entry, _, backfilled = served
        return PlannedStart(self._planned[entry.arrival, number], start_s, backfilled)


def _running_on(situation: Situation, cluster: int) -> list[Running]:
    return [running for running in situation.running.values() if running.cluster == cluster]


def _schedulers(situation: Situation) -> list[EasyScheduler]:
    schedulers = []
    budgets = situation.budgets()
    for cluster, pool in enumerate(situation.pools):
        sets = [
            NodeSet(running.units, running.release_s, draw_mw=milliwatts(running.power_w))
            for running in _running_on(situation, cluster)
        ]
        free = pool.units - sum(node_set.nodes for node_set in sets)
        load = Load(pool.units, free, sets)
        schedulers.append(
            EasyScheduler(load, WaitQueue(), number=cluster, budgets=budgets[cluster])
        )
    return schedulers
