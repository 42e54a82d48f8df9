"""What the planner proposes after a round, when it is silent, and what placement starts by it."""

from dataclasses import replace
from typing import Any, Final

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_REGION
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.plans_pb2 import PlanProposed

from coplace_client.errors import WrongSettingsError
from services.planner.app import stage_of
from services.planner.processor import SEARCH, Planner, Search, repair_state
from services.planner.settings import PlannerSettings
from shared.catalogue.codec import MAX_MESSAGE_BYTES
from shared.catalogue.event import Event, Publish
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.energy_tariff import Tariff
from shared.placement.processor.placement import Placement
from shared.planning.decomposition import DecompositionPlanner
from shared.planning.order_search import OrderSearch
from shared.planning.region_order import RegionOrder
from shared.planning.searches import Searches
from shared.scheduling.list_scheduling import CappedSituation, ListSchedule
from shared.scheduling.lookahead import Bounds, Prices
from shared.streams.stages.quarantine import Fault
from shared.streams.stages.stage import Round
from tests.support.messaging import barriers, encoded
from tests.unit.services.changelog import fold, state_of
from tests.unit.shared.placement.region import (
    T0_US,
    capped,
    decisions,
    end_us,
    feed,
    finished,
    item,
    models,
    proposed,
    submitted,
)
from tests.unit.shared.streams.stages.test_guarded_unit import AFTER, Lives

BOUNDS = Bounds(judges_orders=True)
FLAT = Search({}, Prices(), BOUNDS, most_jobs=500, period_us=0, valid_us=3_600_000_000)
NIGHTS = Tariff((0.3, 0.01))


def planner(search: Search = FLAT, restored: dict[str, bytes] | None = None) -> Planner:
    processor = Planner(restored or {}, PolicySettings(), 7.0, search)
    if restored is None:
        feed(processor, models(4))
    return processor


def plan_of(processor: Planner, number: int, *events: Event, last: bool = False) -> Event | None:
    """What is proposed after a round that brings these events."""
    feed(processor, events)
    published = list(processor.end_round(Round(number, end_us(number), last)))
    assert len(published) < 2
    return published[0].event if published else None


def plan_in(found: Event | None) -> PlanProposed:
    assert found is not None
    assert isinstance(found.payload, PlanProposed)
    return found.payload


def queue() -> list[Event]:
    """Both clusters are full; a long and wide job waits before a short and small one."""
    holders = [submitted(f"holder-{n}", T0_US + n, nodes=4, walltime_s=7200.0) for n in range(2)]
    return [
        *holders,
        submitted("long", T0_US + 10, nodes=4, walltime_s=200_000.0),
        *(submitted(f"short-{n}", T0_US + 11 + n, nodes=2, walltime_s=600.0) for n in range(4)),
    ]


def test_small_and_short_jobs_are_proposed_before_a_long_one_that_came_first() -> None:
    found = plan_of(planner(), 0, *queue())
    plan = plan_in(found)
    assert found is not None
    assert (found.id, found.key) == ("planner/coplace.v1.PlanProposed/round/0", "region")
    assert (plan.round, plan.based_at_us) == (0, end_us(0))
    assert plan.valid_until_us == end_us(0) + 3_600_000_000
    first = [one.job_id for one in plan.items if one.tier == 0]
    assert first == ["short-0", "short-1", "short-2", "short-3", "long"]


def test_placement_starts_by_the_plan_what_it_would_not_have_started() -> None:
    with_plan, without = Placement({}, PolicySettings(), 7.0), Placement({}, PolicySettings(), 7.0)
    found = plan_of(planner(), 0, *queue())
    assert found is not None
    over = [finished("holder-0", end_us(1) - 2), finished("holder-1", end_us(1) - 1)]
    for processor, told in ((with_plan, [found]), (without, [])):
        feed(processor, [*models(4), *queue()])
        processor.end_round(Round(0, end_us(0)))
        feed(processor, [*told, *over])
    ended = Round(1, end_us(1))
    planned = {d.job_id: d for d in decisions(with_plan.end_round(ended)) if d.cluster}
    usual = {d.job_id for d in decisions(without.end_round(ended)) if d.cluster}
    assert usual == {"long", "short-0", "short-1"}
    assert planned.keys() == {f"short-{n}" for n in range(4)}
    assert {(d.cluster, d.plan_round) for d in planned.values()} == {("p1", 0), ("p2", 0)}


def test_what_is_no_update_is_published_again_when_half_of_its_time_is_over() -> None:
    processor = planner()
    first = plan_of(processor, 0, *queue())
    assert first is not None
    assert plan_of(processor, 1, first) is None
    assert plan_of(processor, 59) is None
    assert [one.job_id for one in plan_in(plan_of(processor, 60)).items] == [
        one.job_id for one in plan_in(first).items
    ]


def test_a_plan_that_is_no_better_any_more_is_withdrawn_once() -> None:
    processor = planner()
    first = plan_of(processor, 0, *queue())
    assert first is not None
    gone = [finished(f"short-{n}", end_us(1) - 9 + n) for n in range(4)]
    withdrawn = plan_in(plan_of(processor, 1, first, *gone))
    assert not withdrawn.items
    assert plan_of(processor, 2) is None


def test_nothing_is_proposed_where_nothing_waits_or_no_round_follows_or_no_budget_is_given() -> (
    None
):
    assert plan_of(planner(), 0) is None
    assert plan_of(planner(), 0, *queue(), last=True) is None
    none = Search({}, Prices(), Bounds(budget=0), 500, 0, 3_600_000_000)
    assert plan_of(planner(none), 0, *queue()) is None


ORDERINGS: Final = (
    RegionOrder(lambda rule: rule),
    RegionOrder(lambda _: OrderSearch(Searches())),
    RegionOrder(lambda rule: DecompositionPlanner(rule, Searches(), 0.5, longest_s=0.5)),
)
ORDERED: Final = [replace(FLAT, ordering=ordering) for ordering in ORDERINGS]


@pytest.mark.parametrize("search", ORDERED, ids=["ls", "hybrid", "dec"])
def test_an_order_is_followed_under_a_cap_that_placement_holds(search: Search) -> None:
    """The watts are for four nodes: one holder runs, the other waits as the long one does."""
    cap = capped(POWER_SCOPE_REGION, "", (0, 8 * 100.0 + 4 * 300.0))
    processor, placement = planner(search), Placement({}, PolicySettings(), 7.0)
    found = plan_of(processor, 0, cap, *queue())
    first = [one.job_id for one in plan_in(found).items]
    assert [*dict.fromkeys(first)] == [*(f"short-{n}" for n in range(4)), "holder-1", "long"]
    feed(placement, [*models(4), cap, *queue()])
    placement.end_round(Round(0, end_us(0)))
    assert found is not None
    feed(placement, [found, finished("holder-0", end_us(1) - 1)])
    started = {d.job_id: d for d in decisions(placement.end_round(Round(1, end_us(1))))}
    assert [name for name, d in started.items() if d.cluster] == ["short-0", "short-1"]
    assert started["short-0"].plan_round == 0


@pytest.mark.parametrize("search", [FLAT, *ORDERED], ids=["look-ahead", "ls", "hybrid", "dec"])
def test_in_a_region_without_clusters_nothing_is_planned_until_there_are_some(
    search: Search,
) -> None:
    processor = Planner({}, PolicySettings(), 7.0, search)
    assert plan_of(processor, 0) is None
    assert plan_of(processor, 1, *queue()) is None
    assert plan_of(processor, 2, *models(4)) is not None


class Fails:
    """A search with a bug."""

    def schedule(self, _at: CappedSituation) -> ListSchedule:
        raise IndexError("a bug in the search")


def test_a_search_that_fails_rests_while_everything_that_placement_knows_is_folded_on() -> None:
    search = replace(FLAT, ordering=RegionOrder(lambda _: Fails()))
    held = planner(search)
    feed(held, queue())
    assert held.suspects()[-1] == SEARCH
    fault = Fault("what", "stack", "digest")
    held.hold_back(SEARCH, fault, Round(0, end_us(0)))
    assert plan_of(held, 0) is None
    resting_rounds = search.valid_us // 30_000_000
    restarted = planner(search, restored=dict(state_of(held)))
    assert plan_of(restarted, resting_rounds - 1) is None
    with pytest.raises(IndexError):
        plan_of(restarted, resting_rounds)


def test_the_unit_of_a_planner_whose_search_fails_holds_no_job_and_goes_on() -> None:
    search = replace(FLAT, ordering=RegionOrder(lambda _: Fails()))
    stage = stage_of(search, PolicySettings(), 7.0, puts_barriers=False)
    lives = Lives(stage)
    inputs = [Publish("placement.inputs", each) for each in [*models(4), *queue()]]
    lives.log.append([*encoded(*inputs), *barriers(0, "placement.inputs")])
    lives.work()
    lives.log.append(barriers(1, "placement.inputs"))
    lives.work()
    assert lives.deaths == AFTER
    assert not lives.events("dlq.placement.inputs")


@pytest.mark.parametrize("search", ORDERED, ids=["ls", "hybrid", "dec"])
def test_an_order_is_the_same_wherever_it_is_looked_for(search: Search) -> None:
    """One planner made a plan before; its next one follows from the round alone."""
    lived, restarted = planner(search), planner(search)
    plan_of(planner(search), 0, *queue())
    assert plan_of(lived, 0, *queue()) == plan_of(restarted, 0, *queue())


def test_rounds_that_follow_sooner_than_the_period_are_not_searched() -> None:
    processor = planner(replace(FLAT, period_us=45_000_000))
    assert plan_of(processor, 0) is None
    assert plan_of(processor, 1, *queue()) is None
    assert plan_of(processor, 2) is not None


def test_where_energy_gets_cheaper_soon_a_start_is_held_back_until_then() -> None:
    cheap = Prices(response_per_h=0.0001, unit_per_h=0.0)
    nights = Search(dict.fromkeys(("p1", "p2"), NIGHTS), cheap, Bounds(), 500, 0, 7_200_000_000)
    plan = plan_in(plan_of(planner(nights), 0, *queue()))
    starts_us = {one.not_before_us for one in plan.items}
    assert starts_us == {T0_US + 3_600_000_000}


def test_a_planner_that_restarts_goes_on_as_the_one_that_lived() -> None:
    steady, state = planner(), dict[str, bytes]()
    killed = planner()
    rounds: list[list[Event]] = [
        queue(),
        [proposed(0, item("long", "p2"))],
        [ran("holder-0", end_us(2) - 1)],
        [submitted("new", end_us(3) - 1, nodes=1)],
    ]
    for number, events in enumerate(rounds):
        fold(state, killed.changes())
        killed = planner(restored=dict(state))
        assert plan_of(killed, number, *events) == plan_of(steady, number, *events)


def ran(job_id: str, ended_us: int) -> Event:
    """A job that ran for half a minute."""
    found = finished(job_id, ended_us, cluster="p1")
    assert isinstance(found.payload, JobFinished)
    found.payload.started_at_us = ended_us - 30_000_000
    return found


def test_runs_are_expected_to_last_for_the_share_of_their_limits_that_others_ran_for() -> None:
    processor = planner()
    plan_of(processor, 0, *queue())
    plan_of(processor, 1, ran("holder-0", end_us(1) - 1))
    assert processor._share.jobs == 6
    assert processor._share.mean == pytest.approx((5 + 30 / 7200) / 6, rel=0.3)
    again = ran("holder-0", end_us(2) - 1)
    with pytest.raises(Exception, match=again.id):
        processor.handle(again)
    assert processor._share.jobs == 6


def test_a_plan_of_the_longest_names_still_fits_into_a_record() -> None:
    names = (f"{number:04d}" + "ü" * 252 for number in range(1_700))
    short: dict[str, Any] = {"nodes": 2, "walltime_s": 600.0}
    events = [submitted(name, T0_US + 99 + n, **short) for n, name in enumerate(names)]
    search = Search({}, Prices(), Bounds(), 4_000, 0, 3_600_000_000)
    plan = plan_in(plan_of(planner(search), 0, *queue(), *events))
    assert 1_000 < len(plan.items) < 1_700
    assert plan.ByteSize() < MAX_MESSAGE_BYTES


def test_what_a_wrong_clock_had_it_propose_is_forgotten_and_it_proposes_again() -> None:
    ahead = 1_000
    processor = planner()
    assert plan_of(processor, ahead, *queue())
    state = state_of(processor)
    assert "planner-proposed|" not in repair_state(state, end_us(ahead))
    assert plan_of(planner(restored=dict(state)), 1) is None
    fold(state, repair_state(state, end_us(0)))
    assert plan_of(planner(restored=state), 1)


@pytest.mark.parametrize(
    "wrong", [{"most_jobs": 4_001}, {"valid_s": 90_000.0}, {"head": 0}, {"response_price": -1.0}]
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(WrongSettingsError, match=f"(?i){next(iter(wrong))}"):
        PlannerSettings(**wrong)
