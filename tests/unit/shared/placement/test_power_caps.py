"""Caps of power in placement: declared, kept, decided under, explained and shown.

p1 has two nodes that idle at 100 W; app 0 draws 380 W on one at the nominal P-state.
"""

from math import inf, nan

import pytest
from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    POWER_SCOPE_SITE,
    PowerScope,
)
from coplace.v1.placement_pb2 import (
    PlacementDecided,
)
from coplace.v1.prediction_pb2 import RunningPowerMeasured

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.scheduling.forecast import StartsAhead
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.shared.placement.region import (
    T0_US,
    Twins,
    Word,
    answered,
    capped,
    committed_w,
    decisions,
    declared,
    event,
    feed,
    finished,
    lost,
    on,
    placement,
    power,
    round_of,
    saved,
    signature,
    started,
    submitted,
    verdict,
    verdicts,
)


def region(nodes: int = 2, *, cap_counts_idle: bool = True) -> Placement:
    """Two clusters of two sites of which nothing is known but that a first run draws 333 W."""
    processor = Placement({}, PolicySettings(cap_counts_idle=cap_counts_idle), 7.0)
    feed(processor, [declared("p1", nodes, site="north"), declared("p2", nodes, site="south")])
    feed(processor, [power()])
    return processor


@pytest.mark.parametrize(
    ("scope", "name", "idle_w"),
    [
        (POWER_SCOPE_CLUSTER, "p1", 200.0),
        (POWER_SCOPE_SITE, "north", 200.0),
        (POWER_SCOPE_REGION, "", 400.0),
    ],
)
def test_a_start_fits_under_the_caps_of_its_cluster_its_site_and_the_region(
    scope: PowerScope.ValueType, name: str, idle_w: float
) -> None:
    """Two nodes idle at 200 W, four at 400 W; each job draws 233 W beyond that."""
    for watts, expected in ((233, "start"), (232, "queued")):
        processor = region()
        feed(processor, [declared("p1", 2, T0_US + 1, site="north", architecture="p1")])
        cap = capped(scope, name, (0, idle_w + watts))
        [decided] = round_of(processor, 0, cap, submitted("a", architectures=["p1"]))
        assert verdict(decided) == expected


def test_a_refusal_for_watts_tells_what_is_needed_what_there_is_until_when_and_by_whom() -> None:
    processor = region()
    feed(processor, [declared("p1", 2, T0_US + 1, architecture="p1")])
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, 500.0), reason="heat wave")
    jobs = [
        submitted("a", T0_US + 1, architectures=["p1"]),
        submitted("b", T0_US + 2, architectures=["p1"]),
    ]
    told = {d.job_id: d for d in round_of(processor, 0, cap, *jobs)}
    assert verdict(told["a"]) == "start"
    [on_p1] = [c for c in told["b"].candidates if c.cluster == "p1"]
    assert on_p1.constraint == (
        "needs 233 W, 67 W left under the power cap of cluster p1 (declared by test: heat wave), "
        "until 2026-01-01T01:00:30Z; nothing says what it draws: the nameplate of 333 W a node "
        "counts"
    )
    [shortage] = on_p1.power.shortages
    assert (shortage.scope, shortage.name) == (POWER_SCOPE_CLUSTER, "p1")
    assert (shortage.needed_w, shortage.available_w) == (233.0, 67.0)
    assert shortage.until_us == T0_US + 3_630_000_000
    assert (shortage.declared_by, shortage.reason) == ("test", "heat wave")
    assert told["b"].reservation.start_at_us == T0_US + 3_630_000_000
    answer = answered(processor, "b")
    assert answer.clusters[0].candidate.constraint == on_p1.constraint
    assert answer.clusters[0].candidate.power == on_p1.power


@pytest.mark.parametrize(("counts_idle", "expected"), [(True, "queued"), (False, "start")])
def test_idle_power_may_be_left_out(counts_idle: bool, expected: Word) -> None:
    processor = region(cap_counts_idle=counts_idle)
    cap = capped(POWER_SCOPE_REGION, "", (0, 432.0))
    assert dict(verdicts(round_of(processor, 0, cap, submitted("a")))) == {"a": expected}


def test_a_step_ahead_closes_a_round_and_starts_what_waited_for_it() -> None:
    processor = region()
    steps = capped(POWER_SCOPE_REGION, "", (0, 400.0), (500, 700.0))
    assert dict(verdicts(round_of(processor, 0, steps, submitted("a")))) == {"a": "queued"}
    assert processor.wake_us() == T0_US + 500_000_000
    last = Round(1, T0_US + 500_000_000)
    assert dict(verdicts(decisions(processor.end_round(last)))) == {"a": "start"}
    assert processor.wake_us() == T0_US + 800_001_000  # its start is to be confirmed


def test_what_would_run_into_a_lower_step_waits_for_the_one_behind_it() -> None:
    processor = region()
    steps = capped(POWER_SCOPE_REGION, "", (0, 700.0), (1000, 400.0), (2000, None))
    [queued] = round_of(processor, 0, steps, submitted("a"))
    assert verdict(queued) == "queued"
    assert queued.reservation.start_at_us == T0_US + 2_000_000_000
    assert "0 W left" in queued.reason
    assert "from 2026-01-01T00:16:40Z on" in queued.reason


def test_another_declaration_replaces_the_whole_cap_and_reopens_the_queue() -> None:
    processor = region()
    low = capped(POWER_SCOPE_REGION, "", (0, 400.0), (10_000, 300_000.0))
    assert dict(verdicts(round_of(processor, 0, low, submitted("a")))) == {"a": "queued"}
    none = capped(POWER_SCOPE_REGION, "", (30, None), time_us=T0_US + 30_000_000)
    assert dict(verdicts(round_of(processor, 1, none))) == {"a": "start"}
    with pytest.raises(AlreadyAppliedError):
        processor.handle(low)


def test_lost_nodes_idle_on() -> None:
    processor = region()
    cap = capped(POWER_SCOPE_REGION, "", (0, 632.0))
    gone = lost("p2", T0_US)
    assert dict(verdicts(round_of(processor, 0, cap, gone, submitted("a")))) == {"a": "queued"}


@pytest.mark.parametrize(
    ("scope", "name", "watts", "field"),
    [
        (POWER_SCOPE_CLUSTER, "p3", 1e6, "name"),
        (POWER_SCOPE_SITE, "p1", 1e6, "name"),
        (POWER_SCOPE_CLUSTER, "p1", 199.0, "steps[0].watts"),
        (POWER_SCOPE_REGION, "", 399.0, "steps[0].watts"),
        (POWER_SCOPE_CLUSTER, "p1", 0.0, "steps[0].watts"),
        (POWER_SCOPE_REGION, "", 0.0, "steps[0].watts"),
    ],
)
def test_a_cap_of_nothing_known_or_below_idle_power_is_refused(
    scope: PowerScope.ValueType, name: str, watts: float, field: str
) -> None:
    with pytest.raises(RejectedError) as refused:
        region().handle(capped(scope, name, (0, watts)))
    assert refused.value.field == field


@pytest.mark.parametrize("watts", [200.0, 432.0])
def test_a_job_that_alone_exceeds_a_cap_is_told_so_and_the_rest_goes_on(watts: float) -> None:
    """p1 idles at 200 W and each job draws 233 W beyond: the cap leaves nothing, or 1 W too few."""
    processor = region()
    feed(processor, [declared("p1", 2, T0_US + 1, site="north", architecture="p1")])
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, watts), reason="heat wave")
    jobs = [submitted("a", T0_US + 1, architectures=["p1"]), submitted("b", T0_US + 2)]
    told = {d.job_id: d for d in round_of(processor, 0, cap, *jobs)}
    assert (verdict(told["b"]), told["b"].cluster) == ("start", "p2")
    assert verdict(told["a"]) == "queued"
    assert told["a"].reason == (
        f"p1: needs 233 W, {watts - 200:g} W left under the power cap of cluster p1 (declared by "
        "test: heat wave), as long as it stays as declared; nothing says what it draws: the "
        "nameplate of 333 W a node counts"
    )
    assert not told["a"].HasField("reservation")


@pytest.mark.parametrize("watts", [nan, inf, -1.0])
def test_a_prediction_that_is_no_power_never_comes_to_a_decision(watts: float) -> None:
    with pytest.raises(RejectedError, match="power_w"):
        check_contents(power(fallback_power_w={"module0": watts}).payload)


def test_a_restart_knows_caps_and_what_runs_draws() -> None:
    twins = Twins(region)
    cap = capped(POWER_SCOPE_REGION, "", (0, 700.0), reason="heat wave")
    [start] = twins.round_of(0, cap, submitted("a"))
    grown = declared("p1", 100, T0_US + 9)  # its idle power is above the cap by now
    for news in (started(start), grown):
        twins.kill()
        twins.tell(news)
    twins.kill()
    decided = twins.round_of(1, submitted("b", T0_US + 1))
    assert dict(verdicts(decided)) == {"a": "action", "b": "queued"}
    answer = twins.killed.queries.power()
    assert answer == twins.lived.queries.power()
    whole = answer.standings[-1]
    assert (whole.cap_w, whole.idle_w, whole.committed_w) == (700.0, 10_200.0, 233.0)
    assert whole.headroom_w == 700 - 10_200 - 233
    assert (whole.declared_by, whole.reason) == ("test", "heat wave")


def test_what_a_resource_manager_starts_by_itself_draws_too() -> None:
    processor = region()
    feed(processor, [submitted("own")])
    running = PlacementDecided(
        job_id="own", attempt=1, cluster="p1", node_indices=[0], decided_at_us=T0_US
    )
    cap = capped(POWER_SCOPE_REGION, "", (0, 700.0))
    assert round_of(processor, 0, started(running), cap) == []
    assert processor.queries.power().standings[-1].committed_w == 233.0
    assert dict(verdicts(round_of(processor, 1, submitted("b")))) == {"b": "queued"}
    assert dict(verdicts(round_of(processor, 2, finished("own", T0_US + 90_000_000)))) == {
        "b": "start"
    }


def test_the_forecast_knows_the_cap() -> None:
    processor = region()
    steps = capped(POWER_SCOPE_REGION, "", (0, 400.0), (5000, 700.0))
    jobs = [submitted("a"), submitted("b", T0_US + 1)]
    round_of(processor, 0, steps, *jobs)
    snapshot = processor.queries.snapshot()
    starts = dict(StartsAhead(snapshot.now_s, snapshot.schedulers).starts())
    assert [s.start_s - T0_US / 1e6 for s in starts.values()] == [5000.0, 8600.0]


# App 0 draws 280 W beyond idle at the 2.7 GHz of p1, and a tenth less at 2.5 GHz.
LOW_W = 200.0 + 253.0


def choosy(cap_slowdown: float, policy: Policy = Policy.BASE) -> Placement:
    """p1 alone has a binary for what is submitted by `of_p1`."""
    processor = placement(nodes=2, policy=policy, cap_slowdown=cap_slowdown)
    feed(processor, [declared("p1", 2, T0_US + 1, architecture="p1")])
    return processor


def of_p1(job_id: str, time_us: int = T0_US + 2, **changes: object) -> Event:
    return submitted(job_id, time_us, architectures=["p1"], **changes)  # type: ignore[arg-type]


def test_where_a_cap_refuses_the_p_state_that_was_chosen_a_job_starts_at_a_lower_one() -> None:
    """What it draws, and until when, is that of its mode."""
    processor = choosy(1.5)
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, LOW_W), reason="heat wave")
    [start] = round_of(processor, 0, cap, of_p1("a"))
    assert (verdict(start), start.freq_ghz) == ("start", 2.5)
    assert start.walltime_s == pytest.approx(3600 * 2.7 / 2.5)
    found = on(start, "p1")
    assert (found.freq_ghz, found.walltime_s, found.constraint) == (2.5, start.walltime_s, "")
    assert found.time_s == pytest.approx(50 * 2.7 / 2.5)
    assert start.instead_of.freq_ghz == 2.7
    assert start.instead_of.constraint == (
        "needs 280 W, 253 W left under the power cap of cluster p1 (declared by test: heat wave), "
        "as long as it stays as declared"
    )
    [shortage] = start.instead_of.power.shortages
    assert (shortage.needed_w, shortage.available_w) == (280.0, 253.0)
    assert committed_w(processor) == pytest.approx(found.power_w - 100, abs=0.001)
    allocation = answered(processor, "a").allocation
    assert allocation.freq_ghz == 2.5
    assert allocation.ends_by_us == start.decided_at_us + round(start.walltime_s * 1e6)


@pytest.mark.parametrize(
    ("cap_slowdown", "watts", "words"),
    [(1.0, LOW_W, ""), (1.05, LOW_W, ""), (1.3, 201.0, "; nor at 3 lower P-states")],
)
def test_a_job_waits_for_watts_where_no_p_state_is_fast_enough_or_low_enough(
    cap_slowdown: float, watts: float, words: str
) -> None:
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, watts))
    [queued] = round_of(choosy(cap_slowdown), 0, cap, of_p1("a"))
    assert verdict(queued) == "queued"
    assert queued.reason.endswith(f"as long as it stays as declared{words}")


def test_a_job_that_came_before_the_first_cap_starts_at_a_lower_p_state_too() -> None:
    """Job b waits for the nodes of job a."""
    processor = choosy(1.5)
    [start, queued] = round_of(processor, 0, of_p1("a", nodes=2), of_p1("b", T0_US + 3))
    assert (verdict(start), verdict(queued)) == ("start", "queued")
    round_of(processor, 1, capped(POWER_SCOPE_CLUSTER, "p1", (0, LOW_W), time_us=T0_US + 40))
    [later] = round_of(processor, 2, finished("a", T0_US + 70_000_000))
    assert (later.job_id, verdict(later), later.freq_ghz) == ("b", "start", 2.5)


@pytest.mark.parametrize("policy", list(Policy))
def test_who_was_killed_in_between_starts_it_in_the_same_mode(policy: Policy) -> None:
    twins = Twins(lambda: choosy(1.5, policy))
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, 200.0), (100, LOW_W))
    assert verdicts(twins.round_of(0, cap, of_p1("a"))) == [("a", "queued")]
    twins.kill()
    # What signatures say later changes nothing of what was evaluated.
    assert twins.round_of(4, signature(0, "p1", T0_US + 50, power_w=300.0)) != []


# What meters show of a job that runs counts for the rest of its run.


def measured(node_power_w: float, *, attempt: int = 1, freq_ghz: float = 2.7) -> Event:
    at_us = T0_US + 60_000_000
    payload = RunningPowerMeasured(
        job_id="a",
        attempt=attempt,
        cluster="p1",
        freq_ghz=freq_ghz,
        node_power_w=node_power_w,
        measured_at_us=at_us,
    )
    return event(f"measured/{node_power_w}/{attempt}/{freq_ghz}", payload, at_us)


def running(watts: float) -> Placement:
    """`a`, predicted to draw 333 W on one of two nodes that idle at 100 W, runs under a cap."""
    processor = Placement({}, PolicySettings(), 7.0)
    feed(processor, [declared("p1", 2), power()])
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, watts))
    [start] = round_of(processor, 0, cap, submitted("a"))
    assert verdict(start) == "start"
    round_of(processor, 1, started(start))
    return processor


@pytest.mark.parametrize(
    ("node_power_w", "expected"),
    [(None, "queued"), (300.0, "start"), (400.0, "queued")],
)
def test_the_next_job_starts_in_what_those_that_run_leave(
    node_power_w: float | None, expected: Word
) -> None:
    """200 W of idle nodes and 433 W: 233 W for the next job, and 200 W for the one that runs."""
    processor = running(200 + 433)
    state = saved(processor.changes())
    round_of(processor, 2, *([measured(node_power_w)] if node_power_w else []))
    again = Placement(saved(state, processor.changes()), PolicySettings(), 7.0)
    for one in (processor, again):
        [decided] = round_of(one, 3, submitted("b", T0_US + 60_000_000))
        assert verdict(decided) == expected


@pytest.mark.parametrize(
    "late", [measured(300.0, attempt=2), measured(300.0, freq_ghz=2.5), measured(300.0)]
)
def test_what_was_measured_of_another_attempt_or_mode_or_of_who_ended_does_not_count(
    late: Event,
) -> None:
    processor = running(200 + 433)
    if late.payload == measured(300.0).payload:
        round_of(processor, 2, finished("a", T0_US + 60_000_000))
    with pytest.raises(AlreadyAppliedError):
        processor.handle(late)


def test_what_draws_more_than_predicted_is_asked_to_draw_less() -> None:
    processor = running(200 + 233)
    [asked] = round_of(processor, 2, measured(390.0))
    assert asked.job_id == "a"
    assert asked.action.number == 1
