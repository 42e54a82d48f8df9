"""Placement folds events and decides at the end of a round."""

from typing import Any

import pytest
from coplace.v1.placement_pb2 import (
    PREDICTION_BASIS_FIRST_RUN,
    PREDICTION_BASIS_SIGNATURE,
    VERDICT_QUEUED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.placement.candidates.candidate import Rules
from shared.placement.processor import Placement
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US, finished, placement, round_of, submitted

PERIOD_US = 30_000_000


def candidate(decided: PlacementDecided, cluster: str) -> Any:
    return next(c for c in decided.candidates if c.cluster == cluster)


def test_a_job_starts_on_its_best_cluster_on_the_lowest_free_nodes() -> None:
    [decided] = round_of(placement(), 0, submitted("a", nodes=2))
    assert decided.verdict == VERDICT_START
    assert (decided.cluster, list(decided.node_indices)) == ("p1", [0, 1])
    assert (decided.cores_per_node, decided.predicted_slowdown_ratio) == (48, 1.0)
    assert (decided.attempt, decided.round, decided.policy) == (1, 0, "priority-inc-v")


def test_an_application_prefers_the_cluster_that_suits_it() -> None:
    [decided] = round_of(placement(), 0, submitted("a", app_id=region.APPS[7]))
    assert decided.cluster == "p2"


def test_a_start_explains_what_it_did_not_take() -> None:
    [decided] = round_of(placement(), 0, submitted("a"))
    assert candidate(decided, "p1").constraint == ""
    assert "started on p1, which stands before it" in candidate(decided, "p2").constraint
    assert candidate(decided, "p1").coefficients_version == "coefficients-platinum-8168@0"
    assert candidate(decided, "p1").basis == PREDICTION_BASIS_SIGNATURE


def test_a_second_choice_says_why_the_first_was_refused() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=3))
    [decided] = round_of(processor, 1, submitted("b", nodes=3))
    assert decided.cluster == "p2"
    assert candidate(decided, "p1").constraint == "needs 3 nodes, 1 free"


def test_a_job_that_waits_is_told_why_and_what_it_is_promised() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=3))
    [decided] = round_of(processor, 1, submitted("b", nodes=2))
    assert decided.verdict == VERDICT_QUEUED
    assert decided.reason == "p1: needs 2 nodes, 1 free"
    assert (decided.reservation.cluster, decided.reservation.nodes) == ("p1", 2)
    assert decided.reservation.start_at_us == T0_US + PERIOD_US + 3600 * 10**6
    assert candidate(decided, "p2").constraint == "policy base: only the best cluster, p1"


def test_a_job_behind_a_reservation_is_told_which() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=3))
    behind = submitted("c", T0_US + 1, walltime_s=7200.0)
    decided = round_of(processor, 1, submitted("b", nodes=4), behind)[1]
    assert "after the reservation of b at 2026-01-01T01:00:30Z" in decided.reason
    assert "more than its 0 extra nodes" in decided.reason


def test_a_queued_job_starts_when_nodes_come_free() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=3))
    round_of(processor, 1, submitted("b", nodes=2))
    [decided] = round_of(processor, 2, finished("a", T0_US + 2 * PERIOD_US))
    assert (decided.job_id, decided.verdict) == ("b", VERDICT_START)
    assert list(decided.node_indices) == [0, 1]
    assert round_of(processor, 3) == []


def test_the_limit_is_the_walltime_scaled_to_cluster_and_frequency() -> None:
    [decided] = round_of(placement(policy=Policy.BASE), 0, submitted("a"))
    assert decided.walltime_s == pytest.approx(3600)
    assert candidate(decided, "p2").walltime_s == pytest.approx(1.2 * 3600)


def test_the_limit_of_a_shareable_job_allows_for_a_co_runner_from_the_start() -> None:
    [decided] = round_of(placement(policy=Policy.BASE), 0, submitted("a", shareable=True))
    assert decided.walltime_s == pytest.approx(1.25 * 3600)
    assert decided.cores_per_node == 24


def test_a_shareable_job_joins_one_that_runs_alone() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=2, shareable=True))
    [decided] = round_of(processor, 1, submitted("b", nodes=2, shareable=True))
    assert (decided.co_runner_job_id, list(decided.node_indices)) == ("a", [0, 1])
    assert decided.predicted_slowdown_ratio == 1.0
    assert decided.degradation_model_version == "degradation@0"
    [third] = round_of(processor, 2, submitted("c", nodes=2, shareable=True))
    assert (third.co_runner_job_id, list(third.node_indices)) == ("", [2, 3])


def test_nodes_of_a_pair_are_free_when_both_have_ended() -> None:
    processor = placement(policy=Policy.BASE)
    pair = [submitted(name, nodes=4, shareable=True) for name in "ab"]
    round_of(processor, 0, *pair)
    assert round_of(processor, 1, submitted("c", nodes=4))[0].verdict == VERDICT_QUEUED
    assert round_of(processor, 2, finished("a", T0_US + 2 * PERIOD_US)) == []
    [decided] = round_of(processor, 3, finished("b", T0_US + 3 * PERIOD_US))
    assert (decided.job_id, decided.verdict) == ("c", VERDICT_START)


def test_a_pair_that_would_slow_down_too_much_is_refused_with_the_figure() -> None:
    # Each draws 140 / 2 of 200 GB/s: the prior says 1 + 0.35 x 0.35.
    processor = placement(policy=Policy.BASE, max_slowdown=1.1)
    on_p2: dict[str, Any] = {"app_id": region.APPS[7], "nodes": 4, "shareable": True}
    round_of(processor, 0, submitted("a", **on_p2))
    [decided] = round_of(processor, 1, submitted("b", **on_p2))
    assert decided.reason == (
        "p2: needs 4 units of 18 cores, 0 free beside neighbours that suit it: "
        "neighbours would slow down 1.12 times or more, 1.1 is most"
    )


def test_an_unknown_application_runs_first_on_its_reference_cluster_at_nominal() -> None:
    [decided] = round_of(placement(), 0, submitted("a", app_id="new", reference_cluster="p2"))
    assert (decided.cluster, decided.freq_ghz, decided.walltime_s) == ("p2", 3.1, 3600.0)
    chosen = candidate(decided, "p2")
    assert (chosen.basis, chosen.power_w) == (PREDICTION_BASIS_FIRST_RUN, 333.0)
    assert chosen.power_model_version == "power@0"
    # Seven of the eight known ones take 1.2 times as long on p2.
    assert candidate(decided, "p1").time_s == pytest.approx(3600 / 1.2, rel=0.02)


def test_an_application_known_on_one_cluster_is_a_first_run_on_the_other() -> None:
    processor = placement()
    known = region.signature(0, "p1").payload
    known.app_id = "half"  # type: ignore[attr-defined]
    [decided] = round_of(processor, 0, region.event("half", known), submitted("a", app_id="half"))
    bases = {c.cluster: c.basis for c in decided.candidates}
    assert bases == {"p1": PREDICTION_BASIS_SIGNATURE, "p2": PREDICTION_BASIS_FIRST_RUN}
    assert candidate(decided, "p2").time_s == pytest.approx(50 * 1.2, rel=0.02)


def test_a_cluster_that_is_too_small_is_weighed_and_refused() -> None:
    processor = placement(nodes=4)
    region.feed(processor, [region.declared("p2", 8, T0_US + 1)])
    [decided] = round_of(processor, 0, submitted("a", nodes=6))
    assert decided.cluster == "p2"
    assert candidate(decided, "p1").constraint == "needs 6 nodes, the cluster has 4"
    assert candidate(decided, "p1").part_eff == float("inf")


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (submitted("a", nodes=0), "nodes"),
        (submitted("a", walltime_s=-1.0), "walltime_s"),
        (finished("a", T0_US), "job_id"),
        (region.requeued("a", T0_US), "job_id"),
        (region.started(PlacementDecided(job_id="a", attempt=1)), "job_id"),
        (region.pair_model(weights=(1.0,)), "weights"),
        (region.signature(0, "p1", T0_US + 1, cpi=-1.0), "cpi"),
        (submitted("a", walltime_s=1e300), "walltime_s"),
        (region.signature(0, "p1", T0_US + 1, time_s=5e-324), "time_s"),
        (region.declared("p2", nodes=2**32 - 1), "nodes"),
        (region.declared("p2", pstates_ghz=[float("nan")]), "pstates_ghz"),
        (region.declared("p2", pstates_ghz=range(1, 102)), "pstates_ghz"),
    ],
)
def test_bad_input_is_rejected_by_field_and_changes_nothing(event: Event, field: str) -> None:
    processor = Placement({}, Rules(), 7.0)
    region.feed(processor, [region.declared("p1", 4)])
    processor.changes()
    with pytest.raises(RejectedError) as caught:
        processor.handle(event)
    assert caught.value.field == field
    assert processor.changes() == {}
    assert round_of(processor, 0) == []


@pytest.mark.parametrize("index", ["99999999999", "9" * 5000])
def test_a_start_on_a_node_beyond_any_cluster_is_rejected(index: str) -> None:
    processor = placement()
    [decided] = round_of(processor, 0, submitted("a"))
    with pytest.raises(RejectedError, match="nodes"):
        processor.handle(region.started(decided, nodes=[f"{decided.cluster}-{index}"]))


def test_a_fact_about_an_attempt_that_is_not_known_is_rejected() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"))
    with pytest.raises(RejectedError, match="requeue first"):
        processor.handle(finished("a", T0_US, attempt=2))


def test_copies_and_late_facts_are_dropped() -> None:
    processor = placement()
    [decided] = round_of(processor, 0, submitted("a"))
    round_of(processor, 1, finished("a", T0_US + PERIOD_US))
    processor.changes()
    late = [submitted("a"), finished("a", T0_US), region.started(decided), region.declared("p1", 4)]
    for event in late:
        with pytest.raises(AlreadyAppliedError):
            processor.handle(event)
    assert processor.changes() == {}


def test_a_copy_of_an_older_model_does_not_replace_the_newer() -> None:
    processor = placement()
    region.feed(processor, [region.signature(0, "p1", T0_US + 5, time_s=99.0)])
    with pytest.raises(AlreadyAppliedError):
        processor.handle(region.signature(0, "p1", T0_US + 4, time_s=11.0))


def test_a_requeued_job_gives_its_nodes_back_and_is_decided_again() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, submitted("b", nodes=4))
    void, first, second = round_of(processor, 2, region.requeued("a", T0_US + 2 * PERIOD_US))
    assert (void.job_id, void.attempt, void.verdict) == ("a", 1, VERDICT_WITHDRAWN)
    assert void.reason == "the job was put back as attempt 2"
    assert (first.job_id, first.verdict) == ("b", VERDICT_START)
    assert (second.job_id, second.attempt, second.verdict) == ("a", 2, VERDICT_QUEUED)
    processor.handle(finished("a", T0_US, attempt=1))
    with pytest.raises(AlreadyAppliedError):
        processor.handle(finished("a", T0_US, attempt=1))


def test_copies_of_what_happened_long_ago_are_known_for_as_long_after_they_came() -> None:
    processor, then_us = placement(), T0_US - 8 * 86_400 * 10**6
    story = [submitted("a", then_us), finished("a", then_us + 1)]
    round_of(processor, 0, *story)
    assert round_of(processor, 1) == []
    for number in (2, 3):
        for one in story:
            with pytest.raises(AlreadyAppliedError):
                processor.handle(one)
        assert round_of(processor, number) == []


def test_a_job_that_was_requeued_while_it_waited_stands_in_the_queue_once() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, submitted("b", nodes=1))
    round_of(processor, 2, region.requeued("b", T0_US + 2 * PERIOD_US))
    decided = round_of(processor, 3, finished("a", T0_US + 3 * PERIOD_US))
    assert [(d.job_id, d.attempt) for d in decided] == [("b", 2)]


def test_a_start_moves_the_expected_end() -> None:
    processor = placement(policy=Policy.BASE)
    [decided] = round_of(processor, 0, submitted("a", nodes=4))
    later_us = T0_US + 2 * PERIOD_US
    event = region.started(decided, started_at_us=later_us)
    [queued] = round_of(processor, 1, event, submitted("b", nodes=4))
    assert queued.reservation.start_at_us == later_us + 3600 * 10**6


def test_a_resource_manager_that_starts_a_job_elsewhere_is_right() -> None:
    processor = placement(policy=Policy.BASE)
    [decided] = round_of(processor, 0, submitted("a", nodes=2))
    region.feed(processor, [region.started(decided, nodes=["p1-0002", "p1-0003"])])
    [second] = round_of(processor, 1, submitted("b", nodes=2))
    assert list(second.node_indices) == [0, 1]


def test_a_job_that_ends_before_it_was_decided_gets_no_decision() -> None:
    processor = placement()
    assert round_of(processor, 0, submitted("a"), finished("a", T0_US + 1)) == []


def test_ended_jobs_are_forgotten_after_a_while() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"), finished("a", T0_US + 1))
    processor.changes()
    list(processor.end_round(Round(1, T0_US + 8 * 86_400 * 10**6)))
    assert processor.changes() == {"job/a": None}


def test_events_of_eight_days_ago_that_come_twice_start_no_job_twice() -> None:
    """How long a job is remembered counts from when it was heard that it ended."""
    processor, old_us = placement(), T0_US - 8 * 86_400 * 10**6
    old = submitted("a", old_us)
    [start] = round_of(processor, 0, old)
    assert start.verdict == VERDICT_START
    round_of(processor, 1, region.started(start), finished("a", old_us + 1))
    round_of(processor, 2)
    with pytest.raises(AlreadyAppliedError):
        processor.handle(old)
    assert round_of(processor, 3) == []


def test_decisions_carry_the_trace_of_their_job() -> None:
    processor = placement()
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    region.feed(processor, [submitted("a", traceparent=trace)])
    [publish] = processor.end_round(Round(3, T0_US + PERIOD_US))
    assert publish.event.traceparent == trace
    assert publish.event.id == "placement/coplace.v1.PlacementDecided/a/1/3"
    assert (publish.topic, publish.event.time_us) == ("placement.decisions", T0_US + PERIOD_US)


# Random runs ------------------------------------------------------------------------------------

jobs = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.sampled_from([60.0, 120.0, 600.0]),
        st.booleans(),
        st.integers(0, 8),
        st.sampled_from(["p1", "p2"]),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=12,
)
Jobs = list[tuple[int, float, bool, int, str, int]]


def submissions(drawn: Jobs, number: int) -> list[Event]:
    return [
        submitted(
            f"job-{index}",
            T0_US + number * PERIOD_US + index,
            nodes=nodes,
            walltime_s=walltime_s,
            shareable=shareable,
            app_id=[*region.APPS, ""][app],
            reference_cluster=cluster,
        )
        for index, (nodes, walltime_s, shareable, app, cluster, arrives) in enumerate(drawn)
        if arrives == number
    ]


class Run:
    """Jobs that end three rounds after their start; nodes are counted."""

    def __init__(self) -> None:
        self.ends: dict[int, list[str]] = {}
        self.held: dict[str, PlacementDecided] = {}

    def events(self, drawn: Jobs, number: int) -> list[Event]:
        ended = self.ends.pop(number, [])
        for job_id in ended:
            del self.held[job_id]
        finishes = [finished(job_id, T0_US + number * PERIOD_US) for job_id in ended]
        return [*finishes, *submissions(drawn, number)]

    def take(self, decided: list[PlacementDecided], number: int) -> None:
        for start in decided:
            if start.verdict == VERDICT_START:
                self.held[start.job_id] = start
                self.ends.setdefault(number + 3, []).append(start.job_id)

    def check(self) -> None:
        """No core is given twice."""
        used: dict[tuple[str, int], list[PlacementDecided]] = {}
        for start in self.held.values():
            for index in start.node_indices:
                used.setdefault((start.cluster, index), []).append(start)
        for (cluster, index), starts in used.items():
            assert index < 4
            assert sum(s.cores_per_node for s in starts) <= region.CORES[cluster]


@settings(max_examples=40, deadline=None)
@given(jobs, st.sampled_from(list(Policy)), st.sets(st.integers(0, 30)))
def test_a_run_with_restarts_decides_what_a_run_without_decides(
    drawn: Jobs, policy: Policy, restarts: set[int]
) -> None:
    steady, state, run = placement(policy=policy), dict[str, bytes](), Run()
    restarted = placement(policy=policy)
    verdicts: dict[str, list[int]] = {}
    for number in range(31):
        events = run.events(drawn, number)
        decided = round_of(steady, number, *events)
        for key, value in restarted.changes().items():
            state.pop(key, None)
            state |= {} if value is None else {key: value}
        if number in restarts:
            restarted = Placement(state, Rules(policy), 7.0)
        assert round_of(restarted, number, *events) == decided
        run.take(decided, number)
        run.check()
        for one in decided:
            verdicts.setdefault(one.job_id, []).append(one.verdict)
    assert len(verdicts) == len(drawn)
    assert {tuple(v) for v in verdicts.values()} <= {
        (VERDICT_START,),
        (VERDICT_QUEUED, VERDICT_START),
    }


def test_a_round_before_any_cluster_is_declared_decides_nothing() -> None:
    assert round_of(Placement({}, Rules(), 7.0), 0) == []
