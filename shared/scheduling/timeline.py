"""Discrete events: jobs arrive, start when the policy says so, and end.

The same lanes that placement decides with, moved from instant to instant: at each, all completions
come first, then all submissions, then one scheduling pass.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from heapq import heappop, heappush
from itertools import repeat
from math import inf

import numpy as np

from shared.scheduling.conservative import ConservativeLane
from shared.scheduling.easy import serve
from shared.scheduling.lane import Lane
from shared.scheduling.load import Load
from shared.scheduling.queue import Entry, Line
from shared.scheduling.workload import NO_ENTRY, Schedule, Workload


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

    def lane(self, discipline: Discipline, number: int) -> Lane | ConservativeLane:
        """The pool with nothing running and nothing waiting."""
        if discipline is Discipline.CONSERVATIVE:
            return ConservativeLane(self.units, number, self.cap_w)
        load = Load(self.units, self.units)
        backfills = discipline is Discipline.EASY
        return Lane(load, Line(), number=number, backfills=backfills, cap_w=self.cap_w)


def play(pools: Sequence[Pool], workload: Workload, discipline: Discipline) -> Schedule:
    """The schedule of a workload on pools, one a column of it.

    Jobs run as long as `run_s` says, past their limits too: see Workload.killed_at_limit. Raises
    ValueError for an entry that asks for more than its pool has.
    """
    _require_room(pools, workload)
    lanes = [pool.lane(discipline, number) for number, pool in enumerate(pools)]
    columns = [(lane, _entries(workload, number)) for number, lane in enumerate(lanes)]
    submit_s = [*workload.submit_s.tolist(), inf]
    run_s: list[list[float]] = workload.run_s.T.tolist()
    count = len(workload)
    cluster, start_s, passed = [0] * count, [0.0] * count, [False] * count
    running: list[tuple[float, int, int]] = [(inf, -1, -1)]
    arrived = started = 0
    while started < count:
        now_s, ends_s = submit_s[arrived], running[0][0]
        if ends_s <= now_s:
            now_s = ends_s
            while running[0][0] == now_s:
                _, job, number = heappop(running)
                lanes[number].release(job)
        while submit_s[arrived] == now_s:
            for lane, entries in columns:
                entry = next(entries)
                if entry.order != NO_ENTRY:
                    lane.add(entry)
            arrived += 1
        for number, entry, _, backfilled in serve(lanes, now_s):
            job = entry[1]
            cluster[job], start_s[job], passed[job] = number, now_s, backfilled
            heappush(running, (now_s + run_s[number][job], job, number))
            started += 1
    ran = np.arange(count), cluster
    return Schedule(
        cluster=np.array(cluster),
        start_s=np.array(start_s),
        end_s=np.array(start_s) + workload.run_s[ran],
        backfilled=np.array(passed),
    )


def _require_room(pools: Sequence[Pool], workload: Workload) -> None:
    has_entry = workload.order != NO_ENTRY
    for column, pool in enumerate(pools):
        asked = has_entry[:, column]
        most = int(workload.units[asked, column].max(initial=0))
        most_w = float(workload.power_w[asked, column].max(initial=0))
        if most > pool.units:
            raise ValueError(f"an entry asks for {most} units of {pool.units}: drop it")
        if most_w > pool.cap_w:
            raise ValueError(f"an entry draws {most_w} W, the cap is {pool.cap_w} W: drop it")


def _entries(workload: Workload, column: int) -> Iterator[Entry]:
    """Each job's entry in one column, made when it is asked for: most are gone by then."""
    order, units, limit_s, power_w = (
        values[:, column].tolist()
        for values in (workload.order, workload.units, workload.limit_s, workload.power_w)
    )
    jobs = range(len(order))
    rows = zip(order, jobs, units, limit_s, repeat(False), repeat(-1), power_w, strict=False)
    # Entry(...) is a function of Python; making its tuple is one of C, and there is one a job.
    return map(partial(tuple.__new__, Entry), rows)
