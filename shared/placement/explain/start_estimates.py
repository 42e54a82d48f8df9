"""When jobs that wait are expected to start: worked out beside the decisions, from a copy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from sys import maxsize
from typing import NamedTuple

from shared.placement.decide.interactive_jobs import NEVER, ExpectedStart
from shared.scheduling.backfill import ClusterScheduler
from shared.scheduling.forecast import Expected, HeldBackTasks, StartsAhead
from shared.scheduling.wait_queue import Entry


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What waits and what is held at an instant, by cluster; nobody else has or changes it. What
    starts is to take a `share` of its limit, and what runs to end when it is expected to, by
    what schedulers call it: without these at its limit. Tasks that are `held_back` wait for others
    of their arrays to end."""

    now_s: float
    queues: Mapping[str, Sequence[Entry]]
    schedulers: Mapping[str, ClusterScheduler]
    share: float = 1.0
    expected_s: Mapping[int, float] = field(default_factory=dict)
    held_back: Sequence[HeldBackTasks] = ()


class StartEstimate(NamedTuple):
    """What comes before a job: how many others, and its start.

    Without a start, it does not come before `not_before_s`; without this either it fits nowhere.
    """

    jobs_before: int
    expected: Expected | None
    not_before_s: float | None = None


class StartEstimates:
    """One forecast, continued as far as its questions need, and no further than `most_starts` and
    `most_instants`: what a question costs is bounded, and questions about several jobs cost one
    forecast.

    It is used by one thread at a time, which need not be that of the decisions: `give_way` is
    called between steps, and returns when there is time.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        most_starts: int,
        give_way: Callable[[], None] = lambda: None,
        most_instants: int = maxsize,
    ) -> None:
        self.now_s = snapshot.now_s
        self._give_way = give_way
        self._queues = {
            name: [*queue, *(e.entries[name] for e in snapshot.held_back if name in e.entries)]
            for name, queue in snapshot.queues.items()
        }
        played = snapshot.share, snapshot.expected_s, snapshot.held_back
        self._forecast = StartsAhead(self.now_s, snapshot.schedulers, *played)
        self._ahead = islice(self._forecast.starts(most_instants), most_starts)
        self._most_starts, self._most_instants = most_starts, most_instants
        self._schedulers = snapshot.schedulers
        self._found: dict[int, Expected] = {}

    def of(self, arrival: int) -> StartEstimate | None:
        """Return what comes before the job of this arrival number; None when it did not wait."""
        own = {
            name: found.order
            for name, queue in self._queues.items()
            for entry in queue
            if (found := entry.task(arrival)) is not None
        }
        if not own:
            return None
        expected, before = self._expected(arrival), self._jobs_before(own)
        return StartEstimate(before, expected, None if expected else self._not_before_s)

    def start_of(self, arrival: int) -> ExpectedStart:
        """Return when the job of this arrival number is expected to start."""
        if arrival not in self._found and not self._waits(arrival):
            return NEVER
        expected = self._expected(arrival)
        if expected is not None:
            return ExpectedStart(expected.start_s, expected.start_s)
        from_s = self._not_before_s
        return NEVER if from_s is None else ExpectedStart(inf, from_s)

    @property
    def _not_before_s(self) -> float | None:
        """Return until when was played; None where that was to the end."""
        is_cut = len(self._found) == self._most_starts
        is_cut |= self._forecast.instants == self._most_instants
        return self._forecast.now_s if is_cut else None

    def _waits(self, arrival: int) -> bool:
        return any(arrival in scheduler.queue for scheduler in self._schedulers.values())

    def _expected(self, arrival: int) -> Expected | None:
        while arrival not in self._found:
            self._give_way()
            start = next(self._ahead, None)
            if start is None:
                return None
            started, expected = start
            self._found[started] = expected
        return self._found[arrival]

    def _jobs_before(self, orders: Mapping[str, int]) -> int:
        before: dict[int, int] = {}
        for name, order in orders.items():
            for entry in self._queues[name]:
                tasks = entry.tasks_before(order)
                before[entry.arrival] = max(before.get(entry.arrival, 0), tasks)
        return sum(before.values())
