"""A start ends by the word of its resource manager, or an operator seizes it; silence ends none."""

import pytest
from coplace.v1.placement_pb2 import (
    VERDICT_HELD,
    VERDICT_QUEUED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)

from coplace_client.errors import RejectedError
from shared.domain.eamc_policy import Policy
from shared.placement.candidates.candidate import Rules
from shared.placement.jobs.mending import mended
from shared.placement.processor import Placement
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.shared.placement.region import (
    declined,
    end_us,
    feed,
    finished,
    placement,
    released,
    requeued,
    round_of,
    seized,
    started,
    submitted,
)

# Rounds last 30 s, so that a start of round 0 is overdue in round 11.
OVERDUE = 11


def verdicts(decided: list[PlacementDecided]) -> list[tuple[str, int, str]]:
    return [(d.job_id, d.verdict, d.cluster) for d in decided]


def restarted(processor: Placement, state: dict[str, bytes], rules: Rules) -> Placement:
    """Another process with what the changelog holds."""
    for key, value in processor.changes().items():
        state.pop(key, None)
        state |= {} if value is None else {key: value}
    return Placement(dict(state), rules, 7.0)


def test_a_start_says_until_when_it_is_to_take_place_and_starts_are_numbered() -> None:
    [decided] = round_of(placement(), 0, submitted("a"))
    assert (decided.start_by_us, decided.grant) == (end_us(0) + 300 * 10**6, 1)
    [decided] = round_of(placement(start_timeout_s=0), 0, submitted("a"))
    assert decided.start_by_us == 0


def test_an_overdue_start_is_asked_back_once_and_starts_nowhere_until_it_was_declined() -> None:
    processor = placement(policy=Policy.BASE)
    [first] = round_of(processor, 0, submitted("a", nodes=3))
    [waiting] = round_of(processor, OVERDUE - 1, submitted("b", nodes=4))
    assert (waiting.verdict, waiting.reason) == (VERDICT_QUEUED, "p1: needs 4 nodes, 1 free")
    [asked] = round_of(processor, OVERDUE)
    assert verdicts([asked]) == [("a", VERDICT_WITHDRAWN, "p1")]
    assert asked.grant == first.grant
    assert "resource manager of p1 did not confirm the start by 2026-01-01T00:05:30Z" in (
        asked.reason
    )
    assert round_of(processor, 100 * OVERDUE) == []
    [again] = round_of(processor, 100 * OVERDUE + 1, declined(first, end_us(100 * OVERDUE)))
    assert verdicts([again]) == [("a", VERDICT_START, "p1")]
    assert again.grant == 2


def test_a_confirmed_start_is_not_asked_back_and_without_a_timeout_none_is() -> None:
    confirmed, patient = placement(), placement(start_timeout_s=0)
    for processor in (confirmed, patient):
        [decided] = round_of(processor, 0, submitted("a"))
        round_of(processor, 1, *([started(decided)] if processor is confirmed else []))
        assert round_of(processor, 100) == []


def test_a_job_whose_start_was_declined_waits_at_its_old_place() -> None:
    processor = placement(policy=Policy.BASE)
    [first] = round_of(processor, 0, submitted("a", nodes=3))
    round_of(processor, 1, submitted("b", nodes=3))
    decided = round_of(processor, 2, declined(first, end_us(1)))
    assert verdicts(decided) == [("a", VERDICT_START, "p1")]


def test_after_three_declined_starts_the_job_is_held_until_it_is_released() -> None:
    processor = placement(policy=Policy.BASE)
    [granted] = round_of(processor, 0, submitted("a", nodes=4))
    for number in (1, 2):
        [granted] = round_of(processor, number, declined(granted, end_us(number - 1)))
    gives_back, other = declined(granted, end_us(2)), submitted("b", end_us(2), nodes=4)
    decided = round_of(processor, 3, gives_back, other)
    assert verdicts(decided) == [("b", VERDICT_START, "p1"), ("a", VERDICT_HELD, "")]
    assert decided[1].reason.startswith("3 starts of it were declined or not confirmed in time")
    assert round_of(processor, 4, finished("b", end_us(3))) == []
    decided = round_of(processor, 5, released("a", end_us(4)))
    assert verdicts(decided) == [("a", VERDICT_START, "p1")]


def test_a_start_that_comes_after_it_was_asked_back_is_right() -> None:
    processor = placement(policy=Policy.BASE)
    [first] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, submitted("b", nodes=2))
    round_of(processor, OVERDUE)
    late = started(first, started_at_us=first.start_by_us)
    assert round_of(processor, OVERDUE + 1, late) == []
    assert round_of(processor, 5 * OVERDUE) == []
    decided = round_of(processor, 5 * OVERDUE + 1, finished("a", end_us(5 * OVERDUE)))
    assert verdicts(decided) == [("b", VERDICT_START, "p1")]


def test_a_decline_that_crossed_the_start_changes_nothing() -> None:
    processor = placement()
    [granted] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, started(granted))
    with pytest.raises(AlreadyAppliedError):
        processor.handle(declined(granted))


def test_a_start_under_a_grant_that_was_given_back_is_void_and_told_so() -> None:
    processor = placement(policy=Policy.BASE)
    [first] = round_of(processor, 0, submitted("a", nodes=4))
    [second] = round_of(processor, 1, declined(first, end_us(0)))
    [void] = round_of(processor, 2, started(first))
    assert (void.verdict, void.grant, void.cluster) == (VERDICT_WITHDRAWN, 1, "p1")
    assert void.reason == "grant 1 was given back: the newest is 2"
    assert round_of(processor, 3, started(second)) == []
    assert processor.queries.late_starts() == 1


@pytest.mark.parametrize("tells", [started, declined])
def test_a_grant_that_was_never_given_is_refused(tells: type) -> None:
    processor = placement()
    [granted] = round_of(processor, 0, submitted("a"))
    granted.grant = 7
    with pytest.raises(RejectedError, match="7 was never given, the newest of the job is 1"):
        processor.handle(tells(granted))


def test_an_operator_seizes_what_nobody_answers_for_and_the_next_attempt_starts_elsewhere() -> None:
    processor = placement()
    [granted] = round_of(processor, 0, submitted("a", nodes=4))
    void, again = round_of(processor, 1, seized("a", end_us(0)))
    assert (void.verdict, void.attempt, void.grant) == (VERDICT_WITHDRAWN, 1, 1)
    assert (void.cluster, void.reason) == ("p1", "seized by test: p1 burnt down")
    assert (again.verdict, again.attempt, again.grant) == (VERDICT_START, 2, 2)
    with pytest.raises(AlreadyAppliedError):
        processor.handle(seized("a", end_us(0)))
    # Who was given the attempt before is told once more if it starts the job all the same.
    [late] = round_of(processor, 2, started(granted))
    assert (late.attempt, late.grant, late.cluster) == (1, 1, "p1")
    assert round_of(processor, 3, finished("a", end_us(2), attempt=1)) == []
    with pytest.raises(AlreadyAppliedError):
        processor.handle(started(granted))
    assert round_of(processor, 4, started(again)) == []


def test_what_runs_can_be_seized_as_well() -> None:
    processor = placement(policy=Policy.BASE)
    [granted] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, started(granted), submitted("b", end_us(0), nodes=4))
    void, other, waits = round_of(processor, 2, seized("a", end_us(1), grant=1))
    assert (void.attempt, void.verdict) == (1, VERDICT_WITHDRAWN)
    assert verdicts([other, waits]) == [("b", VERDICT_START, "p1"), ("a", VERDICT_QUEUED, "")]
    assert waits.attempt == 2


def test_there_is_nothing_to_seize_of_a_job_that_waits_and_an_older_grant_is_a_copy() -> None:
    processor = placement()
    round_of(processor, 0, submitted("b", nodes=4), submitted("c", nodes=4))
    [waits] = round_of(processor, 1, submitted("a", nodes=4))
    assert waits.verdict == VERDICT_QUEUED
    with pytest.raises(RejectedError, match="has no start that could be seized"):
        processor.handle(seized("a", end_us(0)))
    processor = placement()
    [granted] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, declined(granted, end_us(0)))
    with pytest.raises(AlreadyAppliedError):
        processor.handle(seized("a", end_us(1), grant=1))


def test_a_requeue_of_what_was_seized_is_a_copy_of_it() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"))
    round_of(processor, 1, seized("a", end_us(0)))
    with pytest.raises(AlreadyAppliedError):
        processor.handle(requeued("a", end_us(1)))


def test_what_was_asked_back_and_seized_is_remembered_over_restarts() -> None:
    rules, state = Rules(Policy.BASE), dict[str, bytes]()
    processor = placement(policy=Policy.BASE)
    [granted] = round_of(processor, 0, submitted("a", nodes=4))
    assert len(round_of(processor, OVERDUE)) == 1
    processor = restarted(processor, state, rules)
    assert round_of(processor, OVERDUE + 1) == []
    assert processor.queries.unanswered() == 1
    round_of(processor, OVERDUE + 2, seized("a", end_us(OVERDUE + 1)))
    processor = restarted(processor, state, rules)
    [void] = round_of(processor, OVERDUE + 3, started(granted))
    assert (void.attempt, void.verdict) == (1, VERDICT_WITHDRAWN)


def test_a_job_that_runs_elsewhere_than_decided_is_told_to_where_it_shall_not_start() -> None:
    processor = placement()
    [decided] = round_of(processor, 0, submitted("a", nodes=2))
    elsewhere = started(decided, cluster="p2", nodes=["p2-0002", "p2-0003"], grant=0)
    [void] = round_of(processor, 1, elsewhere, submitted("b", nodes=4))[:1]
    assert (void.verdict, void.cluster, void.grant) == (VERDICT_WITHDRAWN, "p1", 1)
    assert void.reason == "the job runs on p2, as the resource manager there says"
    assert round_of(processor, 2 * OVERDUE, started(decided))[:1] != []


def test_a_start_that_is_void_is_told_once_whenever_the_process_is_killed() -> None:
    processor, state = placement(), dict[str, bytes]()
    [decided] = round_of(processor, 0, submitted("a", nodes=2))
    feed(processor, [started(decided, cluster="p2", nodes=["p2-0002", "p2-0003"])])
    counts = []
    for number in (1, 2):
        processor = restarted(processor, state, Rules())
        counts.append(len(round_of(processor, number)))
    assert counts == [1, 0]


def test_a_second_run_of_an_attempt_is_told_to_end_and_the_first_goes_on() -> None:
    processor = placement()
    [decided] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, started(decided))
    second = started(decided, cluster="p2", nodes=["p2-0000"])
    [void] = round_of(processor, 2, second)
    assert (void.verdict, void.cluster) == (VERDICT_WITHDRAWN, "p2")
    with pytest.raises(AlreadyAppliedError):
        processor.handle(started(decided))
    [other] = round_of(processor, 3, submitted("b", nodes=4, architectures=[]))
    assert other.cluster == "p2"


def test_a_start_on_nodes_that_another_job_runs_on_is_asked_back_and_then_placed_anew() -> None:
    processor = placement(policy=Policy.BASE)
    [decided] = round_of(processor, 0, submitted("a", nodes=2))
    [other] = round_of(processor, 1, submitted("b", nodes=2))
    assert [*other.node_indices] == [2, 3]
    moved = started(decided, nodes=["p1-0002", "p1-0003"])
    [asked] = round_of(processor, 2, moved)
    assert (asked.job_id, asked.verdict) == ("b", VERDICT_WITHDRAWN)
    assert asked.reason == "a runs on its nodes, as the resource manager says"
    [again] = round_of(processor, 3, declined(other, end_us(2)))
    assert (again.job_id, [*again.node_indices]) == ("b", [0, 1])


def test_decisions_of_one_round_on_one_job_have_different_ids_and_survive_a_restart() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"))
    feed(processor, [seized("a", end_us(0))])
    state = {key: value for key, value in processor.changes().items() if value is not None}
    for one in (processor, Placement(state, Rules(), 7.0)):
        published = one.end_round(Round(1, end_us(1)))
        assert [publish.event.id for publish in published] == [
            "placement/coplace.v1.PlacementDecided/a/1/1/withdrawn/1/p1",
            "placement/coplace.v1.PlacementDecided/a/2/1",
        ]


def test_a_start_that_a_wrong_clock_decided_is_asked_back_after_it_is_mended() -> None:
    ahead = 10**6
    before = placement(start_timeout_s=10.0)
    [start] = round_of(before, ahead, submitted("a"))
    state = {key: value for key, value in before.changes().items() if value is not None}
    changes = mended(state, end_us(0))
    state |= {key: value for key, value in changes.items() if value is not None}
    assert [*changes] == ["job/a"]
    assert mended(state, end_us(0)) == {}
    after = Placement(state, Rules(Policy.PRIORITY_INC_V, start_timeout_s=10.0), 7.0)
    assert round_of(after, 0) == []
    assert [decided.verdict for decided in round_of(after, 1)] == [VERDICT_WITHDRAWN]
    assert start.decided_at_us == end_us(ahead)
