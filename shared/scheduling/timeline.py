"""A workload played on pools: the schedulers that placement decides with, moved by the engine."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat

import numpy as np

from shared.scheduling.backfill import Backfill
from shared.scheduling.dispatch import Served
from shared.scheduling.engine import Engine
from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.power import Cap, PowerBudget
from shared.scheduling.wait_queue import Entry
from shared.scheduling.workload import NO_ENTRY, Schedule, Workload

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
    schedulers = [pool.scheduler(discipline, n, budgets[n]) for n, pool in enumerate(pools)]
    run_s: list[list[float]] = workload.run_s.T.tolist()
    count = len(workload)
    submit_s: list[float] = workload.submit_s.tolist()

    def runs_s(served: Served) -> float:
        return run_s[served[0]][served[1][1]]

    engine = Engine(Backfill(schedulers, _arrivals(workload)), submit_s, runs_s, submit_s[0])
    cluster, start_s, passed = [0] * count, [0.0] * count, [False] * count
    started = 0
    while started < count:
        if engine.is_over:
            raise ValueError("jobs wait for ever: no cap lets them start")
        for number, entry, _, backfilled in engine.step():
            job = entry[1]
            cluster[job], start_s[job], passed[job] = number, engine.now_s, backfilled
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


def _budgets(pools: Sequence[Pool], over: Sequence[Over]) -> list[list[PowerBudget]]:
    """Those of each pool: its own and those that it shares."""
    budgets = [pool.budgets(number) for number, pool in enumerate(pools)]
    for cap, numbers in over:
        shared = PowerBudget(cap, is_shared=True)
        for number in numbers:
            budgets[number].append(shared)
    return budgets


def _arrivals(workload: Workload) -> Iterator[Iterable[tuple[int, Entry]]]:
    """Each job's entries with the numbers of their clusters."""
    columns = [_entries(workload, column) for column in range(workload.order.shape[1])]
    if len(columns) == 1:
        return zip(zip(repeat(0), columns[0], strict=False), strict=True)
    return map(_known, zip(*columns, strict=True))


def _known(entries: tuple[Entry, ...]) -> list[tuple[int, Entry]]:
    return [(number, entry) for number, entry in enumerate(entries) if entry[0] != NO_ENTRY]


def _entries(workload: Workload, column: int) -> Iterator[Entry]:
    """Each job's entry in one column, made when it is asked for: most are gone by then."""
    draw_mw = np.rint(workload.power_w * 1000).astype(np.int64)
    order, units, limit_s, draws_mw = (
        values[:, column].tolist()
        for values in (workload.order, workload.units, workload.limit_s, draw_mw)
    )
    jobs = range(len(order))
    parts = repeat(False), repeat(-1)
    rows = zip(order, jobs, units, limit_s, *parts, draws_mw, repeat(()), strict=False)
    # Entry(...) is a function of Python; making its tuple is one of C, and there is one a job.
    return map(partial(tuple.__new__, Entry), rows)
