"""Look-ahead on small random systems: its own forecasts, its bounds, and what starts when."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from operator import attrgetter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.energy_tariff import Tariff
from shared.scheduling.lookahead import (
    Bounds,
    LookAhead,
    Objective,
    Prices,
    Waiting,
    WaitOrder,
)
from shared.scheduling.plan_dispatch import LookAheadSchedule, replan
from shared.scheduling.plan_evaluation import ExecutionMode, PlannedEntry, Running, Situation
from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.timeline import play
from shared.scheduling.wait_queue import order_of, tier_of
from shared.scheduling.wait_record import WaitRecord
from shared.scheduling.workload import Workload

HOUR_S = 3600.0
ROOMS = (Pool(8), Pool(8))
FLAT = Objective((Tariff(), Tariff()), Prices())


@dataclass(frozen=True)
class Drawn:
    """A job as drawn: its limit, and the share of it that it runs for."""

    submit_s: float
    nodes: int
    limit_s: float
    share: float


drawn_jobs = st.lists(
    st.builds(
        Drawn,
        submit_s=st.integers(0, 40).map(lambda n: n * 900.0),
        nodes=st.integers(1, 8),
        limit_s=st.integers(1, 30).map(lambda n: n * 600.0),
        share=st.sampled_from([0.1, 0.4, 1.0]),
    ),
    min_size=1,
    max_size=25,
).map(lambda jobs: sorted(jobs, key=lambda job: job.submit_s))
budgets = st.integers(0, 6)


def waiting(jobs: Sequence[Drawn]) -> list[Waiting]:
    """Odd jobs are best off on the first cluster, even ones on the second."""
    return [_waiting(number, job) for number, job in enumerate(jobs)]


def _waiting(number: int, job: Drawn) -> Waiting:
    modes = tuple(
        tuple(
            ExecutionMode(job.limit_s * slower * away, job.nodes * power_w, pstate)
            for pstate, (slower, power_w) in enumerate(((1.0, 400.0), (1.3, 280.0)))
        )
        for away in ((1.0, 1.1) if number % 2 else (1.1, 1.0))
    )
    best = 0 if number % 2 else 1
    usual = tuple(
        PlannedEntry(order_of(rank, number, rank), number, cluster, job.nodes, modes[cluster][0])
        for rank, cluster in enumerate((best, 1 - best))
    )
    return Waiting(number, job.submit_s, (job.nodes, job.nodes), modes, usual)


def played(jobs: Sequence[Drawn], policy: LookAhead) -> LookAheadSchedule:
    return replan(ROOMS, waiting(jobs), lambda job, _, mode: jobs[job].share * mode.limit_s, policy)


def policy(budget: int, objective: Objective = FLAT, patience_s: float = 12 * HOUR_S) -> LookAhead:
    bounds = Bounds(budget=budget, patience_s=patience_s, judges_orders=True)
    return LookAhead(objective, bounds)


def test_the_cost_of_a_run_is_energy_nodes_and_the_time_since_it_was_submitted() -> None:
    [job] = waiting([Drawn(HOUR_S, 4, HOUR_S, 0.5)])
    planned = min(job.usual)
    energy_kwh, node_h, response_h = 4 * 0.4 * 0.5, 4 * 0.5, 1.5
    found = FLAT.cost(planned, 2 * HOUR_S, HOUR_S, 0.5)
    assert found == pytest.approx(energy_kwh + 0.33 * node_h + 1.5 * response_h)


@settings(deadline=None, max_examples=40)
@given(drawn_jobs, budgets)
def test_no_cluster_is_oversubscribed_and_the_same_jobs_have_the_same_schedule(
    jobs: list[Drawn], budget: int
) -> None:
    first, second = played(jobs, policy(budget)), played(jobs, policy(budget))
    assert (first.schedule.start_s == second.schedule.start_s).all()
    assert (first.pstate == second.pstate).all()
    schedule = first.schedule
    nodes = np.array([job.nodes for job in jobs])
    assert (schedule.start_s >= [job.submit_s for job in jobs]).all()
    for at_s in schedule.start_s:
        runs = (schedule.start_s <= at_s) & (at_s < schedule.end_s)
        for cluster, room in enumerate(ROOMS):
            assert nodes[runs & (schedule.cluster == cluster)].sum() <= room.units


@settings(deadline=None, max_examples=40)
@given(drawn_jobs)
def test_without_a_budget_it_is_eamc(jobs: list[Drawn]) -> None:
    schedule = played(jobs, policy(0)).schedule
    expected = play(ROOMS, _workload(jobs), Discipline.EASY)
    assert (schedule.start_s == expected.start_s).all()
    assert (schedule.cluster == expected.cluster).all()


def _workload(jobs: Sequence[Drawn]) -> Workload:
    usual = [sorted(job.usual, key=attrgetter("cluster")) for job in waiting(jobs)]
    order, units, limit_s, power_w = (
        np.array([[attrgetter(name)(planned) for planned in each] for each in usual])
        for name in ("order", "units", "mode.limit_s", "mode.power_w")
    )
    share = np.array([[job.share] for job in jobs])
    submit_s = np.array([job.submit_s for job in jobs])
    return Workload(submit_s, order, units, limit_s, limit_s * share, power_w)


@settings(deadline=None, max_examples=60)
@given(drawn_jobs, st.integers(1, 8), st.floats(0, 20), st.floats(0.1, 1))
def test_what_it_takes_costs_less_than_eamc_by_its_own_forecast(
    jobs: list[Drawn], busy: int, response_per_h: float, share: float
) -> None:
    objective = Objective(FLAT.tariffs, Prices(response_per_h))
    searched = policy(6, objective)
    running = {-1: Running(0, busy, 0.0, release_s=5 * HOUR_S, expected_s=2 * HOUR_S)}
    situation = Situation(0.0, ROOMS, running)
    queue = {job.arrival: replace(job, submit_s=0.0) for job in waiting(jobs)}
    starts = searched.decide(situation, queue, share)
    usual = [planned for job in queue.values() for planned in job.usual]
    if searched.counts.taken:
        assert searched.counts.taken == 1
        assert searched.counts.forecast_gain > 0
    else:
        expected = situation.starts_now(usual)
        assert starts == expected


@settings(deadline=None, max_examples=40)
@given(drawn_jobs)
def test_who_has_waited_too_long_is_not_passed_but_by_backfill(jobs: list[Drawn]) -> None:
    queue = {job.arrival: job for job in waiting(jobs)}
    starts = policy(6, patience_s=0.0).decide(Situation(1e6, ROOMS, {}), queue, share=0.5)
    left = queue.keys() - {start.planned.arrival for start in starts}
    for planned, _, backfilled in starts:
        if not backfilled and planned.cluster == _first_choice(planned.arrival):
            passed = {
                a for a in left if a < planned.arrival and _first_choice(a) == planned.cluster
            }
            assert not passed


def _first_choice(arrival: int) -> int:
    return 0 if arrival % 2 else 1


def test_a_job_that_waited_too_long_is_passed_by_no_later_one() -> None:
    wide = Drawn(0.0, 8, 6 * HOUR_S, 1.0)
    small = [Drawn(n * 900.0, 4, 2 * HOUR_S, 1.0) for n in range(1, 60)]
    patience_s = 6 * HOUR_S
    schedule = played([wide, wide, wide, *small], policy(1, patience_s=patience_s)).schedule
    last = max(schedule.start_s[:3])
    running_then = 3 * 6 * HOUR_S * 1.1 * 1.3
    assert last <= patience_s + running_then


def test_small_jobs_pass_a_wide_one_where_that_costs_less() -> None:
    jobs = [Drawn(0.0, 8, 10 * HOUR_S, 1.0)] * 3 + [Drawn(0.0, 1, 600.0, 1.0)] * 4
    usual = played(jobs, policy(0)).schedule
    better = played(jobs, policy(3)).schedule
    assert better.end_s.mean() < usual.end_s.mean()


def test_a_job_that_nothing_hurries_waits_for_the_cheap_hours_and_is_slowed() -> None:
    night = Tariff((1.0,) * 4 + (0.1,) * 20)
    objective = Objective((night, night), Prices(response_per_h=0.01, unit_per_h=0.0))
    schedule = played([Drawn(0.0, 8, HOUR_S, 1.0)], policy(1, objective)).schedule
    assert schedule.start_s.tolist() == [4 * HOUR_S]
    flat = replace(objective, tariffs=FLAT.tariffs)
    slowed = played([Drawn(0.0, 8, HOUR_S, 1.0)], policy(1, flat))
    assert slowed.pstate.tolist() == [1]


def _first_of_narrow_and_wide(came_s: float, room: Pool, busy_h: float, busy: int) -> int:
    """Plan, after a minute, jobs of 16 units that came at once, and one of a unit that came later,
    behind two jobs of as many units on each cluster."""
    jobs = {job.arrival: job for job in waiting([Drawn(0.0, 16, HOUR_S, 1.0)] * 5)[::2]}
    [narrow] = waiting([Drawn(0.0, 1, HOUR_S, 1.0)])
    jobs[4] = _as(replace(narrow, submit_s=came_s), 4)
    end_s = 60.0 + busy_h * HOUR_S
    runs = {-1 - n: Running(n % 2, busy, 0.0, end_s, end_s) for n in range(4)}
    plan = LookAhead(FLAT, Bounds()).plan(Situation(60.0, (room, room), runs), jobs, 1.0)
    assert plan is not None
    return min(plan).arrival


@pytest.mark.parametrize(("came_s", "first"), [(30.0, 4), (45.0, 0)])
def test_a_job_passes_one_of_sixteen_times_its_units_that_waited_less_than_twice_as_long(
    came_s: float, first: int
) -> None:
    assert _first_of_narrow_and_wide(came_s, Pool(64), 10, busy=32) == first


@pytest.mark.parametrize(
    ("room", "busy_h", "first"),
    [
        (Pool(16), 0.5, 0),  # two jobs of 16 units take two hours of the three that all takes
        (Pool(16), 10.0, 4),  # narrow ones run for ten hours: there is time for the wide ones
        (Pool(16), 0.0, 0),
        (Pool(32), 1.0, 4),  # 16 units are half of it: two run side by side
        (Pool(24), 0.01, 4),  # all takes less than the limit of one
    ],
)
def test_a_wide_job_is_not_passed_for_its_units_where_wide_ones_decide_when_all_ends(
    room: Pool, busy_h: float, first: int
) -> None:
    assert _first_of_narrow_and_wide(30.0, room, busy_h, busy=room.units // 2) == first


def _as(job: Waiting, number: int) -> Waiting:
    usual = tuple(planned._replace(arrival=number) for planned in job.usual)
    return replace(job, arrival=number, usual=usual)


def test_jobs_that_waited_longest_for_the_root_of_their_limit_start_first() -> None:
    hours = [9, 30, 16, 30, 4]  # odd numbers are best off on the other cluster, which stays busy
    jobs = [Drawn(60.0 * number, 8, limit * HOUR_S, 1.0) for number, limit in enumerate(hours)]
    by_ratio, by_age = (
        played(jobs, LookAhead(FLAT, Bounds(order=order))).schedule.start_s
        for order in (WaitOrder.RATIO, WaitOrder.AGE)
    )
    assert by_ratio[4] < by_ratio[2]
    assert by_age[2] < by_age[4]


@pytest.mark.parametrize(
    ("forecast_h", "steps_back", "first"),
    [(1.0, True, 0), (2.0, True, 2), (0.0, True, 2), (1.0, False, 2)],
)
def test_who_waited_four_times_the_longest_forecast_goes_first_where_the_record_counts(
    forecast_h: float, steps_back: bool, first: int
) -> None:
    drawn = [Drawn(0.0, 8, 9 * HOUR_S, 1.0)] * 2 + [Drawn(60.0, 8, 600.0, 1.0)]
    jobs = {job.arrival: job for job in waiting(drawn)[::2]}
    busy = {-1 - n: Running(n, 8, 0.0, 50 * HOUR_S, 50 * HOUR_S) for n in range(2)}
    record = WaitRecord(longest_s=forecast_h * HOUR_S)
    ahead = LookAhead(FLAT, Bounds(steps_back=steps_back), record=record)
    plan = ahead.plan(Situation(5 * HOUR_S, ROOMS, busy), jobs, 1.0)
    assert plan is not None
    assert min(plan).arrival == first


def test_jobs_longer_than_all_that_is_known_takes_go_by_age() -> None:
    """The two wait alone behind nearly nothing, which both limits outlast."""
    jobs = {job.arrival: job for job in waiting([Drawn(0.0, 1, 40 * HOUR_S, 1.0)] * 4)[::2]}
    jobs[2] = replace(jobs[2], submit_s=60.0, usual=tuple(_shorter(p) for p in jobs[2].usual))
    busy = {-1: Running(1, 8, 0.0, 10 * HOUR_S, 10 * HOUR_S)}
    busy |= {-2: Running(0, 8, 0.0, 10 * HOUR_S, 10 * HOUR_S)}
    plan = LookAhead(FLAT, Bounds()).plan(Situation(120.0, ROOMS, busy), jobs, 0.1)
    assert plan is not None
    assert min(plan).arrival == 0


def _shorter(planned: PlannedEntry) -> PlannedEntry:
    return planned._replace(mode=planned.mode._replace(limit_s=20 * HOUR_S))


@settings(max_examples=60, deadline=None)
@given(drawn_jobs, budgets, st.sampled_from([3, 6, 25]), st.sampled_from([0.0, 50.0]))
def test_a_plan_costs_less_by_its_forecast_than_the_usual_order_and_serves_as_many(
    drawn: list[Drawn], budget: int, head: int, makespan_per_h: float
) -> None:
    jobs = {job.arrival: replace(job, submit_s=0.0) for job in waiting(drawn)}
    objective = replace(FLAT, prices=Prices(makespan_per_h=makespan_per_h))
    searched = LookAhead(objective, Bounds(budget=budget, head=head, judges_orders=True))
    situation = Situation(0.0, ROOMS, {})
    plan = searched.plan(situation, jobs, 1.0)
    if plan is None:
        return
    assert budget > 0
    usual = [planned for job in jobs.values() for planned in job.usual]
    looked_at, costs = _looked_at(jobs, head), []
    for one in (usual, plan):
        starts = situation.evaluate((p for p in one if p.arrival in looked_at), 1.0)
        assert len(starts) == len(looked_at)
        last_s = max(s.start_s + s.planned.mode.limit_s for s in starts)
        cost = sum(objective.cost(s.planned, s.start_s, 0.0, 1.0) for s in starts)
        costs.append(cost + makespan_per_h * last_s / HOUR_S)
    assert costs[1] < costs[0]
    assert searched.counts.taken == 1
    assert searched.counts.forecast_gain == pytest.approx(costs[0] - costs[1])


@pytest.mark.parametrize("makespan_per_h", [0.0, 5.0])
def test_what_ends_sooner_gains_what_the_makespan_costs(makespan_per_h: float) -> None:
    """The two that take least wait behind wide ones, by the usual order."""
    drawn = [Drawn(0.0, 8, 36_000.0, 1.0)] * 3 + [Drawn(0.0, 1, 600.0, 1.0)] * 4
    jobs = {job.arrival: job for job in waiting(drawn)}
    objective = replace(FLAT, prices=Prices(makespan_per_h=makespan_per_h))
    searched = LookAhead(objective, Bounds(budget=6, head=25))
    assert searched.plan(Situation(0.0, ROOMS, {}), jobs, 1.0) is not None


def _looked_at(jobs: dict[int, Waiting], head: int) -> set[int]:
    """Half of them the first, the others those that take least of what is behind these."""
    usual = sorted(planned for job in jobs.values() for planned in job.usual)
    order = list(dict.fromkeys(planned.arrival for planned in usual))
    behind = sorted(order[head // 2 :], key=lambda arrival: _takes(jobs[arrival]))
    return {*order[: head // 2], *behind[: head - head // 2]}


def _takes(job: Waiting) -> float:
    return min(planned.units * sqrt(planned.mode.limit_s) for planned in job.usual)


def test_jobs_of_a_higher_priority_stand_first_in_each_choice_of_a_plan() -> None:
    small, large = Drawn(0.0, 1, 600.0, 1.0), Drawn(0.0, 8, 36_000.0, 1.0)
    first = [
        replace(job, priority=p) for job, p in zip(waiting([large] * 3), (0, 0, 5), strict=True)
    ]
    jobs = {job.arrival: job for job in [*first, *(waiting([small] * 9)[3:])]}
    plan = LookAhead(FLAT, Bounds(head=9)).plan(Situation(0.0, ROOMS, {}), jobs, 1.0)
    assert plan is not None
    choices = [planned for planned in sorted(plan) if tier_of(planned.order) == 0]
    assert choices[0].arrival == 2
    assert {planned.arrival for planned in choices[-2:]} == {0, 1}
