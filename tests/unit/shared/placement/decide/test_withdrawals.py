"""A start ends by the word of its resource manager, or an operator seizes it; silence ends none."""

from collections.abc import Callable

import pytest
from coplace.v1.placement_pb2 import (
    PlacementDecided,
)

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement, repaired
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
    saved,
    seized,
    started,
    submitted,
    verdict,
    verdicts,
)

# Rounds last 30 s, so that a start of round 0 is overdue in round 11.
OVERDUE = 11


@pytest.mark.parametrize("start_timeout_s", [0, 300])
def test_a_start_says_until_when_it_is_to_take_place_and_is_not_asked_back_before(
    start_timeout_s: int,
) -> None:
    """Without a timeout none is, nor is one that was confirmed."""
    processor = placement(start_timeout_s=start_timeout_s)
    [decided] = round_of(processor, 0, submitted("a"))
    by_us = end_us(0) + 300 * 10**6 if start_timeout_s else 0
    assert (decided.start_by_us, decided.grant) == (by_us, 1)
    assert round_of(processor, 1, *([started(decided)] if start_timeout_s else [])) == []
    assert round_of(processor, 100) == []


def test_an_overdue_start_is_asked_back_once_and_starts_nowhere_until_it_was_declined() -> None:
    processor = placement(policy=Policy.BASE)
    [first] = round_of(processor, 0, submitted("a", nodes=3))
    [waiting] = round_of(processor, OVERDUE - 1, submitted("b", nodes=4))
    assert (verdict(waiting), waiting.reason) == ("queued", "p1: needs 4 nodes, 1 free")
    [asked] = round_of(processor, OVERDUE)
    assert verdicts([asked]) == [("a", "withdrawn")]
    assert asked.grant == first.grant
    assert processor.queries.unanswered() == 1
    assert "resource manager of p1 did not confirm the start by 2026-01-01T00:05:30Z" in (
        asked.reason
    )
    assert round_of(processor, 100 * OVERDUE) == []
    [again] = round_of(processor, 100 * OVERDUE + 1, declined(first, end_us(100 * OVERDUE)))
    assert verdicts([again]) == [("a", "start")]
    assert again.grant == 2


def test_a_job_whose_start_was_declined_waits_at_its_old_place() -> None:
    processor = placement(policy=Policy.BASE)
    [first] = round_of(processor, 0, submitted("a", nodes=3))
    round_of(processor, 1, submitted("b", nodes=3))
    decided = round_of(processor, 2, declined(first, end_us(1)))
    assert verdicts(decided) == [("a", "start")]


def test_after_three_declined_starts_the_job_is_held_until_it_is_released() -> None:
    processor = placement(policy=Policy.BASE)
    [granted] = round_of(processor, 0, submitted("a", nodes=4))
    for number in (1, 2):
        [granted] = round_of(processor, number, declined(granted, end_us(number - 1)))
    gives_back, other = declined(granted, end_us(2)), submitted("b", end_us(2), nodes=4)
    decided = round_of(processor, 3, gives_back, other)
    assert verdicts(decided) == [("b", "start"), ("a", "held")]
    assert decided[1].reason.startswith("3 starts of it were declined or not confirmed in time")
    assert round_of(processor, 4, finished("b", end_us(3))) == []
    decided = round_of(processor, 5, released("a", end_us(4)))
    assert verdicts(decided) == [("a", "start")]


def test_a_start_that_comes_after_it_was_asked_back_is_right() -> None:
    processor = placement(policy=Policy.BASE)
    [first] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, submitted("b", nodes=2))
    round_of(processor, OVERDUE)
    late = started(first, started_at_us=first.start_by_us)
    assert round_of(processor, OVERDUE + 1, late) == []
    assert round_of(processor, 5 * OVERDUE) == []
    decided = round_of(processor, 5 * OVERDUE + 1, finished("a", end_us(5 * OVERDUE)))
    assert verdicts(decided) == [("b", "start")]


def test_a_start_under_a_grant_that_was_given_back_is_void_and_told_so() -> None:
    processor = placement(policy=Policy.BASE)
    [first] = round_of(processor, 0, submitted("a", nodes=4))
    [second] = round_of(processor, 1, declined(first, end_us(0)))
    [void] = round_of(processor, 2, started(first))
    assert (verdict(void), void.grant, void.cluster) == ("withdrawn", 1, "p1")
    assert void.reason == "grant 1 was declined"
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
    assert (verdict(void), void.attempt, void.grant) == ("withdrawn", 1, 1)
    assert (void.cluster, void.reason) == ("p1", "seized by test: p1 burnt down")
    assert (verdict(again), again.attempt, again.grant) == ("start", 2, 2)
    with pytest.raises(AlreadyAppliedError):
        processor.handle(seized("a", end_us(0)))
    # The holder of the attempt before is notified once more if it starts the job all the same.
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
    assert (void.attempt, verdict(void)) == (1, "withdrawn")
    assert verdicts([other, waits]) == [("b", "start"), ("a", "queued")]
    assert waits.attempt == 2


def test_there_is_nothing_to_seize_of_a_job_that_waits() -> None:
    processor = placement()
    round_of(processor, 0, submitted("b", nodes=4), submitted("c", nodes=4))
    round_of(processor, 1, submitted("a", nodes=4))
    with pytest.raises(RejectedError, match="has no start that could be seized"):
        processor.handle(seized("a", end_us(0)))


Crossing = Callable[[PlacementDecided], Event]


@pytest.mark.parametrize(
    ("first", "late"),
    [
        (started, declined),
        (declined, lambda _: seized("a", end_us(1), grant=1)),
        (lambda _: seized("a", end_us(0)), lambda _: requeued("a", end_us(1))),
    ],
    ids=["declined, and started", "seized, and declined", "requeued, and seized"],
)
def test_what_another_word_overtook_changes_nothing(first: Crossing, late: Crossing) -> None:
    processor = placement()
    [granted] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, first(granted))
    with pytest.raises(AlreadyAppliedError):
        processor.handle(late(granted))


def test_a_run_without_a_grant_replaces_no_granted_one_and_is_told_to_end() -> None:
    processor = placement()
    [decided] = round_of(processor, 0, submitted("a", nodes=2))
    elsewhere = started(decided, cluster="p2", nodes=["p2-0002", "p2-0003"], grant=0)
    [void] = round_of(processor, 1, elsewhere)
    assert (verdict(void), void.cluster, void.grant) == ("withdrawn", "p2", 0)
    assert void.reason == "the job was granted to p1"
    assert processor.queries.late_starts() == 1
    assert round_of(processor, 2, started(decided)) == []
    [void] = round_of(processor, 3, elsewhere)
    assert void.reason == "the job runs on p1, as the resource manager there says"


def test_a_second_run_of_an_attempt_is_told_to_end_and_the_first_goes_on() -> None:
    processor = placement()
    [decided] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, started(decided))
    second = started(decided, cluster="p2", nodes=["p2-0000"])
    [void] = round_of(processor, 2, second)
    assert (verdict(void), void.cluster) == ("withdrawn", "p2")
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
    assert (asked.job_id, verdict(asked)) == ("b", "withdrawn")
    assert asked.reason == "a runs on its nodes, as the resource manager says"
    [again] = round_of(processor, 3, declined(other, end_us(2)))
    assert (again.job_id, [*again.node_indices]) == ("b", [0, 1])


def test_decisions_of_one_round_on_one_job_have_different_ids_and_survive_a_restart() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"))
    feed(processor, [seized("a", end_us(0))])
    state = saved(processor.changes())
    for one in (processor, Placement(state, PolicySettings(), 7.0)):
        published = one.end_round(Round(1, end_us(1)))
        assert [publish.event.id for publish in published] == [
            "placement/coplace.v1.PlacementDecided/a/1/1/withdrawn/1/p1",
            "placement/coplace.v1.PlacementDecided/a/2/1",
        ]


def test_a_start_that_a_wrong_clock_decided_is_asked_back_after_it_is_mended() -> None:
    ahead = 10**6
    before = placement(start_timeout_s=10.0)
    [start] = round_of(before, ahead, submitted("a"))
    state = saved(before.changes())
    changes = repaired(state, end_us(0))
    state |= saved(changes)
    assert [*changes] == ["job|a"]
    assert repaired(state, end_us(0)) == {}
    after = Placement(state, PolicySettings(Policy.PRIORITY_INC_V, start_timeout_s=10.0), 7.0)
    assert round_of(after, 0) == []
    assert [verdict(decided) for decided in round_of(after, 1)] == ["withdrawn"]
    assert start.decided_at_us == end_us(ahead)
