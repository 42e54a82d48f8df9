"""Discrete events: jobs arrive, start when the policy says so, and end.

The same lanes that placement decides with, moved from instant to instant: at each, all completions
come first, then all submissions, then one scheduling pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from math import inf

import numpy as np

from shared.policies.conservative import ConservativeLane
from shared.policies.easy import serve
from shared.policies.lane import Lane
from shared.policies.load import Load
from shared.policies.queue import Entry, Line
from shared.policies.workload import NO_ENTRY, Schedule, Workload


class Discipline(StrEnum):
    """What may pass an entry that has to wait; the order of entries is the workload's."""

    FCFS = "fcfs"  # nothing
    EASY = "easy"  # what does not delay the first entry that waits
    CONSERVATIVE = "conservative"  # what delays no entry that waits


@dataclass(frozen=True, slots=True)
class Pool:
    """What one cluster has to give: nodes, or cores where it gives out cores.

    The jobs that run draw `cap_w` at most.
    """

    units: int
    cap_w: float = inf

    def lane(self, discipline: Discipline) -> Lane | ConservativeLane:
        """The pool with nothing running and nothing waiting."""
        if discipline is Discipline.CONSERVATIVE:
            return ConservativeLane(self.units, self.cap_w)
        load = Load(self.units, self.units)
        backfills = discipline is Discipline.EASY
        return Lane(load, Line(), backfills=backfills, cap_w=self.cap_w)


def play(
    pools: Sequence[Pool],
    workload: Workload,
    discipline: Discipline,
    told: Callable[[int], None] | None = None,
) -> Schedule:
    """The schedule of a workload on pools, one a column of it.

    `told` hears now and then how many jobs have started. Raises ValueError for an entry that asks
    for more than its pool has.
    """
    _require_room(pools, workload)
    lanes = [pool.lane(discipline) for pool in pools]
    entries = _entries(workload)
    submit_s = [*workload.submit_s.tolist(), inf]
    run_s = workload.run_s.tolist()
    count = len(workload)
    starts: list[tuple[int, float, int, bool]] = []
    running: list[tuple[float, int, int]] = [(inf, -1, -1)]
    arrived = 0
    while len(starts) < count:
        now_s = min(submit_s[arrived], running[0][0])
        while running[0][0] <= now_s:
            _, job, column = heappop(running)
            lanes[column].release(job)
        while submit_s[arrived] <= now_s:
            for column, entry in entries[arrived]:
                lanes[column].add(entry)
            arrived += 1
        for column, served in serve(lanes, now_s):
            job = served.entry.arrival
            starts.append((job, now_s, column, served.backfilled))
            heappush(running, (now_s + run_s[job][column], job, column))
    return _schedule(workload, starts)


def _require_room(pools: Sequence[Pool], workload: Workload) -> None:
    has_entry = workload.order != NO_ENTRY
    for column, pool in enumerate(pools):
        asked = has_entry[:, column]
        most = int(workload.units[asked, column].max(initial=0))
        most_w = float(workload.power_w[asked, column].max(initial=0))
        if most > pool.units:
            raise ValueError(f"an entry asks for {most} units, its pool has {pool.units}: drop it")
        if most_w > pool.cap_w:
            raise ValueError(f"an entry draws {most_w} W, its pool's cap is {pool.cap_w} W: drop it")


def _entries(workload: Workload) -> list[list[tuple[int, Entry]]]:
    """The entries of each job with their columns."""
    made: list[list[tuple[int, Entry]]] = [[] for _ in range(len(workload))]
    job, column = np.nonzero(workload.order != NO_ENTRY)
    columns = (workload.order, workload.units, workload.limit_s, workload.power_w)
    values = zip(*(values[job, column].tolist() for values in columns), strict=True)
    keys = zip(job.tolist(), column.tolist(), strict=True)
    for (number, lane), (order, units, limit_s, power_w) in zip(keys, values, strict=True):
        made[number].append((lane, Entry(order, number, units, limit_s, power_w=power_w)))
    return made


def _schedule(workload: Workload, starts: list[tuple[int, float, int, bool]]) -> Schedule:
    job, start_s, column, backfilled = (np.array(values) for values in zip(*starts, strict=True))
    by_job = job.argsort()
    cluster, start_s = column[by_job], start_s[by_job]
    return Schedule(
        cluster=cluster,
        start_s=start_s,
        end_s=start_s + workload.run_s[np.arange(len(workload)), cluster],
        backfilled=backfilled[by_job],
    )
