"""Discrete events: jobs arrive, start when the policy says so, and end.

The same schedulers that placement decides with, moved from instant to instant: at each, all
completions come first, then all submissions, then one scheduling pass.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from heapq import heappop, heappush
from itertools import repeat
from math import inf

import numpy as np

from shared.scheduling.conservative import ConservativeScheduler
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import Load
from shared.scheduling.passes import serve
from shared.scheduling.power import Cap, PowerBudget, Scope, Step, milliwatts
from shared.scheduling.wait_queue import Entry, WaitQueue
from shared.scheduling.workload import NO_ENTRY, Schedule, Workload


class Discipline(StrEnum):
    """What may pass an entry that has to wait; the order of entries is the workload's."""

    FCFS = "fcfs"  # nothing
    EASY = "easy"  # what does not delay the first entry that waits
    CONSERVATIVE = "conservative"  # what delays no entry that waits


@dataclass(frozen=True, slots=True)
class Pool:
    """What one cluster has to give: nodes, or cores where it gives out cores.

    The jobs that run draw `cap_w` at most, until one of `steps` says otherwise.
    """

    units: int
    cap_w: float = inf
    steps: tuple[Step, ...] = ()

    def budgets(self, number: int) -> list[PowerBudget]:
        """What its jobs may draw; none where there is no cap."""
        first = ((-inf, milliwatts(self.cap_w)),) if self.cap_w < inf else ()
        steps = (*first, *self.steps)
        return [PowerBudget(Cap(Scope.CLUSTER, f"{number}", steps))] if steps else []

    def scheduler(
        self, discipline: Discipline, number: int, budgets: Sequence[PowerBudget] = ()
    ) -> EasyScheduler | ConservativeScheduler:
        """The pool with nothing running and nothing waiting, under these budgets."""
        if discipline is Discipline.CONSERVATIVE:
            return ConservativeScheduler(self.units, number, budgets)
        load, backfills = Load(self.units, self.units), discipline is Discipline.EASY
        return EasyScheduler(load, WaitQueue(), number=number, budgets=budgets, backfills=backfills)


# A cap over several pools, by their numbers.
Over = tuple[Cap, Sequence[int]]


def play(
    pools: Sequence[Pool], workload: Workload, discipline: Discipline, over: Sequence[Over] = ()
) -> Schedule:
    """The schedule of a workload on pools, one a column of it, under the caps `over` several.

    Jobs run as long as `run_s` says, past their limits too: see Workload.killed_at_limit. Raises
    ValueError for an entry that asks for more than its pool has, and where caps let jobs wait for
    ever.
    """
    _require_room(pools, workload)
    budgets = _budgets(pools, over)
    steps_s = _step_times(budgets)
    schedulers = [pool.scheduler(discipline, n, budgets[n]) for n, pool in enumerate(pools)]
    columns = [
        (scheduler, _entries(workload, number)) for number, scheduler in enumerate(schedulers)
    ]
    submit_s = [*workload.submit_s.tolist(), inf]
    run_s: list[list[float]] = workload.run_s.T.tolist()
    count = len(workload)
    cluster, start_s, passed = [0] * count, [0.0] * count, [False] * count
    running: list[tuple[float, int, int]] = [(inf, -1, -1)]
    arrived = started = 0
    while started < count:
        now_s = _soonest(submit_s[arrived], running[0][0], steps_s[-1])
        while running[0][0] == now_s:
            _, job, number = heappop(running)
            schedulers[number].release(job)
        while steps_s[-1] <= now_s:
            steps_s.pop()
        while submit_s[arrived] == now_s:
            for scheduler, entries in columns:
                entry = next(entries)
                if entry.order != NO_ENTRY:
                    scheduler.add(entry)
            arrived += 1
        for number, entry, _, backfilled in serve(schedulers, now_s):
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
        if most_w > pool.cap_w and not pool.steps:
            raise ValueError(f"an entry draws {most_w} W, the cap is {pool.cap_w} W: drop it")


def _soonest(submit_s: float, end_s: float, step_s: float) -> float:
    now_s = min(submit_s, end_s, step_s)
    if now_s == inf:
        raise ValueError("jobs wait for ever: no cap lets them start")
    return now_s


def _budgets(pools: Sequence[Pool], over: Sequence[Over]) -> list[list[PowerBudget]]:
    """Those of each pool: its own and those that it shares."""
    budgets = [pool.budgets(number) for number, pool in enumerate(pools)]
    for cap, numbers in over:
        shared = PowerBudget(cap, is_shared=True)
        for number in numbers:
            budgets[number].append(shared)
    return budgets


def _step_times(budgets: Sequence[Sequence[PowerBudget]]) -> list[float]:
    """When a cap changes, the next one last; infinity stands first."""
    times = {time_s for each in budgets for budget in each for time_s, _ in budget.cap.steps}
    return sorted({inf, *times} - {-inf}, reverse=True)


def _entries(workload: Workload, column: int) -> Iterator[Entry]:
    """Each job's entry in one column, made when it is asked for: most are gone by then."""
    draw_mw = np.rint(workload.power_w * 1000).astype(np.int64)
    order, units, limit_s, draws_mw = (
        values[:, column].tolist()
        for values in (workload.order, workload.units, workload.limit_s, draw_mw)
    )
    jobs = range(len(order))
    rows = zip(order, jobs, units, limit_s, repeat(False), repeat(-1), draws_mw, strict=False)
    # Entry(...) is a function of Python; making its tuple is one of C, and there is one a job.
    return map(partial(tuple.__new__, Entry), rows)
