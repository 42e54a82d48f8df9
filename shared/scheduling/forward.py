"""Lanes played forward from one instant to the next, up to what is known to come."""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from shared.scheduling.easy import AnyLane, serve
from shared.scheduling.lane import Served
from shared.scheduling.queue import Entry

# When a job that runs is expected to end, its lane's number, and the holder of its nodes.
End = tuple[float, int, int]
# When an entry comes, and its lane's number.
Coming = tuple[float, int, Entry]


def forward(
    lanes: Sequence[AnyLane],
    now_s: float,
    ends: list[End],
    coming: list[Coming],
    share: float = 1.0,
) -> Iterator[tuple[float, Served]]:
    """All that starts, and when, soonest first, as far as it is asked for.

    What starts is expected to end after a `share` of its limit. Lanes are numbered by their place.
    `ends` and `coming` are used up.
    """
    heapify(ends)
    heapify(coming)
    started: set[int] = set()
    while True:
        for served in serve(lanes, now_s):
            number, entry, _, _ = served
            started.add(entry.arrival)
            heappush(ends, (now_s + share * entry.limit_s, number, entry.arrival))
            yield now_s, served
        waits = any(len(lane.line) for lane in lanes)
        step_s = _next_step_s(lanes) if waits else inf
        now_s = min([step_s, *(ahead[0][0] for ahead in (ends, coming) if ahead)])
        if now_s == inf or not (coming or waits):
            return
        while ends and ends[0][0] == now_s:
            _, number, holder = heappop(ends)
            lanes[number].release(holder)
        while coming and coming[0][0] == now_s:
            _, number, entry = heappop(coming)
            if entry.arrival not in started:
                lanes[number].add(entry)


def _next_step_s(lanes: Sequence[AnyLane]) -> float:
    """When a cap changes next."""
    found = inf
    for lane in lanes:
        for budget in lane.budgets:
            found = min(found, budget.next_step_s())
    return found
