"""How long a queue takes on servers that one or two jobs at a time share.

Run times integrate interference: beside a neighbour a job advances at 1 / (1 + its degradation),
and at full speed once it is alone. Degradation is a share here, T_co / T_alone - 1, (jobs, jobs),
and NaN between jobs that may not share.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.colocation.pairing import Matching

Floats = NDArray[np.float64]


class ServerRun(NamedTuple):
    """When and on which server a job of the queue runs."""

    job: int
    server: int
    begin_s: float
    end_s: float


def makespan_s(runs: Iterable[ServerRun]) -> float:
    """Return when the last run of a queue ends."""
    return max((run.end_s for run in runs), default=0.0)


def fifo(alone_s: Floats, servers: int = 1) -> list[ServerRun]:
    """Schedule each job on a server for itself, in the order of arrival."""
    return paired(alone_s, np.empty((0, 0)), [], servers)


def paired(
    alone_s: Floats, degradation: Floats, matching: Matching, servers: int = 1
) -> list[ServerRun]:
    """Schedule pairs, and then each other job alone, in the order of arrival of their first jobs; a
    server takes the next when it is empty."""
    partner = dict(matching)
    seconds = set(partner.values())
    free = [(0.0, server) for server in range(servers)]
    runs: list[ServerRun] = []
    for job in range(len(alone_s)):
        if job in seconds:
            continue
        begin_s, server = free[0]
        first = len(runs)
        if job in partner:
            lasts_s = _pair_lasts_s(alone_s, degradation, job, partner[job])
            runs += (
                ServerRun(each, server, begin_s + from_s, begin_s + to_s)
                for each, (from_s, to_s) in zip((job, partner[job]), lasts_s, strict=True)
            )
        else:
            runs.append(ServerRun(job, server, begin_s, begin_s + float(alone_s[job])))
        heapq.heapreplace(free, (makespan_s(runs[first:]), server))
    return runs


def _pair_lasts_s(
    alone_s: Floats, degradation: Floats, one: int, two: int
) -> list[tuple[float, float]]:
    """Return from when to when each of them runs, since they got their server: side by side until
    the first ends, then the other alone. One after the other where they may not share."""
    slowed = 1 + np.maximum([degradation[one, two], degradation[two, one]], 0.0)
    first_s, second_s = own_s = alone_s[[one, two]]
    if np.isnan(slowed).any():
        return [(0.0, float(first_s)), (float(first_s), float(first_s + second_s))]
    beside_s = float((own_s * slowed).min())
    return [(0.0, float(beside_s + left_s)) for left_s in own_s - beside_s / slowed]


def fifo_shared(alone_s: Floats, degradation: Floats, servers: int = 1) -> Iterator[ServerRun]:
    """Schedule each job as soon as half a server is free, in the order of arrival, whoever is its
    neighbour; one that may share with no running job lets the next go first. Yields runs by their
    ends."""
    waiting = list(range(len(alone_s)))
    running: list[dict[int, float]] = [{} for _ in range(servers)]  # remaining own seconds of jobs
    began_s: dict[int, float] = {}
    now_s = 0.0
    while waiting or any(running):
        _begin(waiting, running, alone_s, degradation)
        rates = [_rates(list(server), degradation) for server in running]
        step_s = min(
            left_s / rate[job]
            for server, rate in zip(running, rates, strict=True)
            for job, left_s in server.items()
        )
        for number, (server, rate) in enumerate(zip(running, rates, strict=True)):
            for job in list(server):
                began_s.setdefault(job, now_s)
                server[job] -= step_s * rate[job]
                if server[job] <= 1e-9 * alone_s[job]:
                    del server[job]
                    yield ServerRun(job, number, began_s[job], now_s + step_s)
        now_s += step_s


def _begin(
    waiting: list[int], running: list[dict[int, float]], alone_s: Floats, degradation: Floats
) -> None:
    """Fill servers, empty ones first, from the front of the queue."""
    for job in list(waiting):
        free = [
            server
            for server in running
            if len(server) < 2 and all(_may_share(degradation, job, other) for other in server)
        ]
        if free:
            min(free, key=len)[job] = float(alone_s[job])
            waiting.remove(job)


def _may_share(degradation: Floats, one: int, two: int) -> bool:
    return not np.isnan(degradation[one, two]) and not np.isnan(degradation[two, one])


def _rates(jobs: Sequence[int], degradation: Floats) -> dict[int, float]:
    """Own seconds that each job of a server advances in a second."""
    if len(jobs) < 2:
        return dict.fromkeys(jobs, 1.0)
    one, two = jobs
    slowed = {one: degradation[one, two], two: degradation[two, one]}
    return {job: 1 / (1 + max(float(by), 0.0)) for job, by in slowed.items()}
