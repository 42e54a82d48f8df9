"""A start that is not confirmed is taken back; what a resource manager says is right."""

import pytest
from coplace.v1.placement_pb2 import (
    VERDICT_HELD,
    VERDICT_QUEUED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)

from services.placement.model import Rules
from services.placement.processor import Placement
from shared.messaging.stage import AlreadyAppliedError, Round
from shared.policies.ranking import Policy
from tests.unit.services.placement.region import (
    end_us,
    feed,
    finished,
    placement,
    released,
    round_of,
    started,
    submitted,
)

# Rounds last 30 s, so that a start of round 0 is overdue in round 11.
OVERDUE = 11


def verdicts(decided: list[PlacementDecided]) -> list[tuple[str, int, str]]:
    return [(d.job_id, d.verdict, d.cluster) for d in decided]


def test_a_start_says_until_when_it_may_take_place() -> None:
    [decided] = round_of(placement(), 0, submitted("a"))
    assert decided.start_by_us == end_us(0) + 300 * 10**6
    [decided] = round_of(placement(start_timeout_s=0), 0, submitted("a"))
    assert decided.start_by_us == 0


def test_nodes_stay_reserved_until_a_start_is_overdue_and_then_the_job_starts_anew() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=3))
    [waiting] = round_of(processor, OVERDUE - 1, submitted("b", nodes=4))
    assert (waiting.verdict, waiting.reason) == (VERDICT_QUEUED, "p1: needs 4 nodes, 1 free")
    withdrawn, again = round_of(processor, OVERDUE)
    assert verdicts([withdrawn, again]) == [
        ("a", VERDICT_WITHDRAWN, "p1"),
        ("a", VERDICT_START, "p1"),
    ]
    assert "resource manager of p1 did not confirm the start by 2026-01-01T00:05:30Z" in (
        withdrawn.reason
    )


def test_a_confirmed_start_is_not_taken_back_and_without_a_timeout_none_is() -> None:
    confirmed, patient = placement(), placement(start_timeout_s=0)
    for processor in (confirmed, patient):
        [decided] = round_of(processor, 0, submitted("a"))
        round_of(processor, 1, *([started(decided)] if processor is confirmed else []))
        assert round_of(processor, 100) == []


def test_a_job_that_is_withdrawn_waits_at_its_old_place() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=3))
    round_of(processor, 1, submitted("b", nodes=3))
    decided = round_of(processor, OVERDUE)
    assert verdicts(decided) == [("a", VERDICT_WITHDRAWN, "p1"), ("a", VERDICT_START, "p1")]


def test_after_three_missed_starts_the_job_is_held_until_it_is_released() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, OVERDUE)
    round_of(processor, 2 * OVERDUE)
    decided = round_of(processor, 3 * OVERDUE, submitted("b", nodes=4))
    assert verdicts(decided) == [
        ("a", VERDICT_WITHDRAWN, "p1"),
        ("b", VERDICT_START, "p1"),
        ("a", VERDICT_HELD, ""),
    ]
    assert decided[2].reason.startswith("3 starts of it were not confirmed in time: release it")
    assert round_of(processor, 3 * OVERDUE + 1, finished("b", end_us(3 * OVERDUE))) == []
    at_us = end_us(3 * OVERDUE + 1) + 1
    decided = round_of(processor, 3 * OVERDUE + 2, released("a", at_us))
    assert verdicts(decided) == [("a", VERDICT_START, "p1")]


def test_a_start_that_comes_late_is_right_and_the_job_is_not_started_twice() -> None:
    processor = placement(policy=Policy.BASE)
    [first] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, submitted("b", nodes=2))
    round_of(processor, OVERDUE)
    late = started(first, started_at_us=first.start_by_us)
    assert round_of(processor, OVERDUE + 1, late) == []
    assert round_of(processor, 5 * OVERDUE) == []
    decided = round_of(processor, 5 * OVERDUE + 1, finished("a", end_us(5 * OVERDUE)))
    assert verdicts(decided) == [("b", VERDICT_START, "p1")]


def test_a_job_that_runs_elsewhere_than_decided_is_told_to_where_it_shall_not_start() -> None:
    processor = placement()
    [decided] = round_of(processor, 0, submitted("a", nodes=2))
    elsewhere = started(decided, cluster="p2", nodes=["p2-0002", "p2-0003"])
    [void] = round_of(processor, 1, elsewhere, submitted("b", nodes=4))[:1]
    assert (void.verdict, void.cluster) == (VERDICT_WITHDRAWN, "p1")
    assert void.reason == "the job runs on p2, as the resource manager there says"
    assert round_of(processor, 2 * OVERDUE, started(decided))[:1] != []


def test_a_start_that_is_void_is_taken_back_once_whenever_the_process_is_killed() -> None:
    processor, state = placement(), dict[str, bytes]()
    [decided] = round_of(processor, 0, submitted("a", nodes=2))
    feed(processor, [started(decided, cluster="p2", nodes=["p2-0002", "p2-0003"])])
    counts = []
    for number in (1, 2):
        for key, value in processor.changes().items():
            state |= {} if value is None else {key: value}
        processor = Placement(state, Rules(), 7.0)
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


def test_a_start_on_nodes_that_another_job_runs_on_is_taken_back_and_placed_anew() -> None:
    processor = placement(policy=Policy.BASE)
    [decided] = round_of(processor, 0, submitted("a", nodes=2))
    assert [*round_of(processor, 1, submitted("b", nodes=2))[0].node_indices] == [2, 3]
    moved = started(decided, nodes=["p1-0002", "p1-0003"])
    withdrawn, again = round_of(processor, 2, moved)
    assert (withdrawn.job_id, withdrawn.verdict) == ("b", VERDICT_WITHDRAWN)
    assert withdrawn.reason == "a runs on its nodes, as the resource manager says"
    assert (again.job_id, [*again.node_indices]) == ("b", [0, 1])


def test_decisions_of_one_round_on_one_job_have_different_ids_and_survive_a_restart() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"))
    state = {key: value for key, value in processor.changes().items() if value is not None}
    for one in (processor, Placement(state, Rules(), 7.0)):
        published = one.end_round(Round(OVERDUE, end_us(OVERDUE)))
        assert [publish.event.id for publish in published] == [
            f"placement/coplace.v1.PlacementDecided/a/1/{OVERDUE}/withdrawn",
            f"placement/coplace.v1.PlacementDecided/a/1/{OVERDUE}",
        ]
