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
    VERDICT_ACTION,
    VERDICT_QUEUED,
    VERDICT_START,
    Candidate,
    PlacementDecided,
)

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.placement.candidates.candidate import Rules
from shared.placement.processor import Placement
from shared.scheduling.forecast import forecast
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.shared.placement.region import (
    T0_US,
    capped,
    decisions,
    declared,
    feed,
    finished,
    lost,
    placement,
    power,
    round_of,
    signature,
    started,
    submitted,
)


def region(nodes: int = 2, *, cap_counts_idle: bool = True) -> Placement:
    """Two clusters of two sites of which nothing is known but that a first run draws 333 W."""
    processor = Placement({}, Rules(cap_counts_idle=cap_counts_idle), 7.0)
    feed(processor, [declared("p1", nodes, site="north"), declared("p2", nodes, site="south")])
    feed(processor, [power()])
    return processor


def verdicts(decided: list[PlacementDecided]) -> dict[str, int]:
    return {d.job_id: d.verdict for d in decided}


def test_a_start_fits_under_the_caps_of_its_cluster_its_site_and_the_region() -> None:
    """Two nodes idle at 200 W, four at 400 W; each job draws 233 W beyond that."""
    for scope, name, idle_w in (
        (POWER_SCOPE_CLUSTER, "p1", 200.0),
        (POWER_SCOPE_SITE, "north", 200.0),
        (POWER_SCOPE_REGION, "", 400.0),
    ):
        for watts, first in ((idle_w + 233, VERDICT_START), (idle_w + 232, VERDICT_QUEUED)):
            processor = region()
            cap = capped(scope, name, (0, watts))
            others = [submitted("a", architectures=["p1"]), submitted("b", T0_US + 1)]
            feed(processor, [declared("p1", 2, T0_US + 1, site="north", architecture="p1")])
            decided = verdicts(round_of(processor, 0, cap, others[0]))
            assert decided == {"a": first}, (name, watts)


def test_a_refusal_for_watts_tells_what_is_needed_what_there_is_until_when_and_by_whom() -> None:
    processor = region()
    feed(processor, [declared("p1", 2, T0_US + 1, architecture="p1")])
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, 500.0), reason="heat wave")
    jobs = [
        submitted("a", T0_US + 1, architectures=["p1"]),
        submitted("b", T0_US + 2, architectures=["p1"]),
    ]
    told = {d.job_id: d for d in round_of(processor, 0, cap, *jobs)}
    assert told["a"].verdict == VERDICT_START
    [on_p1] = [c for c in told["b"].candidates if c.cluster == "p1"]
    assert on_p1.constraint == (
        "needs 233 W, 67 W left under the power cap of cluster p1 (declared by test: heat wave), "
        "until 2026-01-01T01:00:30Z"
    )
    [shortage] = on_p1.power.shortages
    assert (shortage.scope, shortage.name) == (POWER_SCOPE_CLUSTER, "p1")
    assert (shortage.needed_w, shortage.available_w) == (233.0, 67.0)
    assert shortage.until_us == T0_US + 3_630_000_000
    assert (shortage.declared_by, shortage.reason) == ("test", "heat wave")
    assert told["b"].reservation.start_at_us == T0_US + 3_630_000_000
    answer = processor.queries.answer("b")
    assert answer is not None
    assert answer.clusters[0].candidate.constraint == on_p1.constraint
    assert answer.clusters[0].candidate.power == on_p1.power


@pytest.mark.parametrize(
    ("counts_idle", "verdict"), [(True, VERDICT_QUEUED), (False, VERDICT_START)]
)
def test_idle_power_may_be_left_out(counts_idle: bool, verdict: int) -> None:
    processor = region(cap_counts_idle=counts_idle)
    cap = capped(POWER_SCOPE_REGION, "", (0, 432.0))
    assert verdicts(round_of(processor, 0, cap, submitted("a"))) == {"a": verdict}


def test_a_step_ahead_closes_a_round_and_starts_what_waited_for_it() -> None:
    processor = region()
    steps = capped(POWER_SCOPE_REGION, "", (0, 400.0), (500, 700.0))
    assert verdicts(round_of(processor, 0, steps, submitted("a"))) == {"a": VERDICT_QUEUED}
    assert processor.wake_us() == T0_US + 500_000_000
    last = Round(1, T0_US + 500_000_000)
    assert verdicts(decisions(processor.end_round(last))) == {"a": VERDICT_START}
    assert processor.wake_us() == T0_US + 800_001_000  # its start is to be confirmed


def test_what_would_run_into_a_lower_step_waits_for_the_one_behind_it() -> None:
    processor = region()
    steps = capped(POWER_SCOPE_REGION, "", (0, 700.0), (1000, 400.0), (2000, None))
    [queued] = round_of(processor, 0, steps, submitted("a"))
    assert queued.verdict == VERDICT_QUEUED
    assert queued.reservation.start_at_us == T0_US + 2_000_000_000
    assert "0 W left" in queued.reason
    assert "from 2026-01-01T00:16:40Z on" in queued.reason


def test_another_declaration_replaces_the_whole_cap_and_reopens_the_queue() -> None:
    processor = region()
    low = capped(POWER_SCOPE_REGION, "", (0, 400.0), (10_000, 300_000.0))
    assert verdicts(round_of(processor, 0, low, submitted("a"))) == {"a": VERDICT_QUEUED}
    none = capped(POWER_SCOPE_REGION, "", (30, None), time_us=T0_US + 30_000_000)
    assert verdicts(round_of(processor, 1, none)) == {"a": VERDICT_START}
    with pytest.raises(AlreadyAppliedError):
        processor.handle(low)


def test_lost_nodes_idle_on() -> None:
    processor = region()
    cap = capped(POWER_SCOPE_REGION, "", (0, 632.0))
    gone = lost("p2", T0_US)
    assert verdicts(round_of(processor, 0, cap, gone, submitted("a"))) == {"a": VERDICT_QUEUED}


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
    assert (told["b"].verdict, told["b"].cluster) == (VERDICT_START, "p2")
    assert told["a"].verdict == VERDICT_QUEUED
    assert told["a"].reason == (
        f"p1: needs 233 W, {watts - 200:g} W left under the power cap of cluster p1 (declared by "
        "test: heat wave), as long as it stays as declared"
    )
    assert not told["a"].HasField("reservation")


@pytest.mark.parametrize("watts", [nan, inf, -1.0])
def test_a_prediction_that_is_no_power_never_comes_to_a_decision(watts: float) -> None:
    with pytest.raises(RejectedError, match="power_w"):
        check_contents(power(fallback_power_w={"module0": watts}).payload)


def test_a_restart_knows_caps_and_what_runs_draws() -> None:
    processor = region()
    cap = capped(POWER_SCOPE_REGION, "", (0, 700.0), reason="heat wave")
    [start] = round_of(processor, 0, cap, submitted("a"))
    feed(processor, [started(start)])
    state = {key: value for key, value in processor.changes().items() if value is not None}
    grown = declared("p1", 100, T0_US + 9)  # its idle power is above the cap by now
    feed(processor, [grown])
    state |= {key: value for key, value in processor.changes().items() if value is not None}
    restored = Placement(state, Rules(), 7.0)
    for one in (processor, restored):
        decided = verdicts(round_of(one, 1, submitted("b", T0_US + 1)))
        assert decided == {"a": VERDICT_ACTION, "b": VERDICT_QUEUED}
    answers = [one.queries.power() for one in (processor, restored)]
    assert answers[0] == answers[1]
    whole = answers[1].standings[-1]
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
    assert verdicts(round_of(processor, 1, submitted("b"))) == {"b": VERDICT_QUEUED}
    assert verdicts(round_of(processor, 2, finished("own", T0_US + 90_000_000))) == {
        "b": VERDICT_START
    }


def test_the_forecast_knows_the_cap() -> None:
    processor = region()
    steps = capped(POWER_SCOPE_REGION, "", (0, 400.0), (5000, 700.0))
    jobs = [submitted("a"), submitted("b", T0_US + 1)]
    round_of(processor, 0, steps, *jobs)
    snapshot = processor.queries.snapshot()
    starts = dict(forecast(snapshot.now_s, snapshot.schedulers))
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


def on_p1(decided: PlacementDecided) -> Candidate:
    return next(c for c in decided.candidates if c.cluster == "p1")


def test_where_a_cap_refuses_the_p_state_that_was_chosen_a_job_starts_at_a_lower_one() -> None:
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, LOW_W), reason="heat wave")
    [start] = round_of(choosy(1.5), 0, cap, of_p1("a"))
    assert (start.verdict, start.freq_ghz) == (VERDICT_START, 2.5)
    assert start.walltime_s == pytest.approx(3600 * 2.7 / 2.5)
    assert on_p1(start).freq_ghz == 2.5
    assert on_p1(start).time_s == pytest.approx(50 * 2.7 / 2.5)
    assert on_p1(start).walltime_s == start.walltime_s
    assert on_p1(start).constraint == ""
    assert start.instead_of.freq_ghz == 2.7
    assert start.instead_of.constraint == (
        "needs 280 W, 253 W left under the power cap of cluster p1 (declared by test: heat wave), "
        "as long as it stays as declared"
    )
    [shortage] = start.instead_of.power.shortages
    assert (shortage.needed_w, shortage.available_w) == (280.0, 253.0)


def test_what_it_draws_and_until_when_is_that_of_its_mode() -> None:
    processor = choosy(1.5)
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, LOW_W))
    [start] = round_of(processor, 0, cap, of_p1("a"))
    standing = next(s for s in processor.queries.power().standings if s.name == "p1")
    assert standing.committed_w == pytest.approx(on_p1(start).power_w - 100, abs=0.001)
    answer = processor.queries.answer("a")
    assert answer is not None
    assert answer.allocation.freq_ghz == 2.5
    assert answer.allocation.ends_by_us == start.decided_at_us + round(start.walltime_s * 1e6)


@pytest.mark.parametrize("cap_slowdown", [1.0, 1.05])
def test_a_job_waits_for_watts_where_no_p_state_is_fast_enough(cap_slowdown: float) -> None:
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, LOW_W))
    [queued] = round_of(choosy(cap_slowdown), 0, cap, of_p1("a"))
    assert queued.verdict == VERDICT_QUEUED
    assert "lower P-state" not in queued.reason


def test_a_refusal_says_that_lower_p_states_are_refused_too() -> None:
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, 201.0))
    [queued] = round_of(choosy(1.3), 0, cap, of_p1("a"))
    assert queued.reason.endswith("as long as it stays as declared; nor at 3 lower P-states")


def test_a_job_that_came_before_the_first_cap_starts_at_a_lower_p_state_too() -> None:
    """Job b waits for the nodes of job a."""
    processor = choosy(1.5)
    [start, queued] = round_of(processor, 0, of_p1("a", nodes=2), of_p1("b", T0_US + 3))
    assert (start.verdict, queued.verdict) == (VERDICT_START, VERDICT_QUEUED)
    round_of(processor, 1, capped(POWER_SCOPE_CLUSTER, "p1", (0, LOW_W), time_us=T0_US + 40))
    [later] = round_of(processor, 2, finished("a", T0_US + 70_000_000))
    assert (later.job_id, later.verdict, later.freq_ghz) == ("b", VERDICT_START, 2.5)


@pytest.mark.parametrize("policy", list(Policy))
def test_who_was_killed_in_between_starts_it_in_the_same_mode(policy: Policy) -> None:
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, 200.0), (100, LOW_W))
    processor = choosy(1.5, policy)
    state = dict(processor.changes())
    assert round_of(processor, 0, cap, of_p1("a"))[0].verdict == VERDICT_QUEUED
    state |= processor.changes()
    rules = Rules(policy, cap_slowdown=1.5)
    kept = {key: value for key, value in state.items() if value is not None}
    anew = Placement(kept, rules, 7.0)
    # What signatures say later changes nothing of what was weighed.
    news = [signature(0, "p1", T0_US + 50, power_w=300.0)]
    assert round_of(processor, 4, *news) == round_of(anew, 4, *news) != []
