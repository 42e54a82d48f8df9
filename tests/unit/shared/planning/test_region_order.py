"""Orders of a region's queue: which budgets count, all orders, and what no answer leaves."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from math import inf
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.planning.decomposition import DecompositionPlanner
from shared.planning.order_search import OrderSearch
from shared.planning.region_order import RegionOrder, _situation
from shared.planning.searches import Searches
from shared.scheduling.list_scheduling import PriorityRule, list_schedule
from shared.scheduling.lookahead import Waiting
from shared.scheduling.plan_evaluation import ExecutionMode, PlannedEntry, Running, Situation
from shared.scheduling.pool import Pool
from shared.scheduling.power import Cap, PowerBudget, Scope, milliwatts
from shared.scheduling.wait_queue import order_of, tier_of

IDLE_MW = 1_000


def waiting(
    arrival: int,
    *,
    nodes: int = 1,
    limit_s: float = 600.0,
    draw_w: float = 100.0,
    clusters: tuple[int, ...] = (0,),
    tier: int = 0,
) -> Waiting:
    mode = ExecutionMode(limit_s, draw_w, 0, 0.0)
    usual = tuple(
        PlannedEntry(order_of(tier, arrival, rank), arrival, cluster, nodes, mode)
        for rank, cluster in enumerate(clusters)
    )
    return Waiting(arrival, 0.0, (nodes,), ((mode,),), usual)


def situation(
    *units: int,
    together_w: float | None = None,
    each_w: dict[int, float] | None = None,
    running: dict[int, Running] | None = None,
    later_w: Sequence[tuple[float, float]] = (),
    also_w: Sequence[tuple[float, float]] = (),
) -> Situation:
    """`later_w` are the steps ahead of the cap of all clusters, `also_w` those of another one."""

    def budgets() -> list[list[PowerBudget]]:
        def of(*steps_w: tuple[float, float]) -> PowerBudget:
            steps = [(from_s, milliwatts(watts) + IDLE_MW) for from_s, watts in steps_w]
            return PowerBudget(Cap(Scope.SITE, "any", tuple(steps)), IDLE_MW)

        shared = [] if together_w is None else [of((-inf, together_w), *later_w)]
        shared += [of(*also_w)] if also_w else []
        own = each_w or {}
        return [[*shared, *([of((-inf, own[n]))] if n in own else [])] for n in range(len(units))]

    return Situation(0.0, [Pool(each) for each in units], running or {}, budgets)


def solved(searches: Searches) -> RegionOrder:
    return RegionOrder(lambda rule: DecompositionPlanner(rule, searches, 0.2, longest_s=0.2))


def planned(at: Situation, *jobs: Waiting, searches: Searches | None = None) -> list[int]:
    """The arrivals in the order of the plan, each once."""
    found = solved(searches or Searches()).plan(at, {job.arrival: job for job in jobs})
    assert sorted(found) == found
    return list(dict.fromkeys(entry.arrival for entry in found))


LONG, SHORT = waiting(1, limit_s=60_000.0), waiting(2)


def test_the_short_start_before_the_long_where_watts_are_for_one() -> None:
    assert planned(situation(4, together_w=100.0), LONG, SHORT) == [2, 1]
    assert planned(situation(4, each_w={0: 100.0}), LONG, SHORT) == [2, 1]
    assert planned(situation(1), LONG, SHORT) == [2, 1]


def test_where_all_starts_at_once_nothing_is_planned() -> None:
    assert planned(situation(4, together_w=200.0), LONG, SHORT) == []
    assert planned(situation(4)) == []


def test_watts_of_one_cluster_are_nothing_to_another() -> None:
    elsewhere = replace(waiting(3, limit_s=60_000.0, clusters=(1,)))
    at = situation(4, 4, each_w={0: 100.0})
    assert planned(at, LONG, SHORT, elsewhere)[-1] == 1
    both = situation(4, 4, together_w=100.0)
    assert planned(both, elsewhere, SHORT) == [2, 3]


def test_what_runs_gives_back_its_nodes_and_watts_and_what_stays_for_ever_does_not() -> None:
    running = {9: Running(0, 3, 100.0, 300.0, 300.0), -1: Running(0, 1, 0.0, inf, inf)}
    at = situation(5, together_w=150.0, running=running)
    wide = waiting(3, nodes=4, limit_s=60.0)
    assert planned(at, wide, LONG) == [3, 1]
    assert planned(at, waiting(4, nodes=5), wide, LONG) == [3, 1], "who never fits is left out"
    assert planned(at, waiting(4, draw_w=151.0), wide, LONG) == [3, 1]


def test_a_plan_respects_a_lower_step_ahead() -> None:
    """The long one would be over the cap of later; the two short ones end before it comes."""
    long, short = waiting(1, limit_s=3_000.0, draw_w=200.0), waiting(2, draw_w=200.0)
    shorter = waiting(3, limit_s=400.0, draw_w=200.0)
    falls = ((1_000.0, 100.0), (5_000.0, 200.0))
    assert planned(situation(4, together_w=200.0, later_w=falls), long, short, shorter) == [3, 2, 1]
    at, firsts = _situation(situation(4, together_w=200.0, later_w=falls), [long, short, shorter])
    for by in (PriorityRule(range(3)), DecompositionPlanner(PriorityRule(range(3)), Searches())):
        found = by.schedule(at)
        starts_s = {firsts[place].arrival: start_s for start_s, place in found.starts}
        assert starts_s[1] == 5_000.0, "until then its watts are not there for all its limit"


def test_all_budgets_of_all_clusters_count_each_at_its_steps() -> None:
    at, _ = _situation(
        situation(
            4,
            4,
            together_w=300.0,
            later_w=((600.0, 100.0), (900.0, 500.0)),
            also_w=((-inf, 400.0), (700.0, 50.0), (800.0, 400.0)),
            running={-1: Running(0, 0, 20.0, inf, inf)},
        ),
        [],
    )
    assert at.cap_mw == milliwatts(280.0)
    ahead = ((600.0, 80.0), (700.0, 30.0), (800.0, 80.0), (900.0, 380.0))
    assert at.steps == [(from_s, milliwatts(watts)) for from_s, watts in ahead]


def test_who_fits_once_the_cap_has_risen_is_planned_and_who_never_does_is_left_out() -> None:
    rises = situation(4, together_w=50.0, later_w=((900.0, 150.0), (4_000.0, 90.0)))
    assert planned(rises, SHORT, waiting(3, draw_w=40.0)) == [3, 2]
    assert planned(rises, LONG, SHORT) == [2], "150 W are there for less than its limit"


def test_what_the_caps_were_is_no_step_ahead() -> None:
    at, _ = _situation(situation(4, also_w=((-50.0, 400.0), (0.0, 300.0))), [])
    assert (at.cap_mw, at.steps) == (milliwatts(300.0), [])


def test_clusters_stay_in_the_policys_order_and_jobs_in_their_tiers() -> None:
    jobs = [waiting(1, clusters=(1, 0), limit_s=6_000.0), waiting(2, clusters=(1,), tier=1)]
    found = solved(Searches()).plan(
        situation(1, 1, together_w=100.0), {job.arrival: job for job in jobs}
    )
    assert [(e.arrival, e.cluster, tier_of(e.order)) for e in found if e.arrival == 1] == [
        (1, 1, 0),
        (1, 0, 0),
    ]
    assert [tier_of(e.order) for e in found if e.arrival == 2] == [1]


def test_without_an_answer_in_time_the_list_schedule_holds_and_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DecompositionPlanner, "solved", lambda *_: None)
    searches = Searches()
    found = planned(situation(4, together_w=100.0), LONG, SHORT, waiting(3), searches=searches)
    assert found == [2, 3, 1]
    assert searches == Searches(plans=1, unanswered=1)


def test_list_scheduling_and_the_search_over_its_orders_plan_too() -> None:
    jobs = {job.arrival: job for job in (LONG, SHORT, waiting(3, limit_s=300.0))}
    for by in (RegionOrder(lambda rule: rule), RegionOrder(lambda _: OrderSearch(Searches()))):
        found = by.plan(situation(4, together_w=100.0), jobs)
        assert [entry.arrival for entry in found] == [3, 2, 1]


JOBS: Final[st.SearchStrategy[list[dict[str, Any]]]] = st.lists(
    st.builds(
        dict,
        nodes=st.integers(1, 4),
        limit_s=st.sampled_from([60.0, 300.0, 1_000.0, 5_000.0]),
        draw_w=st.sampled_from([0.0, 40.0, 100.0, 180.0]),
        clusters=st.sampled_from([(0,), (1,), (0, 1), (1, 0)]),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=25, deadline=None)
@given(
    JOBS,
    st.sampled_from([None, 180.0, 260.0]),
    st.sampled_from([{}, {0: 180.0}, {1: 200.0}]),
    st.sampled_from([(), ((200.0, 90.0), (2_000.0, 180.0)), ((700.0, 400.0),)]),
)
def test_no_order_of_a_list_schedule_is_cheaper_than_what_is_found(
    drawn: list[dict[str, Any]],
    together_w: float | None,
    each_w: dict[int, float],
    later_w: Sequence[tuple[float, float]],
) -> None:
    jobs = [waiting(n, **each) for n, each in enumerate(drawn)]
    region = situation(4, 3, together_w=together_w, each_w=each_w, later_w=later_w)
    at, firsts = _situation(region, jobs)
    rule = PriorityRule(range(len(firsts)))
    found = DecompositionPlanner(rule, Searches(), 5.0).schedule(at)
    orders = (list_schedule(at, order) for order in permutations(range(len(firsts))))
    least = min((listed.cost for listed in orders if listed), default=0.0)
    assert found.cost <= least + 1e-6 * least
    starts_s = {place: start_s for start_s, place in found.starts}
    assert len(starts_s) == len(firsts)
    for now_s in [*starts_s.values(), *(from_s for from_s, _ in later_w)]:
        there = [firsts[p] for p, s in starts_s.items() if s <= now_s < s + firsts[p].mode.limit_s]
        drawn_w = [sum(e.mode.draw_w for e in there if e.cluster == n) for n in (0, 1)]
        assert [sum(e.units for e in there if e.cluster == n) <= (4, 3)[n] for n in (0, 1)]
        cap_w = [
            watts for from_s, watts in [(-inf, together_w or inf), *later_w] if from_s <= now_s
        ][-1]
        assert together_w is None or sum(drawn_w) <= cap_w
        assert all(drawn_w[n] <= watts for n, watts in each_w.items())
