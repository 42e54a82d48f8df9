"""Timelines of random workloads, against plain loops and against what must always hold."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.scheduling.backfill import ClusterScheduler, schedule
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import Load, NodeSet
from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.power import Cap, Scope
from shared.scheduling.timeline import play
from shared.scheduling.wait_queue import Entry, WaitQueues
from shared.scheduling.workload import NO_ENTRY, OtherModes, Schedule, Workload
from tests.unit.shared.scheduling.plain_one_pool import (
    PlainJob,
    plain_conservative_starts,
    plain_easy_starts,
)
from tests.unit.shared.scheduling.systems import one_pool

UNITS = 8
EASY = Discipline.EASY
runs = st.sampled_from([1.0, 2.0, 3.0, 5.0, 8.0, 13.0])
jobs_of_a_pool = st.lists(
    st.builds(
        PlainJob,
        submit_s=st.integers(0, 30).map(float),
        units=st.integers(1, UNITS),
        limit_s=runs,
        run_s=runs,
    ),
    min_size=1,
    max_size=40,
).map(lambda jobs: sorted(jobs, key=lambda job: job.submit_s))


def killed(jobs: list[PlainJob]) -> list[PlainJob]:
    return [job._replace(run_s=min(job.run_s, job.limit_s)) for job in jobs]


def exact(jobs: list[PlainJob]) -> list[PlainJob]:
    return [job._replace(run_s=job.limit_s) for job in jobs]


def starts(jobs: list[PlainJob], discipline: Discipline, units: int = UNITS) -> list[float]:
    return [*map(float, play([Pool(units)], one_pool(jobs), discipline).start_s)]


@settings(max_examples=300, deadline=None)
@given(jobs_of_a_pool, st.booleans())
def test_easy_starts_every_job_when_a_plain_loop_does_with_overdue_jobs_and_without(
    jobs: list[PlainJob], kills: bool
) -> None:
    jobs = killed(jobs) if kills else jobs
    assert starts(jobs, Discipline.EASY) == plain_easy_starts(UNITS, jobs)


@settings(max_examples=100, deadline=None)
@given(jobs_of_a_pool)
def test_easy_keeps_its_first_promise_to_each_job_and_others_note_none(
    jobs: list[PlainJob],
) -> None:
    schedule = play([Pool(UNITS)], one_pool(killed(jobs)), Discipline.EASY)
    assert schedule.promised_s is not None
    promised = ~np.isnan(schedule.promised_s)
    assert (schedule.start_s[promised] <= schedule.promised_s[promised]).all()
    others = play([Pool(UNITS)], one_pool(killed(jobs)), Discipline.CONSERVATIVE)
    assert others.promised_s is None


def test_a_promise_is_when_the_reservation_first_was_to_begin() -> None:
    jobs = [PlainJob(0, 6, 100, 40), PlainJob(10, 8, 50, 50), PlainJob(20, 2, 80, 80)]
    schedule = play([Pool(UNITS)], one_pool(jobs), Discipline.EASY)
    assert schedule.promised_s is not None
    assert schedule.promised_s[1] == 100
    assert np.isnan(schedule.promised_s[[0, 2]]).all()
    assert schedule.start_s.tolist() == [0, 100, 20]


@settings(max_examples=100, deadline=None)
@given(jobs_of_a_pool)
def test_first_come_first_served_never_lets_one_pass(jobs: list[PlainJob]) -> None:
    expected = plain_easy_starts(UNITS, jobs, backfills=False)
    assert starts(jobs, Discipline.FCFS) == expected == sorted(expected)


@settings(max_examples=200, deadline=None)
@given(jobs_of_a_pool)
def test_conservative_backfill_keeps_every_promise_to_the_second(jobs: list[PlainJob]) -> None:
    found = starts(exact(jobs), Discipline.CONSERVATIVE)
    assert found == plain_conservative_starts(UNITS, exact(jobs))


@settings(max_examples=200, deadline=None)
@given(jobs_of_a_pool)
def test_conservative_backfill_starts_nobody_later_because_others_end_early(
    jobs: list[PlainJob],
) -> None:
    jobs = [job._replace(submit_s=0.0) for job in jobs]  # so that all are promised at once
    promised = plain_conservative_starts(UNITS, exact(jobs))
    found = starts(killed(jobs), Discipline.CONSERVATIVE)
    assert all(start_s <= latest_s for start_s, latest_s in zip(found, promised, strict=True))


@settings(max_examples=100, deadline=None)
@given(jobs_of_a_pool, st.sampled_from(Discipline))
def test_a_pool_is_never_oversubscribed_even_by_overdue_jobs(
    jobs: list[PlainJob], discipline: Discipline
) -> None:
    workload = one_pool(jobs)
    found = play([Pool(UNITS)], workload, discipline)
    assert most_used(found, workload.units[:, 0]) <= UNITS
    assert (found.start_s >= workload.submit_s).all()
    assert (found.end_s - found.start_s == workload.run_s[:, 0]).all()


@settings(max_examples=100, deadline=None)
@given(jobs_of_a_pool, st.sampled_from(Discipline), st.integers(UNITS, 2 * UNITS))
def test_the_cap_holds_at_every_instant(
    jobs: list[PlainJob], discipline: Discipline, capped_units: int
) -> None:
    """A unit draws 100 W: a cap on the watts of so many units binds as that many units do."""
    jobs = killed(jobs)
    capped = play([Pool(3 * UNITS, capped_units * 100.0)], one_pool(jobs), discipline)
    assert capped.start_s.tolist() == starts(jobs, discipline, capped_units)


def most_used(found: Schedule, used: np.ndarray) -> float:
    """The most that is used at once; what ends gives back before what starts takes."""
    times = np.concatenate([found.end_s, found.start_s])
    change = np.concatenate([-used, used])
    return float(change[np.lexsort((change, times))].cumsum().max(initial=0))


# Several clusters -------------------------------------------------------------------------------

two_columns = st.lists(
    st.tuples(
        st.integers(0, 30),  # submit_s
        st.integers(1, 4),  # units
        st.tuples(runs, runs),  # limit_s
        st.tuples(runs, runs),  # run_s
        st.sampled_from([(0, 0), (0, 1), (1, 0), (0, None), (None, 0)]),  # tiers
    ),
    min_size=1,
    max_size=30,
)
POOLS = (Pool(4), Pool(5))


def two_clusters(rows: list[tuple]) -> Workload:  # type: ignore[type-arg]
    rows = sorted(rows, key=lambda row: row[0])
    tiers = [[t if t is not None else inf for t in row[4]] for row in rows]
    rank = np.argsort(np.argsort(tiers, axis=1, kind="stable"), axis=1)
    arrival = np.arange(len(rows))[:, np.newaxis]
    has_entry = np.isfinite(tiers)
    order = np.where(has_entry, tiers, 0) * 10_000 + arrival * 10 + rank
    limit_s = np.array([row[2] for row in rows])
    return Workload(
        submit_s=np.array([float(row[0]) for row in rows]),
        order=np.where(has_entry, order, NO_ENTRY).astype(np.int64),
        units=np.array([[row[1]] * 2 for row in rows]),
        limit_s=limit_s,
        run_s=np.minimum([row[3] for row in rows], limit_s),
        power_w=np.zeros((len(rows), 2)),
    )


def fresh_starts(workload: Workload) -> list[tuple[float, int]]:
    """Start and cluster of each job when every pass builds its schedulers anew, as placement
    does."""
    queues = WaitQueues()
    found: dict[int, tuple[float, int]] = {}
    running: list[tuple[float, float, int, int]] = []  # end, release, units, column
    arrived = 0
    while len(found) < len(workload):
        now_s = min([*workload.submit_s[arrived:][:1], *(end_s for end_s, *_ in running)])
        running = [r for r in running if r[0] > now_s]
        while arrived < len(workload) and workload.submit_s[arrived] <= now_s:
            for c in np.flatnonzero(workload.order[arrived] != NO_ENTRY).tolist():
                values = (workload.order, workload.units, workload.limit_s)
                order, units, limit_s = (v[arrived, c].item() for v in values)
                queues.add(str(c), [Entry(order, arrived, units, limit_s)])
            arrived += 1
        loads = {}
        for c, pool in enumerate(POOLS):
            held = [NodeSet(units, release_s) for _, release_s, units, at in running if at == c]
            loads[str(c)] = Load(pool.units, pool.units - sum(s.nodes for s in held), held)
        schedulers: dict[str, ClusterScheduler] = {
            name: EasyScheduler(load, queues.queue(name), number=number)
            for number, (name, load) in enumerate(loads.items())
        }
        for start in schedule(now_s, schedulers).starts:
            job, c = start.entry.arrival, int(start.cluster)
            found[job] = (now_s, c)
            end_s = now_s + workload.run_s[job, c]
            running.append((end_s, now_s + start.entry.limit_s, start.entry.nodes, c))
    return [found[job] for job in range(len(workload))]


@settings(max_examples=200, deadline=None)
@given(two_columns)
def test_schedulers_that_live_on_decide_as_schedulers_built_anew(rows: list[tuple]) -> None:  # type: ignore[type-arg]
    workload = two_clusters(rows)
    found = play(POOLS, workload, Discipline.EASY)
    assert list(zip(found.start_s.tolist(), found.cluster.tolist(), strict=True)) == fresh_starts(
        workload
    )


@settings(max_examples=100, deadline=None)
@given(two_columns, st.sampled_from(Discipline))
def test_every_job_runs_once_where_it_has_an_entry(
    rows: list[tuple],  # type: ignore[type-arg]
    discipline: Discipline,
) -> None:
    workload = two_clusters(rows)
    found = play(POOLS, workload, discipline)
    jobs = np.arange(len(workload))
    assert (workload.order[jobs, found.cluster] != NO_ENTRY).all()
    for column, pool in enumerate(POOLS):
        here = found.cluster == column
        part = Schedule(here[here], found.start_s[here], found.end_s[here], here[here])
        assert most_used(part, workload.units[here, column]) <= pool.units


def test_the_line_of_thousands_is_served_in_order() -> None:
    jobs = [PlainJob(0.0, 1, 10.0, 10.0) for _ in range(2_000)]
    expected = [10.0 * (n // UNITS) for n in range(2_000)]
    assert starts(jobs, Discipline.EASY) == expected


def test_a_job_larger_than_its_pool_and_submissions_that_go_back_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="9 units of 8"):
        starts([PlainJob(0.0, 9, 1.0, 1.0)], Discipline.EASY)
    with pytest.raises(ValueError, match="submit_s"):
        one_pool([PlainJob(5.0, 1, 1.0, 1.0), PlainJob(1.0, 1, 1.0, 1.0)])


def with_half_power(jobs: list[PlainJob]) -> Workload:
    """Each job may take twice as long for half of its power."""
    workload = one_pool(jobs)
    limit_s, run_s, power_w = (
        each[..., np.newaxis] for each in (workload.limit_s, workload.run_s, workload.power_w)
    )
    return replace(workload, others=OtherModes(2 * limit_s, 2 * run_s, power_w / 2))


def test_where_a_cap_refuses_a_job_it_starts_in_another_mode_and_takes_as_long_as_in_that() -> None:
    jobs = [PlainJob(0.0, 2, 10.0, 8.0), PlainJob(0.0, 2, 10.0, 8.0), PlainJob(1.0, 1, 5.0, 5.0)]
    found = play([Pool(UNITS, cap_w=300.0)], with_half_power(jobs), Discipline.EASY)
    assert found.mode is not None
    assert found.mode.tolist() == [0, 1, 0]
    assert found.start_s.tolist() == [0.0, 0.0, 8.0]
    assert found.end_s.tolist() == [8.0, 16.0, 13.0]
    large = with_half_power([PlainJob(0.0, 4, 3.0, 2.0)])
    assert play([Pool(UNITS, cap_w=250.0)], large, EASY).end_s.tolist() == [4.0]
    assert play([Pool(UNITS, cap_w=200.0)], large, EASY).end_s.tolist() == [4.0]
    with pytest.raises(ValueError, match=r"draws 200\.0 W, the cap leaves 150\.0 W"):
        play([Pool(UNITS, cap_w=150.0)], large, EASY)


@pytest.mark.parametrize("discipline", list(Discipline))
def test_idle_power_counts_under_a_cap_whatever_passes_what_waits(discipline: Discipline) -> None:
    """8 units idle at 100 W each: beside that the cap leaves one job what it draws."""
    jobs = one_pool([PlainJob(0.0, 1, 100.0, 100.0)] * 3)
    busy = replace(jobs, power_w=np.full(jobs.power_w.shape, 250.0))
    found = play([Pool(UNITS, 1000.0, 100.0)], busy, discipline)
    assert found.start_s.tolist() == [0.0, 100.0, 200.0]


@pytest.mark.parametrize(
    ("cap_w", "counts", "expected"),
    [(619.0, True, [0.0, 8.0]), (620.0, True, [0.0, 0.0]), (379.0, False, [0.0, 8.0])],
)
def test_idle_power_of_all_units_counts_under_a_cap_unless_it_is_left_out(
    cap_w: float, counts: bool, expected: list[float]
) -> None:
    """4 of 8 units run at 100 W and 4 idle at 55 W: 620 W, of which 180 W are beyond idle."""
    jobs = one_pool([PlainJob(0.0, 2, 10.0, 8.0)] * 2)
    pool = Pool(UNITS, cap_w - 260.0 * (not counts), 55.0, cap_counts_idle=counts)
    assert play([pool], jobs, EASY).start_s.tolist() == expected
    assert pool.most_w == cap_w + (0.0 if counts else 180.0), "idle power of all 8 included"
    if counts:
        over = Cap(Scope.REGION, "", ((0.0, round(cap_w * 1000)),)), (0,)
        found = play([Pool(UNITS, idle_w=55.0)], jobs, EASY, [over])
        assert found.start_s.tolist() == expected, "under a cap over several pools"
    work = with_half_power([PlainJob(0.0, 2, 10.0, 8.0)]).beyond_idle([150.0])
    assert work.others is not None
    assert (work.power_w.tolist(), work.others.power_w.tolist()) == ([[100.0]], [[[0.0]]])


@settings(max_examples=200, deadline=None)
@given(jobs_of_a_pool, st.sampled_from([400.0, 500.0, 700.0]), st.booleans())
def test_no_mode_takes_the_draw_above_a_cap_and_without_need_nobody_is_slowed(
    jobs: list[PlainJob], cap_w: float, is_lax: bool
) -> None:
    workload = with_half_power(killed(jobs))
    found = play([Pool(UNITS, cap_w=100 * cap_w if is_lax else cap_w)], workload, Discipline.EASY)
    assert found.mode is not None
    assert not (is_lax and found.mode.any())
    drawn_w = workload.power_w[:, 0] / (1 + found.mode)
    for time_s in found.start_s:
        runs_then = (found.start_s <= time_s) & (time_s < found.end_s)
        assert drawn_w[runs_then].sum() <= cap_w * (100 if is_lax else 1)
    run_s = workload.run_s[:, 0] * (1 + found.mode)
    assert (found.end_s - found.start_s).tolist() == pytest.approx(run_s.tolist())
