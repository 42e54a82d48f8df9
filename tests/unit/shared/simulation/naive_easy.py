"""EASY backfill on one pool as its rules are told, with no thought of speed.

At each instant all completions come first, then all submissions, then one pass in the order of
submission. The first job that does not fit is promised the processors at the shadow time, when
enough of them are free if jobs run as long as they asked for; every running job that is expected
to end by then counts. A later job starts if it fits and ends by the shadow time, or takes no more
than the processors that stay free then, which it uses up.
"""

from math import inf
from typing import NamedTuple


class Job(NamedTuple):
    submit: float
    procs: int
    limit: float
    run: float


def starts(jobs: list[Job], procs: int) -> list[float]:
    """When each job starts; jobs by submission."""
    started: dict[int, float] = {}
    waiting: list[int] = []
    instants = sorted({job.submit for job in jobs})
    while len(started) < len(jobs):
        now = instants.pop(0)
        waiting += [i for i, job in enumerate(jobs) if job.submit == now]
        for i in _pass(jobs, started, waiting, now, procs):
            started[i] = now
            waiting.remove(i)
            instants = sorted({*instants, now + jobs[i].run})
    return [started[i] for i in range(len(jobs))]


def _pass(
    jobs: list[Job], started: dict[int, float], waiting: list[int], now: float, procs: int
) -> list[int]:
    held = [
        (at + jobs[i].limit, jobs[i].procs) for i, at in started.items() if at + jobs[i].run > now
    ]
    free = procs - sum(size for _, size in held)
    chosen: list[int] = []
    shadow, extra = inf, 0
    for i in waiting:
        job = jobs[i]
        if shadow == inf and job.procs > free:
            shadow, extra = _shadow(held, free, job.procs, now)
        elif job.procs <= free and (now + job.limit <= shadow or job.procs <= extra):
            extra -= job.procs if now + job.limit > shadow else 0
            free -= job.procs
            held.append((now + job.limit, job.procs))
            chosen.append(i)
    return chosen


def _shadow(held: list[tuple[float, int]], free: int, needed: int, now: float) -> tuple[float, int]:
    for shadow in sorted({max(end, now) for end, _ in held}):
        available = free + sum(size for end, size in held if max(end, now) <= shadow)
        if available >= needed:
            return shadow, available - needed
    raise AssertionError("the job is larger than the machine")
