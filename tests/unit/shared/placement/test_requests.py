"""What users and operators ask of a job: its end, a hold, its release, its return to the queue."""

from collections.abc import Callable
from contextlib import suppress
from itertools import permutations

import pytest
from coplace.v1.jobs_pb2 import (
    HOLDER_MANAGER,
    HOLDER_UNSPECIFIED,
    HOLDER_USER,
    JOB_OUTCOME_CANCELLED,
)
from coplace.v1.placement_pb2 import (
    ACTION_KIND_REQUEUE,
    PlacementDecided,
)
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError, EarlyError, OvertakenError
from tests.unit.shared.placement.region import (
    T0_US,
    Word,
    answered,
    cancelled,
    declined,
    done,
    end_us,
    finished,
    held,
    lost,
    placement,
    prioritized,
    refused,
    released,
    requeue_asked,
    requeued,
    round_of,
    saved,
    started,
    starts,
    submitted,
    suspended,
    verdict,
    verdicts,
)


def test_a_cancelled_job_that_waits_leaves_the_queue_with_a_final_decision() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=3))
    round_of(processor, 1, submitted("b", nodes=4), submitted("c", T0_US + 1, nodes=4))
    [final] = round_of(processor, 2, cancelled("b", end_us(1), "no longer needed"))
    assert (verdict(final), final.reason) == ("cancelled", "cancelled: no longer needed")
    assert final.cluster == ""
    with pytest.raises(AlreadyAppliedError):
        processor.handle(cancelled("b", end_us(1) + 1))
    decided = round_of(processor, 3, finished("a", end_us(2)))
    assert verdicts(decided) == [("c", "start")]


def test_a_cancelled_job_whose_start_was_decided_ends_when_its_resource_manager_declines() -> None:
    processor = placement(policy=Policy.BASE)
    [granted] = round_of(processor, 0, submitted("a", nodes=4))
    final, other = round_of(processor, 1, cancelled("a", end_us(0)), submitted("b", nodes=4))
    assert (final.job_id, verdict(final), final.cluster) == ("a", "cancelled", "p1")
    assert final.grant == granted.grant
    assert (other.job_id, verdict(other)) == ("b", "queued")
    assert round_of(processor, 100) == []
    [start] = round_of(processor, 101, declined(granted, end_us(100)))
    assert (start.job_id, verdict(start)) == ("b", "start")
    assert round_of(processor, 102) == []


def test_a_cancellation_holds_for_later_attempts_whatever_came_first() -> None:
    for when in (0, 1, 2):
        processor = placement()
        events = [finished("a", T0_US + 2), requeued("a", T0_US + 3)]
        events.insert(when, cancelled("a", T0_US + 1))
        round_of(processor, 0, submitted("a"))
        for number, one in enumerate(events, 1):
            round_of(processor, number, one)
        answer = answered(processor, "a")
        assert (answer.attempt, answer.reason) == (2, "cancelled")


@pytest.mark.parametrize("crossed", [False, True])
def test_a_cancelled_job_that_runs_is_to_end_where_it_runs_and_ends_by_its_finish(
    crossed: bool,
) -> None:
    """Where its start comes after the request, it is published once more."""
    processor = placement(policy=Policy.BASE)
    [decided] = round_of(processor, 0, submitted("a", nodes=4))
    events = [started(decided), cancelled("a", end_us(1))]
    round_of(processor, 1, events.pop(crossed), submitted("b", nodes=4))
    [final] = round_of(processor, 2, *events)
    assert (verdict(final), final.cluster, final.reason) == ("cancelled", "p1", "cancelled")
    assert round_of(processor, 3) == []
    ended = finished("a", end_us(3), outcome=JOB_OUTCOME_CANCELLED)
    assert verdicts(round_of(processor, 4, ended)) == [("b", "start")]


def test_a_held_job_keeps_its_place_and_holds_no_reservation() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=3))
    round_of(processor, 1, submitted("b", nodes=4))
    decided = round_of(processor, 2, held("b", end_us(1), "input is missing"))
    assert [(verdict(d), d.reason) for d in decided] == [("held", "held: input is missing")]
    # Longer than what b would have been promised, and yet it starts.
    behind = submitted("c", end_us(2), walltime_s=9000.0)
    assert verdicts(round_of(processor, 3, behind)) == [("c", "start")]
    gone = [finished("a", end_us(3)), finished("c", end_us(3))]
    after = [submitted("d", end_us(3), nodes=4), released("b", end_us(3) + 1)]
    decided = round_of(processor, 4, *gone, *after)
    assert verdicts(decided) == [("b", "start"), ("d", "queued")]


def test_a_job_of_a_higher_priority_goes_first_and_one_of_a_lower_last() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=4))
    waiting = [submitted(name, end_us(0) + n, nodes=4) for n, name in enumerate("bcd")]
    round_of(processor, 1, *waiting)
    asked = prioritized("d", 5, end_us(1)), prioritized("b", -5, end_us(1) + 1)
    round_of(processor, 2, *asked)
    for number, (over, follows) in enumerate((("a", "d"), ("d", "c"), ("c", "b")), 3):
        decided = round_of(processor, number, finished(over, end_us(number - 1)))
        assert [d.job_id for d in decided if verdict(d) == "start"] == [follows]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-100, 100)), max_size=12))
def test_the_newest_priority_holds_in_whatever_order_the_words_come(
    words: list[tuple[str, int]],
) -> None:
    said = [prioritized(name, value, T0_US + n) for n, (name, value) in enumerate(words, 9)]
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("z", nodes=4))
    round_of(processor, 1, *(submitted(name, T0_US + 1, nodes=4) for name in "abc"))
    for word in reversed(said):
        with suppress(AlreadyAppliedError):
            processor.handle(word)
    round_of(processor, 2)
    newest = dict.fromkeys("abc", 0) | dict(words)
    expected = sorted("abc", key=lambda name: (-newest[name], name))
    order, over = [], "z"
    for number in range(3, 6):
        decided = round_of(processor, number, finished(over, end_us(number - 1)))
        [over] = [d.job_id for d in decided if verdict(d) == "start"]
        order.append(over)
    assert order == expected


def test_a_priority_holds_over_a_restart_and_for_the_next_attempt() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("z", nodes=4))
    waiting = submitted("a", end_us(0), nodes=4), submitted("b", end_us(0) + 1, nodes=4)
    round_of(processor, 1, *waiting, prioritized("b", 7, end_us(0) + 2))
    restored = Placement(saved({}, processor.changes()), PolicySettings(Policy.BASE), 7.0)
    with pytest.raises(AlreadyAppliedError):
        restored.handle(prioritized("b", -9, end_us(0) + 1))
    round_of(restored, 2, requeued("b", end_us(1)))
    decided = round_of(restored, 3, finished("z", end_us(2)))
    assert verdicts(decided)[0] == ("b", "start")


def test_a_release_that_starts_nothing_says_what_the_job_waits_for_now() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=3))
    first = round_of(processor, 1, submitted("b", nodes=4), held("b", T0_US + 1))
    assert verdicts(first) == [("b", "held")]
    [queued] = round_of(processor, 2, released("b", end_us(1)))
    assert (verdict(queued), queued.reason) == ("queued", "p1: needs 4 nodes, 1 free")


def test_a_hold_asks_a_start_back_and_what_is_released_starts_only_when_that_was_answered() -> None:
    processor = placement()
    [granted] = round_of(processor, 0, submitted("a"))
    assert verdicts(round_of(processor, 1, held("a", end_us(0)))) == [("a", "withdrawn")]
    assert round_of(processor, 2, released("a", end_us(1))) == []
    [again] = round_of(processor, 3, declined(granted, end_us(2)))
    assert (verdict(again), again.grant) == ("start", 2)


@pytest.mark.parametrize("first", [started, lambda _: finished("a", T0_US + 1)])
def test_a_hold_of_a_job_that_runs_or_has_ended_holds_its_next_attempt(
    first: Callable[[PlacementDecided], Event],
) -> None:
    processor = placement()
    [decided] = round_of(processor, 0, submitted("a"))
    assert round_of(processor, 1, first(decided), held("a", end_us(0))) == []
    [second] = round_of(processor, 2, requeued("a", end_us(1)))
    assert (second.attempt, verdict(second)) == (2, "held")


@pytest.mark.parametrize("late", [held("a", T0_US + 5), released("a", T0_US + 7)])
def test_a_copy_of_an_older_request_changes_nothing(late: Event) -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"), held("a", T0_US + 5), released("a", T0_US + 7))
    processor.changes()
    with pytest.raises(AlreadyAppliedError):
        processor.handle(late)
    assert processor.changes() == {}


def test_a_release_by_its_user_leaves_what_an_operator_holds() -> None:
    processor = placement()
    by_ada = [held("a", T0_US + 2, "ada waits", HOLDER_USER), released("a", T0_US + 3, HOLDER_USER)]
    [found] = round_of(processor, 0, submitted("a"), held("a", T0_US + 1, "audit"), *by_ada)
    assert (verdict(found), found.reason) == ("held", "held: audit")
    assert verdicts(round_of(processor, 1, released("a", end_us(0)))) == [("a", "start")]


def test_a_job_starts_once_all_have_released_it_in_whichever_order() -> None:
    holders = HOLDER_USER, HOLDER_MANAGER
    for order in permutations(holders):
        processor = placement()
        holds = [held("a", T0_US + each, f"by {each}", each) for each in holders]
        [found] = round_of(processor, 0, submitted("a"), *holds)
        assert found.reason == "held: by 1; by 2"
        [found] = round_of(processor, 1, released("a", end_us(0), order[0]))
        assert found.reason == f"held: by {order[1]}"
        [found] = round_of(processor, 2, released("a", end_us(1), order[1]))
        assert verdict(found) == "start"


def test_what_a_user_says_is_not_older_than_what_an_operator_said_since() -> None:
    processor = placement()
    by_user = held("a", T0_US + 1, "ada waits", HOLDER_USER)
    round_of(processor, 0, submitted("a"), by_user, held("a", T0_US + 9, "audit"))
    [found] = round_of(processor, 1, released("a", T0_US + 5, HOLDER_USER))
    assert found.reason == "held: audit"
    with pytest.raises(OvertakenError):
        processor.handle(released("a", T0_US + 8))


def test_what_a_job_was_submitted_held_for_is_lifted_by_its_holder_alone() -> None:
    for held_by, holder, other in (
        (HOLDER_USER, HOLDER_USER, HOLDER_MANAGER),
        (HOLDER_UNSPECIFIED, HOLDER_MANAGER, HOLDER_USER),
    ):
        processor = placement()
        came = submitted("a", held_because="by hand", held_by=held_by)
        assert verdicts(round_of(processor, 0, came)) == [("a", "held")]
        assert round_of(processor, 1, released("a", end_us(0), other)) == []
        then = round_of(processor, 2, released("a", end_us(1), holder))
        assert verdicts(then) == [("a", "start")]


def test_a_task_is_held_by_all_who_hold_its_array_or_it() -> None:
    processor = placement()
    array = submitted("a", nodes=1, array="0-1"), held("a", T0_US + 1, "audit")
    round_of(processor, 0, *array, held("a_1", T0_US + 2, "ada waits", HOLDER_USER))
    round_of(processor, 1, released("a_1", end_us(0), HOLDER_USER))
    assert not round_of(processor, 2, released("a", end_us(1), HOLDER_USER))
    assert len(verdicts(round_of(processor, 3, released("a", end_us(2))))) == 2


@pytest.mark.parametrize("request_", [cancelled("a", T0_US), held("a", T0_US), released("a", 1)])
def test_who_asks_something_of_an_unknown_job_is_told_so(request_: Event) -> None:
    with pytest.raises(RejectedError, match="never submitted"):
        placement().handle(request_)


S = 1_000_000
Seen = list[tuple[str, int, Word]]


def seen(decided: list[PlacementDecided]) -> Seen:
    return [(one.job_id, one.attempt, verdict(one)) for one in decided]


def running(**rules: float) -> tuple[Placement, PlacementDecided]:
    """A job runs on all of p1, another cluster is lost."""
    processor = placement(**rules)  # type: ignore[arg-type]
    [start] = round_of(processor, 0, lost("p2", T0_US), submitted("a", nodes=4))
    assert round_of(processor, 1, started(start)) == []
    return processor, start


def test_a_job_that_runs_is_to_be_ended_and_waits_as_its_next_attempt() -> None:
    processor, start = running()
    [asked] = round_of(processor, 2, requeue_asked("a", T0_US + 70 * S, reason="wrong library"))
    assert (verdict(asked), asked.action.kind, asked.action.number, asked.grant) == (
        "action",
        ACTION_KIND_REQUEUE,
        1,
        start.grant,
    )
    assert asked.reason == "requeue: requeued by test: wrong library"
    assert round_of(processor, 3) == []  # asked once
    ended = finished("a", T0_US + 120 * S, grant=1)
    decided = round_of(processor, 4, ended, requeued("a", T0_US + 121 * S))
    assert seen(decided) == [("a", 2, "start")]


def test_a_requeue_that_was_asked_for_is_no_failure_of_the_job() -> None:
    processor, _ = running(most_requeues=1)
    round_of(processor, 2, requeue_asked("a", T0_US + 70 * S))
    decided = round_of(processor, 3, requeued("a", T0_US + 100 * S))
    assert seen(decided) == [("a", 2, "start")]


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
    assert seen(round_of(processor, 4, requeued("a", T0_US + 130 * S))) == [("a", 2, "start")]


def test_a_job_that_waits_goes_to_the_end_of_the_queue() -> None:
    processor, _ = running()
    jobs = [submitted(name, T0_US + n * S, nodes=4) for n, name in enumerate("bc", 40)]
    round_of(processor, 2, *jobs)
    decided = round_of(processor, 3, requeue_asked("b", T0_US + 100 * S))
    assert seen(decided) == [("b", 1, "queued")]
    freed = round_of(processor, 4, finished("a", T0_US + 130 * S, grant=1))
    assert seen(freed) == [("c", 1, "start")]


def test_a_job_that_was_granted_is_asked_back_and_goes_to_the_end_of_the_queue() -> None:
    """Where its start has crossed the request, it is ended then."""
    for is_declined in (True, False):
        processor = placement()
        [start] = round_of(processor, 0, lost("p2", T0_US), submitted("a", nodes=4))
        round_of(processor, 1, submitted("b", T0_US + 31 * S, nodes=4))
        [asked] = round_of(processor, 2, requeue_asked("a", T0_US + 70 * S, reason="why"))
        assert (verdict(asked), asked.reason) == ("withdrawn", "requeued by test: why")
        answer = declined(start, T0_US + 100 * S) if is_declined else started(start)
        decided = round_of(processor, 3, answer)
        if is_declined:
            assert starts(decided) == ["b"]
        else:
            assert [one.action.kind for one in decided] == [ACTION_KIND_REQUEUE]


def test_a_copy_puts_nothing_back_again_and_neither_does_a_kill() -> None:
    processor, _ = running()
    asked = requeue_asked("b", T0_US + 90 * S)
    round_of(processor, 2, submitted("b", T0_US + 80 * S, nodes=4), asked)
    with pytest.raises(AlreadyAppliedError):
        processor.handle(asked)
    state = saved(processor.changes())
    again = Placement(state, PolicySettings(), 7.0)
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
    with pytest.raises(RejectedError, match="1 cannot be requeued, it is to end"):
        processor.handle(requeue_asked("a", T0_US + 71 * S))
    round_of(processor, 2, finished("a", T0_US + 80 * S, grant=1))
    with pytest.raises(RejectedError, match="1 cannot be requeued, it is finished"):
        processor.handle(requeue_asked("a", T0_US + 90 * S))
