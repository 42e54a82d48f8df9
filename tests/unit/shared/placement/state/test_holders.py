"""Only the holder of a run says what becomes of it: others can ask, and nothing else."""

from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError, EarlyError
from tests.unit.shared.placement.region import (
    answered,
    declined,
    end_us,
    event,
    finished,
    placement,
    requeued,
    round_of,
    started,
    submitted,
    verdict,
)


def on_p1() -> tuple[Placement, PlacementDecided]:
    """A job that runs on all of p1, under grant 1."""
    processor = placement(policy=Policy.BASE)
    [run] = round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, started(run))
    return processor, run


def is_held(processor: Placement) -> bool:
    """Whether the run goes on, and nobody else got its nodes."""
    told = round_of(processor, 5)
    on = answered(processor, "a").allocation
    return not told and (on.cluster, on.grant, answered(processor, "a").attempt) == ("p1", 1, 1)


def test_a_submission_of_another_attempt_ends_no_run() -> None:
    processor, _ = on_p1()
    with pytest.raises(EarlyError, match="1 is held by 'p1': requeue it first"):
        processor.handle(submitted("a", end_us(1), attempt=2))
    assert is_held(processor)


def test_a_job_stays_whose_it_was_when_it_was_submitted_first() -> None:
    processor, run = on_p1()
    round_of(processor, 2, finished("a", end_us(1), grant=run.grant))
    with pytest.raises(RejectedError, match="'eve' did not submit the job, 'ada' did"):
        processor.handle(submitted("a", end_us(2), attempt=2, user="eve"))


@pytest.mark.parametrize(
    "of",
    [
        {"attempt": 3},
        {"cluster": "p2"},
        {"cluster": "p2", "grant": 1},
        {"cluster": "p1", "grant": 2},
    ],
)
def test_a_requeue_by_another_cluster_or_grant_ends_no_run(of: dict[str, Any]) -> None:
    processor, _ = on_p1()
    with pytest.raises(RejectedError):
        processor.handle(requeued("a", end_us(1), **of))
    assert is_held(processor)


def test_who_holds_a_run_requeues_it() -> None:
    processor, _ = on_p1()
    told = round_of(processor, 2, requeued("a", end_us(1), cluster="p1", grant=1))
    assert [(one.attempt, verdict(one)) for one in told] == [(2, "start")]


def ended(cluster: str, grant: int, *, started_at_us: int = 0) -> Event:
    how = finished("a", end_us(1), grant=grant, cluster=cluster)
    assert isinstance(how.payload, JobFinished)
    how.payload.started_at_us = started_at_us
    return how


@pytest.mark.parametrize("grant", [0, 1])
def test_a_finish_from_another_cluster_ends_no_run(grant: int) -> None:
    processor, _ = on_p1()
    with pytest.raises(RejectedError, match="'p2' does not hold the run, 'p1' does"):
        processor.handle(ended("p2", grant, started_at_us=end_us(0)))
    assert is_held(processor)


def test_a_job_that_left_another_queue_is_asked_to_end() -> None:
    processor, run = on_p1()
    [asked] = round_of(processor, 2, ended("p2", 0))
    assert (verdict(asked), asked.cluster, asked.grant) == ("cancelled", "p1", run.grant)
    assert asked.reason == "cancelled: it left the queue of its resource manager"
    with pytest.raises(AlreadyAppliedError):
        processor.handle(event("again", ended("p2", 0).payload, end_us(2)))


def test_a_declined_grant_gives_no_right_while_the_job_waits() -> None:
    processor = placement(policy=Policy.BASE)
    [first] = round_of(processor, 0, submitted("a", nodes=4))
    processor.handle(declined(first, end_us(0)))
    with pytest.raises(RejectedError, match="1 was declined: it gives no right"):
        processor.handle(ended("p1", first.grant, started_at_us=end_us(0)))
    void = round_of(processor, 1, started(first))
    assert [(verdict(one), one.grant) for one in void if one.is_void] == [("withdrawn", 1)]
