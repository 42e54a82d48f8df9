"""Plans from outside: what placement follows of them, for how long, and what of nonsense."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER, POWER_SCOPE_REGION
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.plans_pb2 import PlanItem
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.catalogue.event import Event
from shared.placement.processor.placement import Placement, repaired
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement.region import (
    APPS,
    MODELS,
    PSTATES,
    Twins,
    answered,
    capped,
    declared,
    end_us,
    feed,
    finished,
    item,
    lost,
    placement,
    proposed,
    requeued,
    round_of,
    saved,
    starts,
    submitted,
    verdict,
)


def full() -> tuple[Placement, list[PlacementDecided]]:
    """Both clusters are taken, by a job each, and two more wait: a long one, then a short one."""
    processor = placement(nodes=4)
    held = [submitted(f"holder-{n}", end_us(-1) + n, nodes=4) for n in range(2)]
    queued = [
        submitted("long", end_us(-1) + 10, nodes=4, walltime_s=36_000.0),
        submitted("short", end_us(-1) + 11, nodes=4, walltime_s=600.0),
    ]
    return processor, round_of(processor, 0, *held, *queued)


def test_a_planned_job_starts_in_the_order_and_at_the_p_state_of_the_plan() -> None:
    """Whoever was killed behind the proposal, or in the round after it."""
    twins = Twins(lambda: full()[0])
    twice = item("short", "p1", freq_ghz=1.8), item("short", "p1")  # of which the first counts
    plan = [*twice, item("long", "p1")]
    twins.tell(proposed(0, *plan))
    for number, events in enumerate(([], [finished("holder-0", end_us(2) - 1)]), 1):
        twins.kill()
        decided = twins.round_of(number, *events)
    [start] = [one for one in decided if verdict(one) == "start"]
    assert start.job_id == "short"
    assert (start.cluster, start.freq_ghz, start.plan_round) == ("p1", 1.8, 0)
    chosen = next(one for one in start.candidates if one.cluster == "p1")
    assert (chosen.freq_ghz, chosen.walltime_s) == (1.8, start.walltime_s)
    assert start.walltime_s > 600.0
    allocation = answered(twins.lived, "short").allocation
    assert (allocation.freq_ghz, allocation.plan_round) == (1.8, 0)


def test_what_no_plan_has_stands_behind_what_one_has_in_its_tier_and_before_the_next() -> None:
    processor = placement(nodes=4)
    held = [submitted(f"holder-{n}", end_us(-1) + n, nodes=4) for n in range(2)]
    round_of(processor, 0, *held, submitted("a", end_us(-1) + 9, nodes=4))
    plan = [item("a", "p2", tier=1)]
    new = [submitted("b", end_us(0) + 1, nodes=4)]
    decided = round_of(processor, 1, proposed(0, *plan), *new, finished("holder-1", end_us(1) - 1))
    # The first choice of b is p1; its place on p2 is one of tier 1, behind what is planned there.
    assert starts(decided) == ["a"]


def test_a_job_waits_for_no_cluster_that_the_plan_leaves_out_and_is_told_so() -> None:
    processor, _ = full()
    round_of(processor, 1, proposed(0, item("long", "p2")))
    answer = answered(processor, "long")
    places = {one.candidate.cluster: one.place for one in answer.clusters}
    assert places["p1"] == 0
    assert places["p2"] > 0
    [why] = [one.candidate.constraint for one in answer.clusters if not one.place]
    assert why == "planned for p2"


def test_a_planned_start_is_held_back_until_its_time_and_a_round_is_wanted_then() -> None:
    from_us = end_us(3)
    plan = proposed(1, item("later", "p2", not_before_us=from_us))
    processor = placement(nodes=4)
    both = [submitted("x", end_us(-1) + 1, nodes=4), submitted("y", end_us(-1) + 2, nodes=4)]
    round_of(processor, 0, *both, submitted("later", end_us(-1) + 3, nodes=4))
    decided = round_of(
        processor, 2, plan, finished("x", end_us(2) - 2), finished("y", end_us(2) - 1)
    )
    assert starts(decided) == []
    answer = answered(processor, "later")
    assert answer.reason == "p2: planned for 2026-01-01T00:02:00Z, not before"
    assert processor.wake_us() == from_us
    [later] = round_of(processor, 3)
    assert (later.job_id, verdict(later), later.cluster) == ("later", "start", "p2")


def test_where_a_planned_cluster_is_lost_the_rest_of_the_plan_counts_or_the_policy() -> None:
    processor, _ = full()
    round_of(processor, 1, proposed(0, item("short", "p1")), lost("p1", end_us(1) - 1))
    decided = round_of(processor, 2, finished("holder-1", end_us(2) - 1))
    assert [(one.job_id, one.cluster) for one in decided] == [("long", "p2")]


def test_a_job_that_was_put_back_is_not_that_of_the_plan_any_more() -> None:
    processor, _ = full()
    plan = proposed(0, item("short", "p1", freq_ghz=1.2))
    decided = round_of(processor, 1, plan, finished("holder-0", end_us(1) - 1))
    assert starts(decided) == ["short"]
    again = round_of(
        processor, 2, requeued("short", end_us(2) - 1), finished("holder-1", end_us(2) - 1)
    )
    assert not any(one.HasField("plan_round") for one in again)


@pytest.mark.parametrize(
    "wrong",
    [
        item("nobody", "p1"),
        item("short", "p1", attempt=2),
        item("short", "p1", freq_ghz=2.55),
        item("short", "p1", walltime_s=300.0),
        item("short", "p1", draw_w=1.0),
        None,
    ],
    ids=["unknown job", "attempt", "P-state", "limit", "draw", "an empty plan"],
)
def test_an_item_that_cannot_be_followed_is_left_out(wrong: PlanItem | None) -> None:
    processor, _ = full()
    round_of(processor, 1, proposed(0, item("short", "p1")))
    plan = proposed(1, *([wrong] if wrong else []))
    [start] = round_of(processor, 2, plan, finished("holder-0", end_us(2) - 1))
    assert (start.job_id, start.HasField("plan_round")) == ("long", False)
    allocation = answered(processor, "long").allocation
    assert not allocation.HasField("plan_round")
    assert allocation.freq_ghz == start.freq_ghz


@pytest.mark.parametrize(
    "news",
    [
        [],
        [declared("p1", nodes=4, time_us=end_us(1) + 1, pstates_ghz=PSTATES["p1"][1:])],
    ],
    ids=["it has ended", "its P-state was removed"],
)
def test_a_plan_that_holds_no_more_leaves_its_jobs_to_the_policy(news: list[Event]) -> None:
    processor, _ = full()
    late = item("long", "p1", not_before_us=end_us(10_000)), item("short", "p1", freq_ghz=1.2)
    round_of(processor, 1, proposed(0, *(late[1:] if news else late), valid_s=45.0))
    assert processor.wake_us() == end_us(0) + 45_000_000
    decided = round_of(processor, 2, *news, finished("holder-0", end_us(2) - 1))
    assert starts(decided) == ["long"]


def test_a_copy_or_an_older_plan_changes_nothing() -> None:
    processor, _ = full()
    plan = proposed(1, item("short", "p1"), item("long", "p1"))
    round_of(processor, 2, plan)
    for late in (plan, proposed(0, item("long", "p1"))):
        with pytest.raises(AlreadyAppliedError):
            processor.handle(late)
    assert starts(round_of(processor, 3, finished("holder-0", end_us(3) - 1))) == ["short"]


@pytest.mark.parametrize(
    "changes",
    [
        {"round": 10**12},
        {"based_at_us": end_us(50), "valid_until_us": end_us(60)},
        {"valid_until_us": end_us(1)},
    ],
    ids=["of a round to come", "of a time to come", "of the past"],
)
def test_a_plan_of_another_time_does_not_stand_nor_keep_one_of_now_out(
    changes: dict[str, int],
) -> None:
    processor, _ = full()
    assert round_of(processor, 1, proposed(0, item("short", "p1"), **changes)) == []
    plan = proposed(1, item("short", "p1"), item("long", "p1"))
    decided = round_of(processor, 2, plan, finished("holder-0", end_us(2) - 1))
    assert starts(decided) == ["short"]


def test_a_plan_of_a_wrong_clock_is_mended_away() -> None:
    processor, _ = full()
    round_of(processor, 1, proposed(0, item("short", "p1")))
    state = saved(processor.changes())
    assert not [key for key in repaired(state, end_us(0)) if key.startswith("plan")]
    gone = {key for key, value in repaired(state, end_us(0) - 1).items() if value is None}
    assert gone == {"plan|", "planned|short"}


@dataclass(frozen=True)
class Drawn:
    """What a round brings: jobs, an end of one of them, and a plan of anything."""

    jobs: list[tuple[int, int, bool]]
    over: int
    items: list[PlanItem]
    round: int
    valid_s: float


names = st.integers(0, 12).map(lambda n: f"job-{n}")
items = st.builds(
    PlanItem,
    job_id=names,
    attempt=st.sampled_from([1, 1, 1, 2]),
    cluster=st.sampled_from([*MODELS, "p3"]),
    freq_ghz=st.sampled_from([*PSTATES["p1"], *PSTATES["p2"], 2.55]),
    walltime_s=st.sampled_from([1.0, 600.0, 1e6]),
    draw_w=st.sampled_from([0.0, 500.0, 1e9]),
    tier=st.integers(0, 255),
    not_before_us=st.sampled_from([0, end_us(0), end_us(3), end_us(2_000), 2**62]),
)
rounds = st.lists(
    st.builds(
        Drawn,
        jobs=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 7), st.booleans()), max_size=3),
        over=st.integers(0, 12),
        items=st.lists(items, max_size=12),
        round=st.integers(-2, 2),
        valid_s=st.sampled_from([1.0, 31.0, 3600.0]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=30, deadline=None)
@given(rounds, st.integers(1_300, 3_000))
def test_no_plan_stops_placement_or_has_it_start_beyond_nodes_or_caps(
    drawn: list[Drawn], cap_w: int
) -> None:
    processor = placement(nodes=4)
    feed(processor, [capped(POWER_SCOPE_CLUSTER, "p1", (0, float(cap_w)))])
    feed(processor, [capped(POWER_SCOPE_REGION, "", (0, 1.6 * cap_w))])
    submissions = 0
    running: dict[str, PlacementDecided] = {}
    for number, one in enumerate(drawn):
        based = number - 1 + one.round
        plan = proposed(max(based, 0), *one.items, valid_s=one.valid_s)
        with suppress(AlreadyAppliedError):
            feed(processor, [plan])
        for nodes, app, shareable in one.jobs:
            came_us = end_us(number) - 9
            asked: dict[str, Any] = {"nodes": nodes, "app_id": APPS[app], "shareable": shareable}
            feed(processor, [submitted(f"job-{submissions}", came_us, **asked)])
            submissions += 1
        if running.pop(f"job-{one.over}", None):
            feed(processor, [finished(f"job-{one.over}", end_us(number) - 1)])
        decided = round_of(processor, number)
        assert {verdict(d) for d in decided} <= {"start", "queued"}
        running |= {one.job_id: one for one in decided if verdict(one) == "start"}
        used: dict[tuple[str, int], int] = {}
        for start in running.values():
            for node in start.node_indices:
                where = start.cluster, node
                used[where] = used.get(where, 0) + start.cores_per_node
        assert all(node < 4 for _, node in used)
        assert all(cores <= {"p1": 48, "p2": 36}[cluster] for (cluster, _), cores in used.items())
        power = processor.queries.power().standings
        assert all(each.headroom_w >= 0 for each in power)
