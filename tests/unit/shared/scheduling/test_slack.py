"""Slack-based scheduling against the plainest form of itself, and against what work is."""

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, pairwise
from math import inf

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shared.scheduling.dispatch import Served
from shared.scheduling.engine import Engine
from shared.scheduling.slack import (
    SlackScheduler,
    Task,
    UnitInterference,
    Work,
    completions_s,
    unaware,
)

CORES, ROUNDING_S = 3, 1e-9
Of = Callable[[int, tuple[int, ...]], float]


def interference(
    alone_s: Sequence[float], ratios: Sequence[float], cores: int = CORES
) -> UnitInterference:
    """Every group of applications in turn has the next of some ratios."""
    found, count = UnitInterference(alone_s, cores), 0
    for app in range(len(alone_s)):
        for size in range(1, cores):
            for others in combinations_with_replacement(range(len(alone_s)), size):
                found.set(app, others, ratios[count % len(ratios)])
                count += 1
    return found


def slowed(of: UnitInterference, app: int, apps: Sequence[int]) -> float:
    return 1 + of.ratio(app, sum(of.weights[each] for each in apps))


RATIOS = st.lists(st.floats(0.0, 3.0), min_size=5, max_size=5)


@settings(max_examples=60, deadline=None)
@given(
    RATIOS,
    st.lists(st.tuples(st.integers(0, 1), st.floats(0.0, 100.0)), min_size=1, max_size=CORES),
)
def test_until_its_completion_each_task_does_all_its_work(
    ratios: list[float], on_node: list[tuple[int, float]]
) -> None:
    of = interference([10.0, 20.0], ratios)
    works = [Work(*each) for each in on_node]
    ends = completions_s(5.0, works, of)
    for work, end_s in zip(works, ends, strict=True):
        done = 0.0
        for begin_s, until_s in pairwise(sorted({5.0, *(e for e in ends if e <= end_s)})):
            beside = [w.app for w, e in zip(works, ends, strict=True) if e >= until_s]
            done += (until_s - begin_s) / slowed(of, work.app, beside)
        assert done == pytest.approx(work.left_s, abs=1e-9)


class Playing:
    """The result of a run: which job started and ended when."""

    def __init__(
        self, nodes: int, arrive_s: Sequence[float], tasks: Sequence[Task], *of: UnitInterference
    ) -> None:
        believed, actual = of
        self.scheduler = SlackScheduler(nodes, believed, actual, iter(tasks))
        self.starts: dict[int, tuple[float, int]] = {}
        self.ends: dict[int, float] = {}

        def runs_s(served: Served) -> float:
            return actual.alone_s[tasks[served[1].arrival].app]

        engine = Engine(self.scheduler, arrive_s, runs_s, arrive_s[0])
        while engine.next_s < inf:
            for _, entry, allocation, _ in engine.step():
                assert allocation is not None
                assert entry.limit_s == tasks[entry.arrival].deadline_s - engine.now_s
                self.starts[entry.arrival] = engine.now_s, allocation.nodes[0]
            self.ends |= dict.fromkeys(engine.ended, engine.now_s)


class Reference:
    """Algorithm 4 without anything remembered: every task is asked of every node, each time.

    `is_close` where the last digit of a time decides: which of two events is first, or whether
    there is slack.
    """

    def __init__(
        self, nodes: int, arrive_s: Sequence[float], tasks: Sequence[Task], *of: UnitInterference
    ) -> None:
        self.believed, self.actual = of
        self.nodes, self.tasks = nodes, tasks
        self.left: dict[int, list[float]] = {}  # of those that run: in truth, and as believed
        self.on: dict[int, int] = {}
        self.starts: dict[int, tuple[float, int]] = {}
        self.ends: dict[int, float] = {}
        self.is_close = False
        now_s, waiting, coming = 0.0, list[int](), list(range(len(tasks)))
        while coming or self.on:
            nexts = [tasks[n].deadline_s for n in self.on] + [arrive_s[n] for n in coming[:1]]
            nexts += [now_s + self.left[n][0] * self.pace(self.actual, n) for n in self.on]
            self.is_close |= sum(each <= min(nexts) + ROUNDING_S for each in nexts) > 1
            self.advance(min(nexts) - now_s)
            now_s = min(nexts)
            for n in list(self.on):
                if self.left[n][0] <= 1e-9 or tasks[n].deadline_s <= now_s:
                    self.ends[n] = now_s
                    del self.on[n]
            while coming and arrive_s[coming[0]] <= now_s:
                waiting.append(coming.pop(0))
            alone_s = self.believed.alone_s
            for n in sorted(
                waiting, key=lambda n: (tasks[n].deadline_s - alone_s[tasks[n].app], n)
            ):
                node = self.node_for(now_s, n)
                if node is not None:
                    waiting.remove(n)
                    self.on[n], self.starts[n] = node, (now_s, node)
                    self.left[n] = [alone_s[tasks[n].app]] * 2

    def beside(self, node: int) -> list[int]:
        return [n for n, on in self.on.items() if on == node]

    def pace(self, of: UnitInterference, n: int) -> float:
        return slowed(of, self.tasks[n].app, [self.tasks[m].app for m in self.beside(self.on[n])])

    def advance(self, elapsed_s: float) -> None:
        for n in self.on:
            for place, of in enumerate((self.actual, self.believed)):
                self.left[n][place] -= elapsed_s / self.pace(of, n)

    def node_for(self, now_s: float, n: int) -> int | None:
        free = {node: CORES - len(self.beside(node)) for node in range(self.nodes)}
        for node in sorted(free, key=lambda node: (free[node], node)):
            if free[node]:
                works = [
                    Work(self.tasks[m].app, max(self.left[m][1], 0.0)) for m in self.beside(node)
                ]
                works.append(Work(self.tasks[n].app, self.believed.alone_s[self.tasks[n].app]))
                ends = completions_s(now_s, works, self.believed)
                all_tasks = [self.tasks[m] for m in (*self.beside(node), n)]
                slack = [t.deadline_s - e for t, e in zip(all_tasks, ends, strict=True)]
                self.is_close |= abs(min(slack) - 1e-6) < ROUNDING_S
                if min(slack) > 1e-6:
                    return node
        return None


TASKS = st.lists(
    st.tuples(st.floats(0.0, 10.0), st.integers(0, 1), st.floats(1.2, 3.0)), min_size=1, max_size=25
)


def timed(
    drawn: list[tuple[float, int, float]], alone_s: list[float]
) -> tuple[list[float], list[Task]]:
    arrive_s, tasks, now_s = list[float](), list[Task](), 0.0
    for gap_s, app, factor in drawn:
        now_s += gap_s
        arrive_s.append(now_s)
        tasks.append(Task(app, now_s + factor * alone_s[app]))
    return arrive_s, tasks


@settings(max_examples=60, deadline=None)
@given(RATIOS, RATIOS, TASKS, st.integers(1, 3))
def test_what_is_remembered_changes_no_decision(
    ratios: list[float], other: list[float], drawn: list[tuple[float, int, float]], nodes: int
) -> None:
    alone_s = [13.7, 29.3]
    of = interference(alone_s, ratios), interference(alone_s, other)
    found = Playing(nodes, *timed(drawn, alone_s), *of)
    expected = Reference(nodes, *timed(drawn, alone_s), *of)
    assume(not expected.is_close)
    assert found.starts.keys() == expected.starts.keys()
    for n, (start_s, node) in expected.starts.items():
        assert found.starts[n][0] == pytest.approx(start_s)
        assert found.starts[n][1] == node
        assert found.ends[n] == pytest.approx(expected.ends[n])


@settings(max_examples=60, deadline=None)
@given(RATIOS, TASKS, st.integers(1, 3))
def test_who_predicts_perfectly_misses_no_deadline(
    ratios: list[float], drawn: list[tuple[float, int, float]], nodes: int
) -> None:
    alone_s = [13.7, 29.3]
    of = interference(alone_s, ratios)
    arrive_s, tasks = timed(drawn, alone_s)
    found = Playing(nodes, arrive_s, tasks, of, of)
    assert not found.scheduler.missed
    assert all(end_s <= tasks[n].deadline_s for n, end_s in found.ends.items())
    assert found.ends.keys() == found.starts.keys()


def test_who_knows_of_no_neighbours_fills_a_node_and_what_is_late_is_removed_at_its_deadline() -> (
    None
):
    actual = interference([10.0], [1.0, 2.0])
    tasks = [Task(0, 15.0), Task(0, 16.0), Task(0, 17.0)]
    found = Playing(2, [0.0, 0.0, 0.0], tasks, unaware([10.0], CORES), actual)
    assert {node for _, node in found.starts.values()} == {0}
    # Three at a third of the pace have done 5 at 15 s; two at half of it have done 5.5 at 16 s.
    assert found.scheduler.missed == {0, 1, 2}
    assert found.ends == {0: 15.0, 1: 16.0, 2: 17.0}


@pytest.mark.parametrize(("spare_s", "starts_beside"), [(0.0, False), (5e-7, False), (2e-6, True)])
def test_who_would_be_done_at_its_deadline_beside_another_waits_for_more_slack(
    spare_s: float, starts_beside: bool
) -> None:
    """Each takes twice as long beside the other."""
    of = interference([10.0], [1.0] * 2)
    tasks = [Task(0, 100.0), Task(0, 20.0 + spare_s)]
    scheduler = SlackScheduler(1, of, of, iter(tasks))
    scheduler.arrive()
    assert scheduler.waits
    assert [entry.limit_s for _, entry, _, _ in scheduler.decide(0.0)] == [100.0]
    assert not scheduler.waits
    scheduler.arrive()
    found = [(entry.arrival, entry.limit_s) for _, entry, _, _ in scheduler.decide(0.0)]
    assert found == ([(1, 20.0 + spare_s)] if starts_beside else [])
    assert scheduler.waits != starts_beside
