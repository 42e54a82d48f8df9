"""Schedulers played forward from one instant to the next, up to what is known to come."""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from shared.scheduling.easy import Served
from shared.scheduling.passes import ClusterScheduler, serve
from shared.scheduling.wait_queue import Entry

# When a job that runs is expected to end, its scheduler's number, and the holder of its nodes.
End = tuple[float, int, int]
# When an entry comes, and its scheduler's number.
Coming = tuple[float, int, Entry]


def forward(
    schedulers: Sequence[ClusterScheduler],
    now_s: float,
    ends: list[End],
    coming: list[Coming],
    share: float = 1.0,
) -> Iterator[tuple[float, Served]]:
    """All that starts, and when, soonest first, as far as it is asked for.

    What starts is expected to end after a `share` of its limit. Schedulers are numbered by their
    place. `ends` and `coming` are used up.
    """
    heapify(ends)
    heapify(coming)
    started: set[int] = set()
    while True:
        for served in serve(schedulers, now_s):
            number, entry, _, _ = served
            started.add(entry.arrival)
            heappush(ends, (now_s + share * entry.limit_s, number, entry.arrival))
            yield now_s, served
        waits = any(len(scheduler.queue) for scheduler in schedulers)
        step_s = _next_step_s(schedulers) if waits else inf
        now_s = min([step_s, *(ahead[0][0] for ahead in (ends, coming) if ahead)])
        if now_s == inf or not (coming or waits):
            return
        while ends and ends[0][0] == now_s:
            _, number, holder = heappop(ends)
            schedulers[number].release(holder)
        while coming and coming[0][0] == now_s:
            _, number, entry = heappop(coming)
            if entry.arrival not in started:
                schedulers[number].add(entry)


def _next_step_s(schedulers: Sequence[ClusterScheduler]) -> float:
    """When a cap changes next."""
    found = inf
    for scheduler in schedulers:
        for budget in scheduler.budgets:
            found = min(found, budget.next_step_s())
    return found
