"""What `coplace seize` publishes: this attempt or grant of a job, and none that comes after it."""

import pytest
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_DECIDED,
    JOB_STANDING_HELD,
    JOB_STANDING_WAITING,
    Allocation,
    ExplainResponse,
)

from cli.seize import NothingToSeizeError, describe_seizure, seizure
from tests.unit.cli.command_line import taken

NOW_US = 1_767_225_600_000_000


def granted() -> ExplainResponse:
    return ExplainResponse(
        job_id="north/p1/7/1767225600",
        attempt=2,
        standing=JOB_STANDING_DECIDED,
        allocation=Allocation(cluster="p1", nodes=4, grant=3),
    )


def test_ingest_takes_it_for_the_attempt_and_the_grant_that_were_found() -> None:
    event = seizure(granted(), "p1 burnt down", "operator/ada", NOW_US)
    assert (taken(event).topic, taken(event).event.source) == ("jobs.events", "operator/ada")
    seized = event.job_seized
    assert (seized.attempt, seized.grant, seized.reason) == (2, 3, "p1 burnt down")
    assert describe_seizure(seized) == (
        "seized attempt 2 (grant 3) of north/p1/7/1767225600: it waits again as attempt 3"
    )
    later = seizure(granted(), "p1 burnt down", "operator/ada", NOW_US + 5)
    assert later.id != event.id, "asking twice has two outcomes: the second finds it done"


def test_there_is_nothing_to_seize_of_a_job_that_waits() -> None:
    waits = ExplainResponse(job_id="a", attempt=1, standing=JOB_STANDING_WAITING)
    with pytest.raises(NothingToSeizeError, match="no grant and does not run"):
        seizure(waits, "p1 burnt down", "operator", NOW_US)


def test_who_is_said_to_run_on_an_undeclared_cluster_is_seized_without_a_grant() -> None:
    runs = ExplainResponse(job_id="a", attempt=1, standing=JOB_STANDING_HELD, runs_on="p9")
    found = seizure(runs, "p9 was sold", "operator", NOW_US)
    assert (found.job_seized.attempt, found.job_seized.grant) == (1, 0)
