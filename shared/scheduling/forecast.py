"""Forecasts of starts: when and where waiting jobs would start if nothing else arrived and every
limit was used up."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from sys import maxsize
from typing import Final, NamedTuple

from shared.scheduling.backfill import Backfill, ClusterScheduler
from shared.scheduling.dispatch import Served
from shared.scheduling.engine import Engine
from shared.scheduling.wait_queue import Entry

_NOT_KNOWN: Final[Mapping[int, float]] = {}


@dataclass(frozen=True, slots=True)
class Expected:
    """A start that lies ahead."""

    cluster: str
    start_s: float


class HeldBackTasks(NamedTuple):
    """Tasks of an array that may start once others of it end, one for each: by cluster, the entry
    of the first with the later ones. The tasks of the array have the arrival numbers from one to
    before another; `holders` are those that have nodes."""

    entries: Mapping[str, Entry]
    first: int
    behind: int
    holders: tuple[int, ...]


class _HoldingBack(Backfill):
    """Schedulers that get a task of an array when another one of it has ended."""

    def __init__(
        self, schedulers: Mapping[str, ClusterScheduler], arrays: Sequence[HeldBackTasks]
    ) -> None:
        super().__init__(list(schedulers.values()), iter(()))
        self._names = list(schedulers)
        self._arrays = sorted(arrays, key=_first)
        self._tasks = [dict(each.entries) for each in self._arrays]
        self._array_of = {
            holder: number for number, each in enumerate(self._arrays) for holder in each.holders
        }
        self._ended: list[int] = []

    @property
    def waits(self) -> bool:
        """Return True while anything waits, or may once a task ends."""
        return bool(self._array_of) or any(len(each.queue) for each in self._schedulers)

    def end(self, number: int, holder: int) -> None:
        """Free the nodes of a job, and note of which array it was."""
        super().end(number, holder)
        array = self._array_of.pop(holder, None)
        if array is not None:
            self._ended.append(array)

    def decide(self, now_s: float) -> list[Served]:
        """Return the entries that start now, also of tasks whose turn it is."""
        for array in self._ended:
            self._add_next(array)
        self._ended.clear()
        started = super().decide(now_s)
        for _, entry, _, _ in started:
            array = bisect_right(self._arrays, entry.arrival, key=_first) - 1
            is_task = array >= 0 and entry.arrival < self._arrays[array].behind
            if is_task and self._tasks[array]:
                self._array_of[entry.arrival] = array
        return started

    def _add_next(self, array: int) -> None:
        tasks = self._tasks[array]
        for number, name in enumerate(self._names):
            if (entry := tasks.pop(name, None)) is not None:
                self._schedulers[number].add(entry._replace(later=None))
                if (task := entry.next_task()) is not None:
                    tasks[name] = task


def _first(tasks: HeldBackTasks) -> int:
    return tasks.first


class StartsAhead:
    """Plays what lies ahead, instant by instant. The schedulers, numbered by their place, are used
    up; `now_s` is the last instant, and `instants` is how many were played.

    An entry that starts takes a `share` of its limit; a running job ends when it is expected to, by
    its holder, or else at its limit. By the whole limits, jobs end before them and others arrive:
    most starts come earlier, and where better tiers or priorities arrive some come later. Jobs are
    left out that fit nowhere as the clusters are, or under no cap. Tasks that are held back
    wait until others of their array end.
    """

    def __init__(
        self,
        now_s: float,
        schedulers: Mapping[str, ClusterScheduler],
        share: float = 1.0,
        expected_s: Mapping[int, float] = _NOT_KNOWN,
        held_back: Sequence[HeldBackTasks] = (),
    ) -> None:
        self.now_s, self.instants = now_s, 0
        self._names, self._share = list(schedulers), share
        ends = [
            (max(expected_s.get(holder, end_s), now_s), scheduler.number, holder)
            for scheduler in schedulers.values()
            for end_s, holder in scheduler.expected_ends()
        ]
        dispatcher = _HoldingBack(schedulers, held_back)
        self._engine = Engine(dispatcher, (), self._runs_s, now_s, ends)

    def starts(self, most_instants: int = maxsize) -> Iterator[tuple[int, Expected]]:
        """Yield the arrival numbers of the jobs in the queue with their expected starts, soonest
        first: as far as it is asked for, and of so many instants at most."""
        engine = self._engine
        while self.instants < most_instants and not engine.is_over:
            started = engine.step()
            self.now_s, self.instants = engine.now_s, self.instants + 1
            for number, entry, _, _ in started:
                yield entry.arrival, Expected(self._names[number], engine.now_s)

    def _runs_s(self, served: Served) -> float:
        _, entry, _, _ = served
        return self._share * entry.limit_s
