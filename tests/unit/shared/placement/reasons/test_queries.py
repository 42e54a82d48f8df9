"""Where a job stands and why, in every state that it can be in."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_USER
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER_OK,
    JOB_OUTCOME_FAILED,
)
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_CANCELLED,
    JOB_STANDING_DECIDED,
    JOB_STANDING_FINISHED,
    JOB_STANDING_HELD,
    JOB_STANDING_RESERVED,
    JOB_STANDING_RUNNING,
    JOB_STANDING_WAITING,
    ExplainResponse,
)

from shared.domain.eamc_policy import Policy
from shared.placement.candidates.candidate import Rules
from shared.placement.processor import Placement
from tests.unit.shared.placement.region import (
    T0_US,
    after,
    cancelled,
    declared,
    end_us,
    feed,
    finished,
    held,
    limits,
    lost,
    placement,
    released,
    requeued,
    returned,
    round_of,
    started,
    submitted,
)


def why(processor: Placement, job_id: str) -> ExplainResponse:
    answer = processor.queries.answer(job_id)
    assert answer is not None
    return answer


def constraints(answer: ExplainResponse) -> dict[str, str]:
    return {one.candidate.cluster: one.candidate.constraint for one in answer.clusters}


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
    answer = why(processor, "b")
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
    answer = why(processor, "c")
    assert (answer.standing, answer.reason) == (JOB_STANDING_WAITING, "p1: needs 2 nodes, 1 free")
    assert answer.reason == decided.reason
    assert not answer.HasField("reservation")
    assert [one.place for one in answer.clusters] == [2, 0]


def test_a_decided_start_says_by_when_it_must_be_confirmed() -> None:
    processor = placement(policy=Policy.BASE, start_timeout_s=300.0)
    [decided] = round_of(processor, 0, submitted("a", nodes=3))
    answer = why(processor, "a")
    assert answer.standing == JOB_STANDING_DECIDED
    found = answer.allocation
    assert (found.cluster, found.nodes, found.freq_ghz) == ("p1", 3, decided.freq_ghz)
    assert (found.since_us, found.start_by_us) == (end_us(0), decided.start_by_us)
    assert found.ends_by_us == end_us(0) + round(decided.walltime_s * 1e6)
    assert not answer.clusters


def test_a_running_job_says_where_and_until_when() -> None:
    answer = why(full(), "a")
    assert answer.standing == JOB_STANDING_RUNNING
    assert (answer.allocation.cluster, answer.allocation.start_by_us) == ("p1", 0)


def test_a_running_job_that_is_to_end_says_so() -> None:
    processor = full()
    round_of(processor, 2, cancelled("a", end_us(1), "wrong input"))
    answer = why(processor, "a")
    assert (answer.standing, answer.reason) == (JOB_STANDING_RUNNING, "cancelled: wrong input")


@pytest.mark.parametrize("completes", [True, False])
def test_a_finished_job_says_how_it_ended(completes: bool) -> None:
    processor = full()
    outcome = {} if completes else {"outcome": JOB_OUTCOME_FAILED}
    round_of(processor, 2, finished("a", end_us(1), **outcome))
    answer = why(processor, "a")
    assert answer.standing == JOB_STANDING_FINISHED
    assert answer.reason == ("completed" if completes else "ended without completing")
    assert not answer.HasField("allocation")


def test_a_cancelled_job_says_why() -> None:
    processor = full()
    round_of(processor, 2, submitted("b", nodes=4), cancelled("b", T0_US + 1, "no longer needed"))
    answer = why(processor, "b")
    assert (answer.standing, answer.reason) == (
        JOB_STANDING_CANCELLED,
        "cancelled: no longer needed",
    )


def test_a_held_job_says_who_must_act_and_has_no_place() -> None:
    processor = full()
    round_of(processor, 2, submitted("b", nodes=4), held("b", T0_US + 1, "input is missing"))
    answer = why(processor, "b")
    assert (answer.standing, answer.reason) == (JOB_STANDING_HELD, "held: input is missing")
    assert [one.place for one in answer.clusters] == [0, 0]
    assert processor.queries.arrival("b") is None


def test_a_job_over_a_limit_waits_for_its_own_jobs() -> None:
    processor = full()
    limit = limits(LIMIT_SUBJECT_USER, "ada", most_running_jobs=1)
    round_of(processor, 2, limit, submitted("b"))
    answer = why(processor, "b")
    assert answer.standing == JOB_STANDING_WAITING
    assert answer.reason == "user ada may run 1 jobs at once and runs 1"


def test_a_job_that_waits_for_another_names_it() -> None:
    processor = full()
    awaits = after(DEPENDENCY_CONDITION_AFTER_OK, "a")
    round_of(processor, 2, submitted("b", depends_on=awaits))
    answer = why(processor, "b")
    assert (answer.standing, answer.reason) == (
        JOB_STANDING_WAITING,
        "after_ok a: it has not ended",
    )


def test_a_lost_cluster_and_one_without_the_binaries_are_told_cluster_by_cluster() -> None:
    processor = placement()
    declarations = [
        declared("p1", 4, T0_US + 1, architecture="x86_64"),
        declared("p2", 4, T0_US + 1, architecture="aarch64"),
    ]
    jobs = [submitted(name, T0_US + 2, nodes=4, architectures=["x86_64"]) for name in "ab"]
    round_of(processor, 0, *declarations, *jobs)
    round_of(processor, 1, lost("p1", end_us(0), "power cut"))
    answer = why(processor, "b")
    assert constraints(answer) == {
        "p1": "lost since 2026-01-01T00:00:30Z: power cut",
        "p2": "has binaries for x86_64, the cluster's architecture is aarch64",
    }


def test_what_came_after_the_last_round_is_told_to_wait_for_its_end() -> None:
    processor = full()
    round_of(processor, 2, submitted("b", nodes=4), held("b", T0_US + 1))
    feed(processor, [submitted("c"), released("b", end_us(2)), requeued("a", end_us(2))])
    for job_id in ("a", "b", "c"):
        answer = why(processor, job_id)
        assert answer.standing == JOB_STANDING_WAITING
        assert "changed since the last round" in answer.reason
        assert processor.queries.arrival(job_id) is None


def test_a_new_attempt_of_the_reserved_job_leaves_the_others_explained() -> None:
    processor = full()
    round_of(processor, 2, submitted("b", nodes=4), submitted("c", T0_US + 1, walltime_s=9e3))
    assert "the reservation of b at" in why(processor, "c").reason
    feed(processor, [requeued("b", end_us(2))])
    assert "the reservation of a job that is gone since" in why(processor, "c").reason


def test_after_a_restart_a_waiting_job_is_told_to_wait_for_the_next_round() -> None:
    processor = full()
    round_of(processor, 2, submitted("b", nodes=4))
    state = {key: value for key, value in processor.changes().items() if value is not None}
    again = Placement(state, Rules(Policy.BASE), 7.0)
    answer = why(again, "b")
    assert answer.as_of_us == 0
    assert "placement started anew" in answer.reason
    assert why(again, "a").standing == JOB_STANDING_RUNNING
    round_of(again, 3)
    assert why(again, "b").reason == "p1: needs 4 nodes, 1 free"


def test_asking_changes_nothing() -> None:
    processor, twin = full(), full()
    for each in (processor, twin):
        round_of(each, 2, submitted("b", nodes=4), submitted("c", T0_US + 1, nodes=2))
        each.changes()
    for job_id in ("a", "b", "c"):
        why(processor, job_id)
    processor.queries.snapshot()
    assert processor.changes() == {}
    ended = finished("a", end_us(2))
    assert round_of(processor, 3, ended) == round_of(twin, 3, ended)


def test_of_a_cluster_that_returned_since_the_last_round_it_is_told_what_was_true_then() -> None:
    processor = full()
    jobs = [submitted("b", nodes=4), submitted("c", T0_US + 1, nodes=4)]
    round_of(processor, 2, lost("p1", end_us(1)), *jobs)
    feed(processor, [returned("p1", end_us(2))])
    assert constraints(why(processor, "c"))["p1"] == (
        "did not fit or was lost when the job was ranked"
    )
