"""Limits of users and accounts bind their jobs and nobody else's."""

import pytest
from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_UNSPECIFIED,
    LIMIT_SUBJECT_USER,
)
from coplace.v1.placement_pb2 import VERDICT_QUEUED, VERDICT_START, PlacementDecided

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.placement.candidates.candidate import Rules
from shared.placement.processor import Placement
from tests.unit.shared.placement.region import (
    T0_US,
    end_us,
    feed,
    finished,
    limits,
    placement,
    round_of,
    submitted,
)

ADA_ONE_JOB = limits(LIMIT_SUBJECT_USER, "ada", most_running_jobs=1)


def limited(*declared: Event, nodes: int = 4) -> Placement:
    processor = placement(nodes, Policy.BASE)
    feed(processor, declared)
    return processor


def started(decided: list[PlacementDecided]) -> list[str]:
    return [d.job_id for d in decided if d.verdict == VERDICT_START]


def test_a_job_over_its_users_limit_waits_with_that_reason_and_blocks_nobody() -> None:
    processor = limited(ADA_ONE_JOB)
    jobs = [submitted(name, T0_US + n) for n, name in enumerate("abc")]
    decided = round_of(processor, 0, *jobs, submitted("d", T0_US + 3, user="bob"))
    assert started(decided) == ["a", "d"]
    assert [d.verdict for d in decided if d.job_id in "bc"] == [VERDICT_QUEUED] * 2
    assert decided[-1].reason == "user ada may run 1 jobs at once and runs 1"
    assert {c.constraint for c in decided[-1].candidates if c.cluster == "p1"} == {
        "user ada may run 1 jobs at once and runs 1"
    }
    assert started(round_of(processor, 1, finished("a", end_us(0)))) == ["b"]


def test_without_the_limit_the_job_starts() -> None:
    processor = limited(ADA_ONE_JOB)
    round_of(processor, 0, submitted("a"), submitted("b", T0_US + 1))
    lifted = limits(LIMIT_SUBJECT_USER, "ada", end_us(0))
    assert started(round_of(processor, 1, lifted)) == ["b"]


def test_a_job_over_its_limit_holds_no_reservation() -> None:
    processor = limited(ADA_ONE_JOB)
    big = submitted("b", T0_US + 1, nodes=4)
    long = submitted("c", T0_US + 2, user="bob", walltime_s=9000.0)
    decided = round_of(processor, 0, submitted("a"), big, long)
    assert started(decided) == ["a", "c"]
    assert not any(d.HasField("reservation") for d in decided)


def test_a_small_job_of_a_user_below_the_limit_passes_a_large_one_that_does_not_fit() -> None:
    processor = limited(limits(LIMIT_SUBJECT_USER, "ada", most_running_jobs=2))
    small = submitted("c", T0_US + 2, walltime_s=60.0)
    decided = round_of(processor, 0, submitted("a"), submitted("b", T0_US + 1, nodes=4), small)
    assert started(decided) == ["a", "c"]


def test_nodes_of_an_account_are_limited_together() -> None:
    processor = limited(limits(LIMIT_SUBJECT_ACCOUNT, "physics", most_nodes=3))
    others = [submitted("b", T0_US + 1, user="bob", nodes=2), submitted("c", T0_US + 2)]
    decided = round_of(processor, 0, submitted("a", nodes=2), *others)
    assert started(decided) == ["a", "c"]
    assert decided[-1].reason == (
        "p1: account physics may hold 3 nodes at once, holds 3 and needs 2 more"
    )
    assert started(round_of(processor, 1, finished("a", end_us(0)))) == ["b"]


def test_a_limit_survives_a_restart() -> None:
    processor = limited(ADA_ONE_JOB)
    round_of(processor, 0, submitted("a"))
    state = {key: value for key, value in processor.changes().items() if value is not None}
    again = Placement(state, Rules(Policy.BASE), 7.0)
    assert started(round_of(again, 1, submitted("b"))) == []
    assert started(round_of(again, 2, finished("a", end_us(1)))) == ["b"]


def test_a_limit_for_nobody_is_rejected() -> None:
    with pytest.raises(RejectedError, match="subject"):
        placement().handle(limits(LIMIT_SUBJECT_UNSPECIFIED, "ada"))
    with pytest.raises(RejectedError, match="name"):
        placement().handle(limits(LIMIT_SUBJECT_USER, ""))
