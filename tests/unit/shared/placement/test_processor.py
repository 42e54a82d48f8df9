"""Placement folds events and decides at the end of a round."""

from typing import Any

import pytest
from coplace.v1.placement_pb2 import (
    PREDICTION_BASIS_FIRST_RUN,
    PREDICTION_BASIS_SIGNATURE,
    PlacementDecided,
)

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import (
    T0_US,
    finished,
    on,
    placement,
    round_of,
    submitted,
    verdict,
    verdicts,
)

PERIOD_US = 30_000_000


@pytest.mark.parametrize(("app", "cluster", "cores"), [(0, "p1", 48), (7, "p2", 36)])
def test_a_job_starts_on_the_lowest_free_nodes_of_the_cluster_that_suits_its_application(
    app: int, cluster: str, cores: int
) -> None:
    [decided] = round_of(placement(), 0, submitted("a", nodes=2, app_id=region.APPS[app]))
    assert verdict(decided) == "start"
    assert (decided.cluster, list(decided.node_indices)) == (cluster, [0, 1])
    assert (decided.cores_per_node, decided.predicted_slowdown_ratio) == (cores, 1.0)
    assert (decided.attempt, decided.round, decided.policy) == (1, 0, "priority-inc-v")


def test_a_start_explains_what_it_did_not_take() -> None:
    [decided] = round_of(placement(), 0, submitted("a"))
    assert on(decided, "p1").constraint == ""
    assert "started on p1, which is before it" in on(decided, "p2").constraint
    assert on(decided, "p1").coefficients_version == "coefficients-platinum-8168@0"
    assert on(decided, "p1").basis == PREDICTION_BASIS_SIGNATURE


def test_a_job_behind_a_reservation_is_told_which() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=3))
    behind = submitted("c", T0_US + 1, walltime_s=7200.0)
    decided = round_of(processor, 1, submitted("b", nodes=4), behind)[1]
    assert "after the reservation of b at 2026-01-01T01:00:30Z" in decided.reason
    assert "more than its 0 extra nodes" in decided.reason


@pytest.mark.parametrize(("shareable", "longer", "cores"), [(False, 1, 48), (True, 1.25, 24)])
def test_the_limit_is_the_walltime_scaled_to_cluster_and_frequency_and_allows_for_neighbours(
    shareable: bool, longer: float, cores: int
) -> None:
    [decided] = round_of(placement(policy=Policy.BASE), 0, submitted("a", shareable=shareable))
    assert decided.walltime_s == pytest.approx(longer * 3600)
    assert on(decided, "p2").walltime_s == pytest.approx(1.2 * longer * 3600)
    assert decided.cores_per_node == cores


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
    assert verdicts(round_of(processor, 1, submitted("c", nodes=4))) == [("c", "queued")]
    assert round_of(processor, 2, finished("a", T0_US + 2 * PERIOD_US)) == []
    [decided] = round_of(processor, 3, finished("b", T0_US + 3 * PERIOD_US))
    assert (decided.job_id, verdict(decided)) == ("c", "start")


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
    chosen = on(decided, "p2")
    assert (chosen.basis, chosen.power_w) == (PREDICTION_BASIS_FIRST_RUN, 333.0)
    assert chosen.power_model_version == "power@0"
    # Seven of the eight known ones take 1.2 times as long on p2.
    assert on(decided, "p1").time_s == pytest.approx(3600 / 1.2, rel=0.02)


def test_an_application_known_on_one_cluster_is_a_first_run_on_the_other() -> None:
    processor = placement()
    known = region.signature(0, "p1").payload
    known.app_id = "half"  # type: ignore[attr-defined]
    [decided] = round_of(processor, 0, region.event("half", known), submitted("a", app_id="half"))
    bases = {c.cluster: c.basis for c in decided.candidates}
    assert bases == {"p1": PREDICTION_BASIS_SIGNATURE, "p2": PREDICTION_BASIS_FIRST_RUN}
    assert on(decided, "p2").time_s == pytest.approx(50 * 1.2, rel=0.02)


def test_a_cluster_that_is_too_small_is_weighed_and_refused() -> None:
    processor = placement(nodes=4)
    region.feed(processor, [region.declared("p2", 8, T0_US + 1)])
    [decided] = round_of(processor, 0, submitted("a", nodes=6))
    assert decided.cluster == "p2"
    assert on(decided, "p1").constraint == "needs 6 nodes, the cluster has 4"
    assert on(decided, "p1").part_eff == float("inf")


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
    processor = Placement({}, PolicySettings(), 7.0)
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
    assert (void.job_id, void.attempt, verdict(void)) == ("a", 1, "withdrawn")
    assert void.reason == "the job was requeued as attempt 2"
    assert (first.job_id, verdict(first)) == ("b", "start")
    assert (second.job_id, second.attempt, verdict(second)) == ("a", 2, "queued")
    processor.handle(finished("a", T0_US, attempt=1))
    with pytest.raises(AlreadyAppliedError):
        processor.handle(finished("a", T0_US, attempt=1))


def test_a_job_that_was_requeued_while_it_waited_stands_in_the_queue_once() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, submitted("b", nodes=1))
    round_of(processor, 2, region.requeued("b", T0_US + 2 * PERIOD_US))
    decided = round_of(processor, 3, finished("a", T0_US + 3 * PERIOD_US))
    assert [(d.job_id, d.attempt) for d in decided] == [("b", 2)]


def test_a_resource_manager_that_starts_a_job_later_or_elsewhere_is_right() -> None:
    processor = placement(policy=Policy.BASE)
    [decided] = round_of(processor, 0, submitted("a", nodes=2))
    later_us = T0_US + 2 * PERIOD_US
    names = ["p1-0002", "p1-0003"]
    event = region.started(decided, started_at_us=later_us, nodes=names)
    second, queued = round_of(processor, 1, event, submitted("b", nodes=2), submitted("c", nodes=4))
    assert list(second.node_indices) == [0, 1]
    assert queued.reservation.start_at_us == later_us + 3600 * 10**6


def test_a_job_that_ends_before_it_was_decided_gets_no_decision() -> None:
    processor = placement()
    assert round_of(processor, 0, submitted("a"), finished("a", T0_US + 1)) == []


def test_ended_jobs_are_forgotten_after_a_while() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"), finished("a", T0_US + 1))
    processor.changes()
    list(processor.end_round(Round(1, T0_US + 8 * 86_400 * 10**6)))
    assert processor.changes() == {"job|a": None, "ended|a": None}


def test_events_of_eight_days_ago_that_come_twice_start_no_job_twice() -> None:
    """How long a job is remembered counts from when it was heard that it ended."""
    processor, old_us = placement(), T0_US - 8 * 86_400 * 10**6
    old = submitted("a", old_us)
    [start] = round_of(processor, 0, old)
    assert verdict(start) == "start"
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
