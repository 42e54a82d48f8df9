"""An operator puts a job back into the queue, whatever it is doing."""

import pytest
from coplace.v1.placement_pb2 import (
    ACTION_KIND_REQUEUE,
    VERDICT_ACTION,
    VERDICT_QUEUED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)

from coplace_client.errors import RejectedError
from shared.placement.candidates.candidate import Rules
from shared.placement.processor import Placement
from shared.streams.stages.stage import AlreadyAppliedError, EarlyError
from tests.unit.shared.placement.region import (
    T0_US,
    cancelled,
    declined,
    done,
    finished,
    lost,
    placement,
    refused,
    requeue_asked,
    requeued,
    round_of,
    started,
    submitted,
    suspended,
)

S = 1_000_000
Seen = list[tuple[str, int, int]]


def seen(decided: list[PlacementDecided]) -> Seen:
    return [(one.job_id, one.attempt, one.verdict) for one in decided]


def running(**rules: float) -> tuple[Placement, PlacementDecided]:
    """A job runs on all of p1, another cluster is lost."""
    processor = placement(**rules)  # type: ignore[arg-type]
    [start] = round_of(processor, 0, lost("p2", T0_US), submitted("a", nodes=4))
    assert round_of(processor, 1, started(start)) == []
    return processor, start


def test_a_job_that_runs_is_to_be_ended_and_waits_as_its_next_attempt() -> None:
    processor, start = running()
    [asked] = round_of(processor, 2, requeue_asked("a", T0_US + 70 * S, reason="wrong library"))
    assert (asked.verdict, asked.action.kind, asked.action.number, asked.grant) == (
        VERDICT_ACTION,
        ACTION_KIND_REQUEUE,
        1,
        start.grant,
    )
    assert asked.reason == "requeue: requeued by test: wrong library"
    assert round_of(processor, 3) == []  # asked once
    ended = finished("a", T0_US + 120 * S, grant=1)
    decided = round_of(processor, 4, ended, requeued("a", T0_US + 121 * S))
    assert seen(decided) == [("a", 2, VERDICT_START)]


def test_a_requeue_that_was_asked_for_is_no_failure_of_the_job() -> None:
    processor, _ = running(most_requeues=1)
    round_of(processor, 2, requeue_asked("a", T0_US + 70 * S))
    decided = round_of(processor, 3, requeued("a", T0_US + 100 * S))
    assert seen(decided) == [("a", 2, VERDICT_START)]


def test_nothing_else_is_asked_of_a_job_that_is_to_be_put_back() -> None:
    processor, _ = running()
    both = requeue_asked("a", T0_US + 70 * S), suspended("a", T0_US + 71 * S)
    decided = round_of(processor, 2, *both)
    assert [one.action.kind for one in decided] == [ACTION_KIND_REQUEUE]


def test_where_the_resource_manager_refuses_it_is_asked_again_later() -> None:
    processor, _ = running()
    [asked] = round_of(processor, 2, requeue_asked("a", T0_US + 70 * S))
    assert round_of(processor, 3, refused(asked, T0_US + 100 * S)) == []
    [again] = [one for number in range(4, 60) for one in round_of(processor, number)][:1]
    assert (again.action.kind, again.action.number) == (ACTION_KIND_REQUEUE, 2)


def test_a_requeue_is_done_when_the_job_is_back_and_not_before() -> None:
    processor, _ = running()
    [asked] = round_of(processor, 2, requeue_asked("a", T0_US + 70 * S))
    with pytest.raises(AlreadyAppliedError):
        processor.handle(done(asked, T0_US + 100 * S))
    assert round_of(processor, 3) == []
    assert seen(round_of(processor, 4, requeued("a", T0_US + 130 * S))) == [("a", 2, VERDICT_START)]


def test_a_job_that_waits_goes_to_the_end_of_the_queue() -> None:
    processor, _ = running()
    jobs = [submitted(name, T0_US + n * S, nodes=4) for n, name in enumerate("bc", 40)]
    round_of(processor, 2, *jobs)
    decided = round_of(processor, 3, requeue_asked("b", T0_US + 100 * S))
    assert seen(decided) == [("b", 1, VERDICT_QUEUED)]
    freed = round_of(processor, 4, finished("a", T0_US + 130 * S, grant=1))
    assert seen(freed) == [("c", 1, VERDICT_START)]


def test_a_job_that_was_granted_is_asked_back_and_goes_to_the_end_of_the_queue() -> None:
    processor = placement()
    [start] = round_of(processor, 0, lost("p2", T0_US), submitted("a", nodes=4))
    round_of(processor, 1, submitted("b", T0_US + 31 * S, nodes=4))
    [asked] = round_of(processor, 2, requeue_asked("a", T0_US + 70 * S, reason="why"))
    assert (asked.verdict, asked.reason) == (VERDICT_WITHDRAWN, "requeued by test: why")
    decided = seen(round_of(processor, 3, declined(start, T0_US + 100 * S)))
    assert ("b", 1, VERDICT_START) in decided
    assert ("a", 1, VERDICT_START) not in decided


def test_a_start_that_crossed_the_request_is_ended_then() -> None:
    processor = placement()
    [start] = round_of(processor, 0, submitted("a"))
    round_of(processor, 1, requeue_asked("a", T0_US + 31 * S))
    decided = round_of(processor, 2, started(start))
    assert [one.action.kind for one in decided] == [ACTION_KIND_REQUEUE]


def test_a_copy_puts_nothing_back_again_and_neither_does_a_kill() -> None:
    processor, _ = running()
    asked = requeue_asked("b", T0_US + 90 * S)
    round_of(processor, 2, submitted("b", T0_US + 80 * S, nodes=4), asked)
    with pytest.raises(AlreadyAppliedError):
        processor.handle(asked)
    state = {key: value for key, value in processor.changes().items() if value is not None}
    again = Placement(state, Rules(), 7.0)
    with pytest.raises(AlreadyAppliedError):
        again.handle(asked)
    asked = requeue_asked("a", T0_US + 91 * S)
    round_of(processor, 3, asked)
    round_of(processor, 4, requeued("a", T0_US + 130 * S))
    with pytest.raises(AlreadyAppliedError):
        processor.handle(asked)


def test_what_ended_or_nobody_knows_is_not_put_back() -> None:
    processor, _ = running()
    with pytest.raises(EarlyError, match="never submitted"):
        processor.handle(requeue_asked("x", T0_US + 70 * S))
    processor.handle(cancelled("a", T0_US + 70 * S))
    with pytest.raises(RejectedError, match="1 cannot be put back, it is to end"):
        processor.handle(requeue_asked("a", T0_US + 71 * S))
    round_of(processor, 2, finished("a", T0_US + 80 * S, grant=1))
    with pytest.raises(RejectedError, match="1 cannot be put back, it is finished"):
        processor.handle(requeue_asked("a", T0_US + 90 * S))
