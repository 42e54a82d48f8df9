"""Slack-based scheduling of tasks with deadlines onto cores whose neighbours slow each other down.

Dauwe et al., "HPC node performance and energy modeling with the co-location of applications", J.
Supercomputing 72, 2016, section 6.5. Two of its listings are corrected here: Algorithm 3 moves the
ends of tasks and measures progress by where those ends have been, so that it overshoots, and never
ends where the unit interference is 1 or more; `completions_s` measures progress by work instead.
Algorithm 4 never resets whether a task has a node, so that the node of one task would do for all
that come after it.
"""

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Final, NamedTuple

from shared.scheduling.dispatch import Dispatcher, Served
from shared.scheduling.problem import Allocation
from shared.scheduling.progress import ENDED
from shared.scheduling.wait_queue import Entry

# Slack that is no more than this is rounding.
_LEAST_SLACK_S: Final = 1e-6


class Task(NamedTuple):
    """A run of the application of this number on a core; worth nothing after its deadline."""

    app: int
    deadline_s: float


class Work(NamedTuple):
    """The work that a task on a node has left, in seconds of running alone."""

    app: int
    left_s: float


class UnitInterference:
    """T_co / T_alone - 1 of an application beside others on the other cores (equation 12): the time
    that a second of its own work takes longer.

    A group of applications is one number, the sum of the `weights` of its members, so that looking
    it up costs no sorting.
    """

    def __init__(self, alone_s: Sequence[float], cores: int) -> None:
        self.alone_s, self.cores = list(alone_s), cores
        self.weights = [1]
        while len(self.weights) < len(self.alone_s):
            self.weights.append(self.weights[-1] * (cores + 1))
        self._ratios: list[dict[int, float]] = [{0: 0.0} for _ in self.weights]

    def set(self, app: int, others: Sequence[int], ratio: float) -> None:
        """Set the ratio beside others. It counts at least 0: no task runs faster for having
        neighbours."""
        self._ratios[app][sum([self.weights[other] for other in others])] = max(ratio, 0.0)

    def ratio(self, app: int, group: int) -> float:
        """Return the ratio of one in a group that it is in itself. Raises KeyError for a group
        never set."""
        return self._ratios[app][group - self.weights[app]]


def unaware(alone_s: Sequence[float], cores: int) -> UnitInterference:
    """Return the belief of a scheduler that ignores co-location: no task slows another down."""
    return _Unaware(alone_s, cores)


class _Unaware(UnitInterference):
    def ratio(self, app: int, group: int) -> float:
        return 0.0


def completions_s(now_s: float, works: Sequence[Work], slowed: UnitInterference) -> list[float]:
    """Return when each of the tasks on a node is done if none joins them: Algorithm 3.

    In an interval in which no task leaves, work advances at 1 / (1 + unit interference); the first
    to be done ends the interval, and those that stay have one neighbour fewer.
    """
    left = [work.left_s for work in works]
    ends, active = [now_s] * len(left), list(range(len(left)))
    while active:
        group = sum([slowed.weights[works[place].app] for place in active])
        ratios = [1.0 + slowed.ratio(works[place].app, group) for place in active]
        takes = [left[place] * ratio for place, ratio in zip(active, ratios, strict=True)]
        step_s = min(takes)
        now_s += step_s
        staying = list[int]()
        for place, ratio, take_s in zip(active, ratios, takes, strict=True):
            if take_s <= step_s:
                ends[place] = now_s
            else:
                left[place] -= step_s / ratio
                staying.append(place)
        active = staying
    return ends


class _OnCore:
    """A running task, and the work that is believed to be left of it."""

    def __init__(self, holder: int, task: Task, left_s: float) -> None:
        self.holder, self.task, self.left_s = holder, task, left_s


class _Node:
    """Tasks of a node, and how far they are believed to be."""

    def __init__(self) -> None:
        self.running: list[_OnCore] = []
        self.group = 0
        self._as_of_s = 0.0

    def works(self, now_s: float, slowed: UnitInterference) -> list[Work]:
        """Return what each has left now, as believed."""
        self.advance(now_s, slowed)
        return [Work(each.task.app, each.left_s) for each in self.running]

    def advance(self, now_s: float, slowed: UnitInterference) -> None:
        """Let the tasks go on to a time beside their neighbours."""
        elapsed_s, self._as_of_s = now_s - self._as_of_s, now_s
        for each in self.running:
            ratio = 1.0 + slowed.ratio(each.task.app, self.group)
            each.left_s = max(each.left_s - elapsed_s / ratio, 0.0)

    def is_kept(self, ends_s: Sequence[float]) -> bool:
        """Return True where all running tasks meet their deadlines if they end then."""
        kept = zip(self.running, ends_s, strict=True)
        return all(each.task.deadline_s - end_s > _LEAST_SLACK_S for each, end_s in kept)


class SlackScheduler(Dispatcher):
    """One cluster of nodes alike: see Dispatcher.

    Whenever a task arrives or a core gets free, the waiting tasks are looked at from least slack to
    most; each goes onto the node with fewest free cores on which it is `believed` to meet its
    deadline and to let all tasks that run there meet theirs. `actual` is what neighbours cost in
    truth: it sets the slowdowns of running tasks, and nothing is decided by it. With `unaware` as
    belief it is the heuristic that ignores co-location, with `actual` the one that predicts
    perfectly.

    A task that runs at its deadline is removed: `missed` are its numbers, in the order of arrivals.
    """

    def __init__(
        self,
        nodes: int,
        believed: UnitInterference,
        actual: UnitInterference,
        arrivals: Iterator[Task],
    ) -> None:
        self.missed: set[int] = set()
        self._believed, self._actual, self._arrivals = believed, actual, arrivals
        self._arrived = 0
        self._nodes = [_Node() for _ in range(nodes)]
        # Of nodes with so many free cores, ascending.
        self._by_free: list[list[int]] = [[] for _ in range(believed.cores)]
        self._by_free.append(list(range(nodes)))
        self._node_of: dict[int, int] = {}
        # By the latest start, which orders by slack: number and task.
        self._waiting: list[tuple[float, int, Task]] = []
        self._deadlines: list[tuple[float, int]] = []
        self._ended: list[int] = []
        self._slowdowns: dict[int, float] = {}
        # When a newcomer of an application would be done on a node, at this instant.
        self._ends_s: list[dict[int, float]] = []
        self._earliest_s: dict[int, float] = {}

    @property
    def waits(self) -> bool:
        """Return True while anything waits."""
        return bool(self._waiting)

    @property
    def active(self) -> tuple[int, int]:
        """Return the cores on which a task runs, and the nodes with at least one such core."""
        return len(self._node_of), len(self._nodes) - len(self._by_free[-1])

    def arrive(self) -> None:
        """Take the next of the arrivals."""
        task = next(self._arrivals)
        latest_s = task.deadline_s - self._believed.alone_s[task.app]
        insort(self._waiting, (latest_s, self._arrived, task))
        self._arrived += 1

    def end(self, number: int, holder: int) -> None:
        """Note a task that ended; it is taken off its node at the next decision."""
        self._ended.append(holder)

    def decide(self, now_s: float) -> list[Served]:
        """Return what starts now. At an instant at which something is removed it is asked once
        more."""
        touched = self._remove_ended(now_s)
        self._slowdowns = dict.fromkeys(self._overdue(now_s), ENDED)
        started: list[Served] = []
        if not self._slowdowns:
            started = self._start(now_s)
            touched |= {self._node_of[entry.arrival] for _, entry, _, _ in started}
        for index in touched:
            node = self._nodes[index]
            for each in node.running:
                slowdown_ratio = 1.0 + self._actual.ratio(each.task.app, node.group)
                self._slowdowns.setdefault(each.holder, slowdown_ratio)
        return started

    def wake_s(self, now_s: float) -> float:
        """Return the next deadline of a running task."""
        deadlines = self._deadlines
        while deadlines:
            deadline_s, number = deadlines[0]
            if number in self._node_of:
                return deadline_s
            heappop(deadlines)
        return inf

    def slowdowns(self) -> Mapping[int, float]:
        """Return what neighbours cost in truth; a removed task ends."""
        return self._slowdowns

    def _remove_ended(self, now_s: float) -> set[int]:
        """Take off tasks that have ended: return the nodes that they were on."""
        touched = set[int]()
        for holder in self._ended:
            index = self._node_of.pop(holder)
            node = self._nodes[index]
            node.advance(now_s, self._believed)
            ended = next(each for each in node.running if each.holder == holder)
            self._move(index, 1)
            node.running.remove(ended)
            node.group -= self._believed.weights[ended.task.app]
            touched.add(index)
        self._ended = []
        return touched

    def _overdue(self, now_s: float) -> list[int]:
        """Return the tasks that run at their deadlines."""
        overdue, deadlines = list[int](), self._deadlines
        while deadlines:
            deadline_s, holder = deadlines[0]
            if deadline_s > now_s:
                break
            heappop(deadlines)
            if holder in self._node_of:
                overdue.append(holder)
        self.missed.update(overdue)
        return overdue

    def _start(self, now_s: float) -> list[Served]:
        """Start each waiting task, from least slack to most, on the first node that takes it."""
        self._ends_s = [{} for _ in self._nodes]
        self._earliest_s = {}
        waiting, started, left = self._waiting, list[Served](), list[tuple[float, int, Task]]()
        for latest_s, number, task in waiting:
            if latest_s - now_s <= _LEAST_SLACK_S:
                continue  # no node would be in time any more
            index = self._node_for(now_s, task)
            if index < 0:
                left.append((latest_s, number, task))
            else:
                self._place(now_s, index, number, task)
                entry = Entry(number, number, 1, task.deadline_s - now_s, in_parts=True)
                started.append((0, entry, Allocation((index,), (1,)), False))
        self._waiting = left
        return started

    def _node_for(self, now_s: float, task: Task) -> int:
        """Return the fullest node that is in time for it, the first of those; -1 where none is."""
        latest_s = task.deadline_s - _LEAST_SLACK_S
        if self._earliest_s.get(task.app, 0.0) >= latest_s:
            return -1
        earliest_s = inf
        for nodes in self._by_free[1:]:
            for index in nodes:
                end_s = self._end_s(now_s, index, task.app)
                if end_s < latest_s:
                    return index
                earliest_s = min(earliest_s, end_s)
                if not self._nodes[index].running:
                    break  # all that are empty are alike
        self._earliest_s[task.app] = earliest_s
        return -1

    def _end_s(self, now_s: float, index: int, app: int) -> float:
        """Return when a task of the application would be done there; infinite where it would make a
        task that runs there miss its deadline."""
        known = self._ends_s[index]
        if app not in known:
            node = self._nodes[index]
            works = node.works(now_s, self._believed)
            works.append(Work(app, self._believed.alone_s[app]))
            *others_s, end_s = completions_s(now_s, works, self._believed)
            known[app] = end_s if node.is_kept(others_s) else inf
        return known[app]

    def _place(self, now_s: float, index: int, number: int, task: Task) -> None:
        """Put a task onto a node."""
        node = self._nodes[index]
        node.advance(now_s, self._believed)
        self._move(index, -1)
        node.running.append(_OnCore(number, task, self._believed.alone_s[task.app]))
        node.group += self._believed.weights[task.app]
        self._node_of[number] = index
        self._ends_s[index] = {}
        self._earliest_s = {}
        heappush(self._deadlines, (task.deadline_s, number))

    def _move(self, index: int, cores: int) -> None:
        """Change a node's free cores by so many."""
        free = self._believed.cores - len(self._nodes[index].running)
        self._by_free[free].remove(index)
        insort(self._by_free[free + cores], index)
