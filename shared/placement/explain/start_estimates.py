"""When jobs that wait are expected to start: worked out beside the decisions, from a copy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from shared.scheduling.backfill import ClusterScheduler
from shared.scheduling.forecast import Expected, HeldBackTasks, forecast
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
    """One forecast, continued as far as its questions need, and no further than `most_starts`: what
    a question costs is bounded, and questions about several jobs cost one forecast.

    It is used by one thread at a time, which need not be that of the decisions: `give_way` is
    called between steps, and returns when there is time.
    """

    def __init__(
        self, snapshot: Snapshot, most_starts: int, give_way: Callable[[], None] = lambda: None
    ) -> None:
        self.now_s = snapshot.now_s
        self._give_way = give_way
        self._queues = {
            name: [*queue, *(e.entries[name] for e in snapshot.held_back if name in e.entries)]
            for name, queue in snapshot.queues.items()
        }
        played = snapshot.share, snapshot.expected_s, snapshot.held_back
        ahead = forecast(self.now_s, snapshot.schedulers, *played)
        self._ahead = islice(ahead, most_starts)
        self._most_starts = most_starts
        self._found: dict[int, Expected] = {}
        self._last_s = self.now_s

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
        is_cut = len(self._found) == self._most_starts
        return StartEstimate(before, expected, self._last_s if is_cut and not expected else None)

    def _expected(self, arrival: int) -> Expected | None:
        while arrival not in self._found:
            self._give_way()
            start = next(self._ahead, None)
            if start is None:
                return None
            started, expected = start
            self._found[started] = expected
            self._last_s = expected.start_s
        return self._found[arrival]

    def _jobs_before(self, orders: Mapping[str, int]) -> int:
        before: dict[int, int] = {}
        for name, order in orders.items():
            for entry in self._queues[name]:
                tasks = entry.tasks_before(order)
                before[entry.arrival] = max(before.get(entry.arrival, 0), tasks)
        return sum(before.values())
