"""Budgets of power, and schedulers under them: random systems against an oracle of plain
intervals."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.scheduling.backfill import ClusterScheduler, serve
from shared.scheduling.capacity import AllocatedUnits, Capacity
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.dispatch import Served
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import Load, NodeSet
from shared.scheduling.power import NO_CAP_MW, Budgets, Cap, PowerBudget, Scope, Step
from shared.scheduling.problem import Allocation, Kind, NodeTable, Shape
from shared.scheduling.slurm import SlurmScheduler
from shared.scheduling.wait_queue import Entry, OtherMode, WaitQueue
from tests.unit.shared.scheduling.plain_power import Interval, PlainBudget
from tests.unit.shared.scheduling.systems import Pairs, queue_of

NODES, SCHEDULERS, JOBS, PARTS = 6, 3, 12, 2
# The first two schedulers count nodes and are of one site, the last one gives out halves of nodes
# too.
OF: Final = {"0": (0,), "1": (1,), "2": (2,), "site": (0, 1), "region": (0, 1, 2)}
WHOLE, HALF = Kind("", Shape((2, 0), True, 1)), Kind("a", Shape((1, 0), False, 1))
KINDS: Final = [WHOLE, HALF]
TABLE: Final = NodeTable(
    ("cores", "memory_mib"), np.array([[2] * NODES, [0] * NODES], dtype=np.int64)
)
limits = st.integers(1, 30).map(float)
draws = st.integers(0, 8).map(lambda tens: 10 * tens)
nodes = st.integers(1, NODES)
other_modes = st.lists(st.builds(OtherMode, limits, draws), max_size=2).map(tuple)


@st.composite
def caps(draw: st.DrawFn, most: int = 20) -> tuple[Step, ...]:
    """Up to four steps; often there is no cap before the first one."""
    times = sorted(draw(st.sets(st.integers(1, 60), max_size=3)))
    levels = st.one_of(st.integers(0, most).map(lambda tens: tens * 10), st.just(NO_CAP_MW))
    first = [(-inf, draw(levels))] if draw(st.booleans()) else []
    return (*first, *((float(time), draw(levels)) for time in times))


@dataclass(frozen=True)
class Running:
    """A job that holds nodes of a scheduler; which, where this matters."""

    scheduler: int
    entry: Entry
    start_s: float
    allocation: Allocation | None = None

    @property
    def end_s(self) -> float:
        return self.start_s + self.entry.limit_s


@dataclass
class System:
    """What waits, by scheduler and job, and what runs, under caps by name."""

    steps: dict[str, tuple[Step, ...]]
    now_s: float = 0.0
    waiting: dict[int, dict[int, Entry]] = field(default_factory=dict)
    running: dict[int, Running] = field(default_factory=dict)

    def budgets(self) -> list[list[PowerBudget]]:
        """New ones, in which nothing is committed, by scheduler."""
        named = {
            name: PowerBudget(Cap(Scope.SITE, name, steps), 10, is_shared=len(OF[name]) > 1)
            for name, steps in self.steps.items()
        }
        return [
            [b for name, b in named.items() if scheduler in OF[name]]
            for scheduler in range(SCHEDULERS)
        ]

    def schedulers(self) -> list[ClusterScheduler]:
        """Made anew of what waits and runs."""
        budgets = self.budgets()
        for budget in {id(b): b for each in budgets for b in each}.values():
            budget.advance(self.now_s)
        counting = [
            self._counting(scheduler, budgets[scheduler]) for scheduler in range(SCHEDULERS - 1)
        ]
        return [*counting, self._in_parts(SCHEDULERS - 1, budgets[-1])]

    def _counting(self, scheduler: int, budgets: list[PowerBudget]) -> EasyScheduler:
        sets = [
            NodeSet(one.entry.nodes, one.end_s, draw_mw=one.entry.draw_mw)
            for one in self.running.values()
            if one.scheduler == scheduler
        ]
        load = Load(NODES, NODES - sum(s.nodes for s in sets), sets)
        return EasyScheduler(load, self._queue(scheduler), scheduler, budgets)

    def _in_parts(self, scheduler: int, budgets: list[PowerBudget]) -> ConsumableScheduler:
        capacity, held = Capacity(TABLE), list[AllocatedUnits]()
        for job, one in sorted(self.running.items()):
            if one.scheduler == scheduler:
                assert one.allocation is not None
                kind = KINDS[one.entry.kind]
                capacity.take(kind, one.allocation)
                held.append(AllocatedUnits(one.end_s, job, kind, one.allocation, one.entry.draw_mw))
        queue = self._queue(scheduler)
        return ConsumableScheduler(capacity, held, queue, KINDS, Pairs(), scheduler, budgets)

    def _queue(self, scheduler: int) -> WaitQueue:
        return queue_of(self.waiting.get(scheduler, {}).values())

    def start(self, scheduler: int, entry: Entry, allocation: Allocation | None) -> None:
        for waiting in self.waiting.values():
            waiting.pop(entry.arrival, None)
        self.running[entry.arrival] = Running(scheduler, entry, self.now_s, allocation)

    def jobs(self) -> list[int]:
        return sorted({job for on in self.waiting.values() for job in on})


@st.composite
def entries(draw: st.DrawFn, job: int) -> dict[int, Entry]:
    """A job on one scheduler or several, dearer on one than on another, with up to three modes."""
    on = draw(st.sets(st.integers(0, SCHEDULERS - 1), min_size=1))
    size, limit_s, kind = draw(nodes), draw(limits), draw(st.integers(0, 1))
    return {
        scheduler: Entry(
            job * SCHEDULERS + scheduler,
            job,
            size,
            limit_s,
            scheduler == PARTS,
            kind,
            draw(draws),
            draw(other_modes),
        )
        for scheduler in sorted(on)
    }


# The number of a job that no operation is of.
NOBODY = 99
operations = st.lists(
    st.tuples(
        st.sampled_from(["hold", "let go", "reserve", "give up", "advance"]),
        st.integers(0, 5),
        st.integers(0, 40),
        limits,
        draws,
    ),
    max_size=12,
)


def applied(
    budget: PowerBudget, plain: PlainBudget, operation: tuple[str, int, int, float, int]
) -> None:
    kind, job, later, limit_s, draw_mw = operation
    now_s = plain.now_s
    if kind == "hold" and job not in plain.running:
        budget.hold(job, now_s + limit_s, draw_mw)
        plain.running[job] = Interval(now_s, now_s + limit_s, draw_mw)
    elif kind == "let go" and job in plain.running:
        budget.release(job)
        del plain.running[job]
    elif kind == "reserve":
        kept = Interval(now_s + later, now_s + later + limit_s, draw_mw)
        budget.reserve(job, kept.begin_s, limit_s, draw_mw)
        if job not in plain.reserved or kept.begin_s < plain.reserved[job].begin_s:
            plain.reserved[job] = kept
    elif kind == "give up":
        budget.give_up(job)
        plain.reserved.pop(job, None)
    elif kind == "advance":
        plain.now_s += later // 4
        budget.advance(plain.now_s)


@settings(max_examples=160, deadline=None)
@given(caps(), operations, limits, draws, st.integers(0, 30), st.integers(0, 5))
def test_a_budget_answers_as_a_look_at_every_second_does(
    steps: tuple[Step, ...],
    done: list[tuple[str, int, int, float, int]],
    limit_s: float,
    draw_mw: int,
    later: int,
    job: int,
) -> None:
    budget, plain = PowerBudget(Cap(Scope.REGION, "", steps), 10), PlainBudget(steps, 10)
    budget.advance(0.0)
    for operation in done:
        applied(budget, plain, operation)
        now_s = plain.now_s
        from_s = now_s + later
        assert budget.least_headroom_mw(from_s, from_s + limit_s) == plain.least_room(
            from_s, from_s + limit_s
        )
        may = plain.least_room(now_s, now_s + limit_s, but=job) >= draw_mw
        assert budget.has(draw_mw, now_s + limit_s, job) == may
        expected_s = plain.earliest(draw_mw, limit_s, from_s, but=job)
        assert budget.earliest(draw_mw, limit_s, from_s, job) == expected_s
        for asked in {NOBODY, job, NOBODY + 1} - plain.running.keys():  # strangers ask alike
            shortage = budget.shortage(draw_mw, now_s + limit_s, asked)
            least_mw = plain.least_room(now_s, now_s + limit_s, but=asked)
            assert (shortage is None) == (least_mw >= draw_mw)
            until_s = plain.earliest(draw_mw, limit_s, now_s, but=asked)
            assert shortage is None or shortage.until_s == until_s


@settings(max_examples=160, deadline=None)
@given(st.lists(caps(), max_size=3), operations, limits, draws, st.integers(0, 5))
def test_budgets_together_have_what_each_of_them_has(
    each: list[tuple[Step, ...]],
    done: list[tuple[str, int, int, float, int]],
    limit_s: float,
    draw_mw: int,
    job: int,
) -> None:
    under = [
        (PowerBudget(Cap(Scope.REGION, "", steps), 10), PlainBudget(steps, 10)) for steps in each
    ]
    budgets = Budgets(budget for budget, _ in under)
    budgets.begin(0.0)
    for place, operation in enumerate(done):
        # Under all of them, or under the first alone; time passes for all.
        is_of_all = place % 2 or operation[0] == "advance"
        for budget, plain in under if is_of_all else under[:1]:
            applied(budget, plain, operation)
        for asked in (job, -1):
            had = [p.least_room(p.now_s, p.now_s + limit_s, but=asked) for _, p in under]
            now_s = under[0][1].now_s if under else 0.0
            assert budgets.has(draw_mw, now_s + limit_s, asked) == all(
                room_mw >= draw_mw for room_mw in had
            )


operations_of_a_life = st.lists(
    st.tuples(st.sampled_from(["submit", "submit", "end", "cancel", "pass"]), st.integers(0, 99)),
    min_size=1,
    max_size=25,
)


class Life:
    """A system and schedulers that live on while it changes."""

    def __init__(self, system: System) -> None:
        self.system, self.schedulers, self._submitted = system, system.schedulers(), 0

    def happens(self, kind: str, pick: int, data: st.DataObject) -> None:
        """Something, or nothing where there is none that it could happen to."""
        match kind:
            case "submit":
                self._submit(data.draw(entries(self._submitted)))
            case "end" if self.system.running:
                job = sorted(self.system.running)[pick % len(self.system.running)]
                self.schedulers[self.system.running.pop(job).scheduler].release(job)
            case "cancel" if jobs := self.system.jobs():
                self._cancel(jobs[pick % len(jobs)])
            case "pass":
                self.system.now_s += pick % 12

    def _submit(self, found: dict[int, Entry]) -> None:
        for scheduler, entry in found.items():
            self.system.waiting.setdefault(scheduler, {})[self._submitted] = entry
            self.schedulers[scheduler].add(entry)
        self._submitted += 1

    def _cancel(self, job: int) -> None:
        for scheduler in self.schedulers:
            scheduler.drop(job)
        for waiting in self.system.waiting.values():
            waiting.pop(job, None)


def told(schedulers: list[ClusterScheduler], served: list[Served]) -> Iterator[object]:
    """The result of a pass."""
    yield [(number, entry, allocation) for number, entry, allocation, _ in served]
    for scheduler in schedulers:
        assert not isinstance(scheduler, SlurmScheduler)
        yield scheduler.reservation


@settings(max_examples=90, deadline=None)
@given(st.sets(st.sampled_from(sorted(OF))), operations_of_a_life, st.data())
def test_schedulers_that_live_on_decide_as_those_that_are_made_anew(
    chosen: set[str], events: list[tuple[str, int]], data: st.DataObject
) -> None:
    system = System({name: data.draw(caps()) for name in sorted(chosen)})
    life = Life(system)
    for kind, pick in events:
        life.happens(kind, pick, data)
        anew = system.schedulers()
        expected = list(told(anew, serve(anew, system.now_s)))
        served = serve(life.schedulers, system.now_s)
        assert list(told(life.schedulers, served)) == expected
        for number, entry, allocation, _ in served:
            system.start(number, entry, allocation)
        assert serve(system.schedulers(), system.now_s) == []


def test_what_is_left_beyond_idle_power_is_less_by_it_at_each_step() -> None:
    cap = Cap(Scope.CLUSTER, "alpha", ((0.0, 1_000), (60.0, 700)))
    assert cap.less(300).steps == ((0.0, 700), (60.0, 400))


def test_behind_a_reservation_there_is_what_it_took_and_no_more() -> None:
    budget = PowerBudget(Cap(Scope.CLUSTER, "alpha", ((0.0, 10),)))
    budget.advance(0.0)
    budget.reserve(1, 5.0, 5.0, 4)
    assert budget.earliest(7, 3.0, 3.0) == 10.0
    assert budget.earliest(10, 3.0, 6.0) == 10.0
    assert budget.earliest(11, 3.0, 6.0) == inf
