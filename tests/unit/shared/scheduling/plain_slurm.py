"""Slurm's main and backfill schedulers as their rules read, slowly: what is free is added up anew
at every moment that could matter."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shared.scheduling.slurm import SlurmBackfill
from tests.unit.shared.scheduling.plain_one_pool import PlainJob


class _Taken(NamedTuple):
    from_s: float
    until_s: float
    nodes: int


def starts_s(jobs: Sequence[PlainJob], nodes: int, rules: SlurmBackfill) -> list[float]:
    """When each job starts; none runs beyond its limit."""
    begun: dict[int, float] = {}
    last_backfill_s, now_s = float("-inf"), jobs[0].submit_s
    seen = None  # what had come, ended and was started when backfill looked last
    while len(begun) < len(jobs):
        queue = [n for n, job in enumerate(jobs) if n not in begun and job.submit_s <= now_s]
        taken = [
            _Taken(now_s, start_s + jobs[n].limit_s, jobs[n].units)
            for n, start_s in begun.items()
            if start_s + jobs[n].run_s > now_s
        ]
        for number in list(queue):
            if _earliest_s(jobs[number], taken, nodes, now_s) > now_s:
                break
            begun[number] = now_s
            taken.append(_Taken(now_s, now_s + jobs[number].limit_s, jobs[number].units))
            queue.remove(number)
        came = sum(job.submit_s <= now_s for job in jobs)
        ended = sum(start_s + jobs[n].run_s <= now_s for n, start_s in begun.items())
        is_new = (came, ended, len(begun)) != seen
        was_waiting = any(
            job.submit_s <= now_s and begun.get(n, now_s) >= now_s for n, job in enumerate(jobs)
        )
        if was_waiting and is_new and now_s >= last_backfill_s + rules.interval_s:
            last_backfill_s, seen = now_s, (came, ended, len(begun))
            for number in _backfilled(jobs, queue[: rules.depth], taken, nodes, now_s, rules):
                begun[number] = now_s
        ends_s = [start_s + jobs[n].run_s for n, start_s in begun.items()]
        coming_s = [*ends_s, *(job.submit_s for job in jobs), last_backfill_s + rules.interval_s]
        now_s = min(time_s for time_s in coming_s if time_s > now_s)
    return [begun[number] for number in range(len(jobs))]


def _backfilled(
    jobs: Sequence[PlainJob],
    queue: Sequence[int],
    taken: list[_Taken],
    nodes: int,
    now_s: float,
    rules: SlurmBackfill,
) -> Iterator[int]:
    """The jobs that a look starts; what it reserves is taken."""
    times_s = {now_s}
    for number in queue:
        job = jobs[number]
        start_s = _earliest_s(job, taken, nodes, now_s)
        if start_s > now_s and rules.records and len(times_s) >= rules.records:
            return
        if now_s < start_s < now_s + rules.window_s:
            times_s |= {start_s, start_s + job.limit_s}
        if start_s < now_s + rules.window_s:
            taken.append(_Taken(start_s, start_s + job.limit_s, job.units))
        if start_s <= now_s:
            yield number


def _earliest_s(job: PlainJob, taken: Sequence[_Taken], nodes: int, now_s: float) -> float:
    moments_s = sorted({now_s, *(each.until_s for each in taken if each.until_s > now_s)})
    return next(start_s for start_s in moments_s if _fits(job, start_s, taken, nodes))


def _fits(job: PlainJob, start_s: float, taken: Sequence[_Taken], nodes: int) -> bool:
    """Whether there are nodes enough from then on for the limit of the job."""
    inside_s = {start_s, *(t.from_s for t in taken if start_s < t.from_s < start_s + job.limit_s)}
    return all(
        sum(each.nodes for each in taken if each.from_s <= at_s < each.until_s) + job.units <= nodes
        for at_s in inside_s
    )
