"""While a cluster is lost nothing starts there, and nothing that runs there is forgotten."""

import pytest
from coplace.v1.placement_pb2 import (
    VERDICT_QUEUED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)

from services.placement.model import Rules
from services.placement.processor import Placement
from shared.domain.errors import RejectedError
from shared.messaging.stage import AlreadyAppliedError
from shared.policies.ranking import Policy
from tests.unit.services.placement.region import (
    T0_US,
    declared,
    end_us,
    feed,
    finished,
    lost,
    placement,
    returned,
    round_of,
    started,
    submitted,
)


def places(decided: list[PlacementDecided]) -> list[tuple[str, int, str]]:
    return [(d.job_id, d.verdict, d.cluster) for d in decided]


def test_a_job_goes_to_another_cluster_and_is_told_why() -> None:
    processor = placement()
    [decided] = round_of(processor, 0, lost("p1", T0_US + 1, "power cut"), submitted("a"))
    assert decided.cluster == "p2"
    constraint = {c.cluster: c.constraint for c in decided.candidates}["p1"]
    assert constraint == "lost since 2026-01-01T00:00:00Z: power cut"


@pytest.mark.parametrize("policy", list(Policy))
def test_jobs_that_wait_for_it_go_elsewhere_under_every_policy(policy: Policy) -> None:
    processor = placement(policy=policy)
    round_of(processor, 0, submitted("a", nodes=4), submitted("b", T0_US + 1, nodes=4))
    decided = round_of(processor, 1, lost("p1", end_us(0)), finished("b", end_us(0)))
    assert places(decided) == [("a", VERDICT_WITHDRAWN, "p1"), ("a", VERDICT_START, "p2")]


def test_a_job_that_fits_only_there_waits_with_that_reason_and_starts_on_return() -> None:
    processor = placement()
    feed(processor, [declared("p1", 8, T0_US + 1)])
    [waiting] = round_of(processor, 0, lost("p1", T0_US + 2), submitted("a", nodes=6))
    assert waiting.verdict == VERDICT_QUEUED
    assert waiting.reason == "p1: lost since 2026-01-01T00:00:00Z"
    assert round_of(processor, 1) == []
    assert places(round_of(processor, 2, returned("p1", end_us(1)))) == [("a", VERDICT_START, "p1")]


def test_what_runs_there_is_accounted_and_not_started_twice() -> None:
    processor = placement()
    [decided] = round_of(processor, 0, submitted("a", nodes=3))
    assert round_of(processor, 1, started(decided), lost("p1", end_us(0))) == []
    assert round_of(processor, 100) == []
    [other] = round_of(processor, 101, returned("p1", end_us(100)), submitted("b", nodes=2))
    assert other.cluster == "p2"
    constraint = {c.cluster: c.constraint for c in other.candidates}["p1"]
    assert constraint == "needs 2 nodes, 1 free"
    decided = round_of(processor, 102, finished("a", end_us(101)), submitted("c", nodes=4))[0]
    assert (decided.job_id, decided.cluster) == ("c", "p1")


def test_a_start_there_that_was_not_confirmed_is_taken_back_and_goes_elsewhere() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=3))
    decided = round_of(processor, 1, lost("p1", end_us(0), "no answer"))
    assert places(decided) == [("a", VERDICT_WITHDRAWN, "p1"), ("a", VERDICT_START, "p2")]
    assert decided[0].reason == "p1: lost since 2026-01-01T00:00:30Z: no answer"
    [after_return] = round_of(processor, 2, returned("p1", end_us(1)), submitted("b", nodes=4))
    assert (after_return.cluster, [*after_return.node_indices]) == ("p1", [0, 1, 2, 3])


def test_the_newest_word_on_a_cluster_holds_and_a_restart_remembers_it() -> None:
    processor = placement()
    feed(processor, [lost("p1", T0_US + 5), returned("p1", T0_US + 7)])
    with pytest.raises(AlreadyAppliedError):
        processor.handle(lost("p1", T0_US + 6))
    feed(processor, [lost("p1", T0_US + 9)])
    state = {key: value for key, value in processor.changes().items() if value is not None}
    assert round_of(Placement(state, Rules(), 7.0), 0, submitted("a"))[0].cluster == "p2"


def test_a_cluster_that_was_never_declared_cannot_be_lost() -> None:
    with pytest.raises(RejectedError, match="cluster"):
        placement().handle(lost("p9", T0_US))
