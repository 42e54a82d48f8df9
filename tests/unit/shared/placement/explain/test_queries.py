"""The state of a job and why, in every state that it can be in."""

from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JOB_OUTCOME_FAILED, RunInterval
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_CANCELLED,
    JOB_STANDING_DECIDED,
    JOB_STANDING_FINISHED,
    JOB_STANDING_HELD,
    JOB_STANDING_RESERVED,
    JOB_STANDING_RUNNING,
    JOB_STANDING_WAITING,
    ListJobsRequest,
)

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement.region import (
    T0_US,
    answered,
    cancelled,
    end_us,
    feed,
    finished,
    held,
    lost,
    on,
    placement,
    released,
    requeued,
    returned,
    round_of,
    saved,
    started,
    submitted,
)


def full(**rules: Any) -> Placement:
    """Of four nodes on p1, where all want to go, job a has three until 3600 s from its round."""
    processor = placement(policy=Policy.BASE, **rules)
    [decided] = round_of(processor, 0, submitted("a", nodes=3))
    round_of(processor, 1, started(decided))
    return processor


def test_an_unknown_job_has_no_answer() -> None:
    assert placement().queries.answer("nobody") is None


def test_a_blocked_job_is_told_its_reason_its_place_and_its_promised_nodes() -> None:
    processor = full()
    [decided] = round_of(processor, 2, submitted("b", nodes=4))
    answer = answered(processor, "b")
    assert (answer.standing, answer.reason) == (JOB_STANDING_RESERVED, decided.reason)
    assert answer.reservation == decided.reservation
    assert answer.as_of_us == end_us(2)
    assert [one.candidate for one in answer.clusters] == list(decided.candidates)
    p1, p2 = answer.clusters
    assert (p1.place, p1.waiting, p1.free_nodes, p1.nodes) == (1, 1, 1, 4)
    assert (p2.place, p2.waiting, p2.free_nodes, p2.nodes) == (0, 0, 4, 4)
    assert p2.candidate.constraint == "policy base: only the best cluster, p1"


def test_a_job_behind_a_reservation_waits_without_one() -> None:
    processor = full()
    round_of(processor, 2, submitted("b", nodes=4))
    [decided] = round_of(processor, 3, submitted("c", nodes=2))
    answer = answered(processor, "c")
    assert (answer.standing, answer.reason) == (JOB_STANDING_WAITING, "p1: needs 2 nodes, 1 free")
    assert answer.reason == decided.reason
    assert not answer.HasField("reservation")
    assert [one.place for one in answer.clusters] == [2, 0]


def test_a_decided_start_says_by_when_it_must_be_confirmed() -> None:
    processor = placement(policy=Policy.BASE, start_timeout_s=300.0)
    [decided] = round_of(processor, 0, submitted("a", nodes=3))
    answer = answered(processor, "a")
    assert answer.standing == JOB_STANDING_DECIDED
    found = answer.allocation
    assert (found.cluster, found.nodes, found.freq_ghz) == ("p1", 3, decided.freq_ghz)
    assert (found.since_us, found.start_by_us) == (end_us(0), decided.start_by_us)
    assert found.ends_by_us == end_us(0) + round(decided.walltime_s * 1e6)
    assert not answer.clusters


@pytest.mark.parametrize(
    ("event", "standing", "reason"),
    [
        (cancelled("a", end_us(1), "wrong input"), JOB_STANDING_RUNNING, "cancelled: wrong input"),
        (finished("a", end_us(1)), JOB_STANDING_FINISHED, "completed"),
        (
            finished("a", end_us(1), outcome=JOB_OUTCOME_FAILED),
            JOB_STANDING_FINISHED,
            "ended without completing",
        ),
        (cancelled("b", T0_US + 1, "not needed"), JOB_STANDING_CANCELLED, "cancelled: not needed"),
        (held("b", T0_US + 1, "input is missing"), JOB_STANDING_HELD, "held: input is missing"),
    ],
)
def test_a_job_says_where_it_stands_and_by_whose_word(
    event: Event, standing: int, reason: str
) -> None:
    processor = full()
    running = answered(processor, "a")
    assert (running.standing, running.allocation.cluster) == (JOB_STANDING_RUNNING, "p1")
    assert running.allocation.start_by_us == 0
    round_of(processor, 2, submitted("b", nodes=4), event)
    job_id = event.id.split("/")[1]
    answer = answered(processor, job_id)
    assert (answer.standing, answer.reason) == (standing, reason)
    assert answer.HasField("allocation") == (standing == JOB_STANDING_RUNNING)
    assert not any(one.place for one in answer.clusters)
    assert processor.queries.arrival(job_id) is None


def test_a_job_that_ended_says_on_which_nodes_how_long_and_how() -> None:
    processor = full()
    assert not answered(processor, "a").HasField("ended")
    began_us = end_us(1)
    told: dict[str, Any] = {"outcome": JOB_OUTCOME_FAILED, "ended_as": "FAILED", "exit_code": 3}
    pause = [
        RunInterval(began_at_us=began_us, freq_ghz=2.0),
        RunInterval(began_at_us=began_us + 10_000_000),
        RunInterval(began_at_us=began_us + 14_000_000, freq_ghz=2.0),
    ]
    ends_us = began_us + 20_000_000
    round_of(processor, 2, finished("a", ends_us, started_at_us=began_us, intervals=pause, **told))
    ended = answered(processor, "a").ended
    assert (ended.cluster, list(ended.nodes)) == ("p1", ["p1-[0000-0002]"])
    assert (ended.started_at_us, ended.ended_at_us, ended.suspended_s) == (began_us, ends_us, 4.0)
    assert (ended.outcome, ended.ended_as, ended.exit_code) == tuple(told.values())
    again = Placement(saved(processor.changes()), PolicySettings(Policy.BASE), 7.0)
    assert answered(again, "a").ended == ended
    round_of(processor, 3, submitted("a", end_us(2), attempt=2))
    assert not answered(processor, "a").HasField("ended")


def test_the_nodes_that_its_resource_manager_names_are_those_of_a_run() -> None:
    processor = full()
    names: dict[str, Any] = {
        "node_names": ["n1", "n2"],
        "failed_nodes": ["n2"],
        "ended_as": "NODE_FAIL",
    }
    round_of(processor, 2, finished("a", end_us(2), started_at_us=end_us(1), **names))
    ended = answered(processor, "a").ended
    assert (list(ended.nodes), list(ended.failed_nodes)) == (["n[1-2]"], ["n2"])


def test_jobs_are_listed_by_the_number_of_their_resource_manager() -> None:
    processor = full()
    array = submitted("b", T0_US + 1, nodes=1, sequence="17", array="1-2")
    round_of(processor, 2, array, submitted("c", T0_US + 2, nodes=4, sequence="18"))

    def listed(number: str, most: int = 0) -> list[str]:
        request = ListJobsRequest(number=number, most=most)
        return [job.job_id for job in processor.queries.jobs(request).jobs]

    assert (listed("18"), listed("18", most=9), listed("1")) == (["c"], ["c"], [])
    assert (listed("17"), listed("17_1")) == (["b"], ["b_1"])


def test_what_came_after_the_last_round_is_told_to_wait_for_its_end() -> None:
    processor = full()
    round_of(processor, 2, submitted("b", nodes=4), held("b", T0_US + 1))
    feed(processor, [submitted("c"), released("b", end_us(2)), requeued("a", end_us(2))])
    for job_id in ("a", "b", "c"):
        answer = answered(processor, job_id)
        assert answer.standing == JOB_STANDING_WAITING
        assert "changed since the last round" in answer.reason
        assert processor.queries.arrival(job_id) is None


def test_a_new_attempt_of_the_reserved_job_leaves_the_others_explained() -> None:
    processor = full()
    round_of(processor, 2, submitted("b", nodes=4), submitted("c", T0_US + 1, walltime_s=9e3))
    assert "the reservation of b at" in answered(processor, "c").reason
    feed(processor, [requeued("b", end_us(2))])
    assert "the reservation of a requeued or removed job" in answered(processor, "c").reason


def test_after_a_restart_a_waiting_job_is_told_to_wait_for_the_next_round() -> None:
    processor = full()
    round_of(processor, 2, submitted("b", nodes=4))
    state = saved(processor.changes())
    again = Placement(state, PolicySettings(Policy.BASE), 7.0)
    answer = answered(again, "b")
    assert answer.as_of_us == 0
    assert "placement started anew" in answer.reason
    assert answered(again, "a").standing == JOB_STANDING_RUNNING
    round_of(again, 3)
    assert answered(again, "b").reason == "p1: needs 4 nodes, 1 free"


def test_of_a_cluster_that_returned_since_the_last_round_it_is_told_what_was_true_then() -> None:
    processor = full()
    jobs = [submitted("b", nodes=4), submitted("c", T0_US + 1, nodes=4)]
    round_of(processor, 2, lost("p1", end_us(1)), *jobs)
    feed(processor, [returned("p1", end_us(2))])
    assert on(answered(processor, "c"), "p1").constraint == (
        "did not fit or was lost when the job was ranked"
    )
