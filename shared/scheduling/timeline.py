"""A workload played on pools: the schedulers that placement decides with, moved by the engine."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from math import inf, nan

import numpy as np

from shared.scheduling.backfill import Arrival, Backfill
from shared.scheduling.backfill_scheduler import BackfillScheduler
from shared.scheduling.dispatch import Scheduler, Served
from shared.scheduling.engine import Engine
from shared.scheduling.pool import Discipline, Over, Pool, budgets_of
from shared.scheduling.power import milliwatts
from shared.scheduling.wait_queue import Entry, OtherMode
from shared.scheduling.workload import NO_ENTRY, Floats, Ints, OtherModes, Schedule, Workload


def play(
    pools: Sequence[Pool], workload: Workload, discipline: Discipline, over: Sequence[Over] = ()
) -> Schedule:
    """Return the schedule of a workload on pools, one a column of it, under the caps `over`
    several.

    Jobs run as long as `run_s` states, past their limits too: see Workload.killed_at_limit. Raises
    ValueError for an entry that asks for more than its pool has, and where caps let jobs wait for
    ever.
    """
    budgets = budgets_of(pools, over)
    counted = zip(pools, budgets, strict=True)
    workload = workload.beyond_idle([pool.idle_w if under else 0.0 for pool, under in counted])
    _require_room(pools, workload)
    schedulers = [pool.scheduler(discipline, n, budgets[n]) for n, pool in enumerate(pools)]
    count = len(workload)
    submit_s: list[float] = workload.submit_s.tolist()
    dispatcher, runs_s = Backfill(schedulers, _arrivals(workload)), _run_times(workload)
    engine = Engine(dispatcher, submit_s, runs_s, submit_s[0])
    cluster, start_s, passed = [0] * count, [0.0] * count, [False] * count
    draw_mw = [0] * count
    promises = _Promises(schedulers)
    started = 0
    while started < count:
        if engine.is_over:
            raise ValueError("jobs wait for ever: no cap lets them start")
        for number, entry, _, backfilled in engine.step():
            job = entry.arrival
            cluster[job], start_s[job], passed[job] = number, engine.now_s, backfilled
            draw_mw[job] = entry.draw_mw
            started += 1
        promises.note()
    clusters = np.array(cluster)
    ran = np.arange(count), clusters
    mode, run_s = None, workload.run_s[ran]
    if workload.others is not None:
        mode = _modes_of(workload.others, ran, np.array(draw_mw))
        run_s = np.where(mode > 0, workload.others.run_s[(*ran, mode - 1)], run_s)
    return Schedule(
        cluster=clusters,
        start_s=np.array(start_s),
        end_s=np.array(start_s) + run_s,
        backfilled=np.array(passed),
        mode=mode,
        promised_s=promises.by_job(count),
    )


class _Promises:
    """When the first reservation of each job was to begin, by the schedulers that reserve for one
    job at a time."""

    def __init__(self, schedulers: Sequence[Scheduler]) -> None:
        self._schedulers = [each for each in schedulers if isinstance(each, BackfillScheduler)]
        self._first_s: dict[int, float] = {}

    def note(self) -> None:
        """Note the jobs that have a reservation for the first time; on several clusters, the
        earliest of theirs."""
        first_s = self._first_s
        new: list[tuple[int, float]] = []
        for scheduler in self._schedulers:
            arrival = scheduler.reserved_for
            if arrival >= 0 and arrival not in first_s:
                new.append((arrival, scheduler.shadow_s))
        for arrival, shadow_s in new:
            first_s[arrival] = min(shadow_s, first_s.get(arrival, inf))

    def by_job(self, count: int) -> Floats | None:
        """Return a column of it, nan where a job never had one; None where nobody reserves so."""
        if not self._schedulers:
            return None
        column = np.full(count, nan)
        for arrival, promised_s in self._first_s.items():
            column[arrival] = promised_s
        return column


def _run_times(workload: Workload) -> Callable[[Served], float]:
    """Return how long an entry that starts runs, in the mode in which it starts: no two modes of an
    entry draw alike."""
    own_s: list[list[float]] = workload.run_s.T.tolist()

    def runs_s(served: Served) -> float:
        number, entry, _, _ = served
        return own_s[number][entry.arrival]

    others = workload.others
    if others is None:
        return runs_s
    runs_in_s, draws_mw = others.run_s, _milliwatts(others.power_w)
    known: list[list[int]] = np.argwhere(~np.isnan(runs_in_s)).tolist()
    slower_s: dict[tuple[int, int, int], float] = {
        (number, job, int(draws_mw[job, number, mode])): float(runs_in_s[job, number, mode])
        for job, number, mode in known
    }

    def slower_runs_s(served: Served) -> float:
        number, entry, _, _ = served
        found = slower_s.get((number, entry.arrival, entry.draw_mw))
        return runs_s(served) if found is None else found

    return slower_runs_s


def _modes_of(others: OtherModes, ran: tuple[Ints, Ints], draw_mw: Ints) -> Ints:
    """Return the mode in which each job started, by its draw; 0 is the entry's own."""
    is_it = _milliwatts(others.power_w[ran]) == draw_mw[:, np.newaxis]
    return np.where(is_it.any(axis=1), 1 + is_it.argmax(axis=1), 0)


def _milliwatts(power_w: Floats) -> Ints:
    """Return integers; -1 where there is no mode."""
    return np.rint(np.nan_to_num(power_w * 1000, nan=-1.0)).astype(np.int64)


def _require_room(pools: Sequence[Pool], workload: Workload) -> None:
    has_entry, least_w = workload.order != NO_ENTRY, workload.least_power_w
    for column, pool in enumerate(pools):
        asked = has_entry[:, column]
        most = int(workload.units[asked, column].max(initial=0))
        most_w = float(least_w[asked, column].max(initial=0))
        if most > pool.units:
            raise ValueError(f"an entry asks for {most} units of {pool.units}: drop it")
        if milliwatts(most_w) > pool.left_mw:
            left_w = pool.left_mw / 1000
            raise ValueError(f"an entry draws {most_w} W, the cap leaves {left_w} W: drop it")


def _arrivals(workload: Workload) -> Iterator[Arrival]:
    """Return each job's entries with the numbers of their clusters."""
    columns = [_entries(workload, column) for column in range(workload.order.shape[1])]
    if len(columns) == 1:
        return zip(zip(repeat(0), columns[0], strict=False), strict=True)
    return map(_known, zip(*columns, strict=True))


def _known(entries: tuple[Entry, ...]) -> Arrival:
    return tuple([(n, entry) for n, entry in enumerate(entries) if entry.order != NO_ENTRY])


def _entries(workload: Workload, column: int) -> Iterator[Entry]:
    """Yield each job's entry in one column, made when it is asked for: most have left by then."""
    draw_mw = _milliwatts(workload.power_w)
    order, units, limit_s, draws_mw = (
        values[:, column].tolist()
        for values in (workload.order, workload.units, workload.limit_s, draw_mw)
    )
    jobs = range(len(order))
    parts = repeat(False), repeat(0)  # all of one kind
    others = repeat(()) if workload.others is None else _others(workload.others, column)
    later = repeat(None)
    rows = zip(order, jobs, units, limit_s, *parts, draws_mw, others, later, strict=False)
    # Entry(...) is a function of Python; making its tuple is one of C, and there is one a job.
    return map(partial(tuple.__new__, Entry), rows)


def _others(others: OtherModes, column: int) -> Iterator[tuple[OtherMode, ...]]:
    """Yield each job's other modes in one column."""
    limit_s = others.limit_s[:, column].tolist()
    draws_mw = _milliwatts(others.power_w[:, column]).tolist()
    for limits_s, draws in zip(limit_s, draws_mw, strict=True):
        found = zip(limits_s, draws, strict=True)
        yield tuple([OtherMode(s, mw) for s, mw in found if mw >= 0])
