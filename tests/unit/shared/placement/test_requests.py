"""What users and operators ask of a job: its end, a hold, its release."""

import pytest
from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED
from coplace.v1.placement_pb2 import (
    VERDICT_CANCELLED,
    VERDICT_HELD,
    VERDICT_QUEUED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement.region import (
    T0_US,
    cancelled,
    declined,
    end_us,
    finished,
    held,
    placement,
    released,
    requeued,
    round_of,
    started,
    submitted,
)


def verdicts(decided: list[PlacementDecided]) -> list[tuple[str, int]]:
    return [(d.job_id, d.verdict) for d in decided]


def test_a_cancelled_job_that_waits_leaves_the_queue_with_a_final_decision() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=3))
    round_of(processor, 1, submitted("b", nodes=4), submitted("c", T0_US + 1, nodes=4))
    [final] = round_of(processor, 2, cancelled("b", end_us(1), "no longer needed"))
    assert (final.verdict, final.reason) == (VERDICT_CANCELLED, "cancelled: no longer needed")
    assert final.cluster == ""
    decided = round_of(processor, 3, finished("a", end_us(2)))
    assert verdicts(decided) == [("c", VERDICT_START)]


def test_a_cancelled_job_whose_start_was_decided_ends_when_its_resource_manager_declines() -> None:
    processor = placement(policy=Policy.BASE)
    [granted] = round_of(processor, 0, submitted("a", nodes=4))
    final, other = round_of(processor, 1, cancelled("a", end_us(0)), submitted("b", nodes=4))
    assert (final.job_id, final.verdict, final.cluster) == ("a", VERDICT_CANCELLED, "p1")
    assert final.grant == granted.grant
    assert (other.job_id, other.verdict) == ("b", VERDICT_QUEUED)
    assert round_of(processor, 100) == []
    [start] = round_of(processor, 101, declined(granted, end_us(100)))
    assert (start.job_id, start.verdict) == ("b", VERDICT_START)
    assert round_of(processor, 102) == []


def test_a_cancellation_that_crossed_a_start_is_told_once_more_where_the_job_runs() -> None:
    processor = placement(policy=Policy.BASE)
    [granted] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, cancelled("a", end_us(0)))
    [final] = round_of(processor, 2, started(granted))
    assert (final.verdict, final.cluster) == (VERDICT_CANCELLED, "p1")
    assert round_of(processor, 3, finished("a", end_us(2))) == []


def test_a_cancellation_holds_for_later_attempts_whatever_came_first() -> None:
    for when in (0, 1, 2):
        processor = placement()
        events = [finished("a", T0_US + 2), requeued("a", T0_US + 3)]
        events.insert(when, cancelled("a", T0_US + 1))
        round_of(processor, 0, submitted("a"))
        for number, one in enumerate(events, 1):
            round_of(processor, number, one)
        answer = processor.queries.answer("a")
        assert answer is not None
        assert (answer.attempt, answer.reason) == (2, "cancelled")


def test_a_cancelled_job_that_runs_is_to_end_where_it_runs_and_ends_by_its_finish() -> None:
    processor = placement(policy=Policy.BASE)
    [decided] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, started(decided), submitted("b", nodes=4))
    [final] = round_of(processor, 2, cancelled("a", end_us(1)))
    assert (final.verdict, final.cluster, final.reason) == (VERDICT_CANCELLED, "p1", "cancelled")
    assert round_of(processor, 3) == []
    ended = finished("a", end_us(3), outcome=JOB_OUTCOME_CANCELLED)
    assert verdicts(round_of(processor, 4, ended)) == [("b", VERDICT_START)]


def test_a_resource_manager_that_starts_a_cancelled_job_is_told_once_more_to_end_it() -> None:
    processor = placement(policy=Policy.BASE)
    [decided] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, cancelled("a", end_us(0)))
    final, waiting = round_of(processor, 2, started(decided), submitted("b", nodes=4))[::-1]
    assert (final.job_id, final.verdict) == ("b", VERDICT_QUEUED)
    assert (waiting.job_id, waiting.verdict, waiting.cluster) == ("a", VERDICT_CANCELLED, "p1")


def test_a_held_job_keeps_its_place_and_holds_no_reservation() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=3))
    round_of(processor, 1, submitted("b", nodes=4))
    decided = round_of(processor, 2, held("b", end_us(1), "input is missing"))
    assert [(d.verdict, d.reason) for d in decided] == [(VERDICT_HELD, "held: input is missing")]
    # Longer than what b would have been promised, and yet it starts.
    behind = submitted("c", end_us(2), walltime_s=9000.0)
    assert verdicts(round_of(processor, 3, behind)) == [("c", VERDICT_START)]
    gone = [finished("a", end_us(3)), finished("c", end_us(3))]
    after = [submitted("d", end_us(3), nodes=4), released("b", end_us(3) + 1)]
    decided = round_of(processor, 4, *gone, *after)
    assert verdicts(decided) == [("b", VERDICT_START), ("d", VERDICT_QUEUED)]


def test_a_release_that_starts_nothing_says_what_the_job_waits_for_now() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=3))
    first = round_of(processor, 1, submitted("b", nodes=4), held("b", T0_US + 1))
    assert verdicts(first) == [("b", VERDICT_HELD)]
    [queued] = round_of(processor, 2, released("b", end_us(1)))
    assert (queued.verdict, queued.reason) == (VERDICT_QUEUED, "p1: needs 4 nodes, 1 free")


def test_a_hold_asks_a_start_back_and_what_is_released_starts_only_when_that_was_answered() -> None:
    processor = placement()
    [granted] = round_of(processor, 0, submitted("a"))
    assert verdicts(round_of(processor, 1, held("a", end_us(0)))) == [("a", VERDICT_WITHDRAWN)]
    assert round_of(processor, 2, released("a", end_us(1))) == []
    [again] = round_of(processor, 3, declined(granted, end_us(2)))
    assert (again.verdict, again.grant) == (VERDICT_START, 2)


def test_a_held_job_is_held_when_its_start_was_declined() -> None:
    processor = placement()
    [granted] = round_of(processor, 0, submitted("a"))
    round_of(processor, 1, held("a", end_us(0)))
    assert verdicts(round_of(processor, 2, declined(granted, end_us(1)))) == [("a", VERDICT_HELD)]


def test_a_hold_of_a_job_that_runs_holds_its_next_attempt() -> None:
    processor = placement()
    [decided] = round_of(processor, 0, submitted("a"))
    assert round_of(processor, 1, started(decided), held("a", end_us(0))) == []
    [second] = round_of(processor, 2, requeued("a", end_us(1)))
    assert (second.attempt, second.verdict) == (2, VERDICT_HELD)


@pytest.mark.parametrize("late", [held("a", T0_US + 5), released("a", T0_US + 7)])
def test_a_copy_of_an_older_request_changes_nothing(late: Event) -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"), held("a", T0_US + 5), released("a", T0_US + 7))
    processor.changes()
    with pytest.raises(AlreadyAppliedError):
        processor.handle(late)
    assert processor.changes() == {}


@pytest.mark.parametrize("request_", [cancelled("a", T0_US), held("a", T0_US), released("a", 1)])
def test_who_asks_something_of_an_unknown_job_is_told_so(request_: Event) -> None:
    with pytest.raises(RejectedError, match="never submitted"):
        placement().handle(request_)


def test_what_is_asked_of_a_job_that_has_ended_is_asked_of_its_next_attempt() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"), finished("a", T0_US + 1))
    assert round_of(processor, 1, held("a", end_us(0))) == []
    [second] = round_of(processor, 2, requeued("a", end_us(1)))
    assert (second.attempt, second.verdict) == (2, VERDICT_HELD)
