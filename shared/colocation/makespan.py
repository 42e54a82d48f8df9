"""How long a queue takes on servers that one or two jobs at a time share.

Run times integrate interference: beside a neighbour a job advances at 1 / (1 + its degradation),
and at full speed once it is alone. Degradation is a share here, T_co / T_alone - 1, (jobs, jobs),
and NaN between jobs that may not share.
"""

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shared.colocation.pairing import Matching

Floats = NDArray[np.float64]


def fifo_s(alone_s: Floats, servers: int = 1) -> float:
    """Each job has a server for itself, in the order of arrival."""
    return _served(alone_s.tolist(), servers)


def paired_s(alone_s: Floats, degradation: Floats, matching: Matching, servers: int = 1) -> float:
    """Pairs, and then each other job alone, in the order of arrival of their first jobs; a server
    takes the next when it is empty."""
    partner = dict(matching)
    seconds = set(partner.values())
    kept = [
        pair_s(alone_s, degradation, job, partner[job]) if job in partner else float(alone_s[job])
        for job in range(len(alone_s))
        if job not in seconds
    ]
    return _served(kept, servers)


def pair_s(alone_s: Floats, degradation: Floats, one: int, two: int) -> float:
    """How long two jobs keep a server: side by side until the first ends, then the other alone.
    One after the other where they may not share."""
    slowed = 1 + np.maximum([degradation[one, two], degradation[two, one]], 0.0)
    if np.isnan(slowed).any():
        return float(alone_s[one] + alone_s[two])
    own_s = alone_s[[one, two]]
    beside_s = float((own_s * slowed).min())
    return beside_s + float((own_s - beside_s / slowed).max())


def fifo_shared_s(alone_s: Floats, degradation: Floats, servers: int = 1) -> float:
    """Each job begins as soon as half a server is free, in the order of arrival, whoever is its
    neighbour; one that may share with nobody who runs lets the next go first."""
    waiting = list(range(len(alone_s)))
    running: list[dict[int, float]] = [{} for _ in range(servers)]  # remaining own seconds of jobs
    now_s = 0.0
    while waiting or any(running):
        _begin(waiting, running, alone_s, degradation)
        rates = [_rates(list(server), degradation) for server in running]
        step_s = min(
            left_s / rate[job]
            for server, rate in zip(running, rates, strict=True)
            for job, left_s in server.items()
        )
        now_s += step_s
        for server, rate in zip(running, rates, strict=True):
            for job in list(server):
                server[job] -= step_s * rate[job]
                if server[job] <= 1e-9 * alone_s[job]:
                    del server[job]
    return now_s


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


def _served(kept_s: Sequence[float], servers: int) -> float:
    """When the last server is empty, if each takes the next piece of work once it is free."""
    free_s = [0.0] * servers
    for each in kept_s:
        heapq.heapreplace(free_s, free_s[0] + each)
    return max(free_s)
