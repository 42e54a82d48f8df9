"""The sample of `coplace up --sample`: what its resource managers report, for which decisions."""

import asyncio
import time
from collections import Counter

import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JOB_OUTCOME_COMPLETED
from coplace.v1.placement_pb2 import (
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_START,
    Action,
    PlacementDecided,
)

from coplace_client.health import Readiness
from lab.emulator.sample.app import Sample
from lab.emulator.sample.jobs import NODES, sample_jobs
from lab.workloads.clusters import clusters

NOW_US = time.time_ns() // 1000


class Ingest:
    """Keeps what is published."""

    def __init__(self) -> None:
        self.events: list[Envelope] = []

    async def publish(self, event: Envelope) -> None:
        """Take an event."""
        self.events.append(event)

    def kinds(self) -> Counter[str]:
        """Count the types of events."""
        return Counter(str(event.WhichOneof("payload")) for event in self.events)

    def last(self, kind: str) -> object:
        """Return the last payload of a type."""
        found = [event for event in self.events if event.WhichOneof("payload") == kind]
        return getattr(found[-1], kind)


@pytest.fixture
def ingest() -> Ingest:
    return Ingest()


@pytest.fixture
def readiness() -> Readiness:
    return Readiness()


@pytest.fixture
def sample(ingest: Ingest, readiness: Readiness) -> Sample:
    """One whose jobs were all submitted a minute ago."""
    return Sample(NOW_US - 60_000_000, ingest, readiness)  # type: ignore[arg-type]


def start(sample: Sample, ingest: Ingest, number: int, *, decided_us: int) -> PlacementDecided:
    """Decide that the job of this number starts on the first nodes of p1."""
    submitted = [
        e.job_submitted for e in ingest.events if e.WhichOneof("payload") == "job_submitted"
    ]
    job = submitted[number - 1]
    return PlacementDecided(
        job_id=job.job_id,
        attempt=1,
        verdict=VERDICT_START,
        grant=1,
        cluster="p1",
        node_indices=range(job.nodes),
        freq_ghz=clusters(NODES)[0].nominal_ghz,
        cores_per_node=clusters(NODES)[0].cores_per_node,
        walltime_s=job.walltime_s,
        decided_at_us=decided_us,
    )


def test_more_is_asked_for_than_both_clusters_have() -> None:
    asked = Counter[str]()
    for request in sample_jobs(NOW_US, clusters(NODES)):
        asked[request.reference_cluster] += request.nodes
        assert request.nodes <= NODES
    assert all(nodes > NODES for nodes in asked.values())


async def test_it_waits_for_an_end_and_is_ready_then(
    sample: Sample, ingest: Ingest, readiness: Readiness
) -> None:
    await sample.submit()
    assert ingest.kinds()["cluster_declared"] == 2
    assert ingest.kinds()["job_submitted"] == len(sample_jobs(NOW_US, clusters(NODES)))
    assert readiness.waiting_for == "the first of its jobs to end"
    await sample.obey(start(sample, ingest, 1, decided_us=NOW_US - 30_000_000))
    ended = ingest.last("job_finished")
    assert ended.outcome == JOB_OUTCOME_COMPLETED  # type: ignore[attr-defined]
    assert 0 < ended.ended_at_us - ended.started_at_us < 30_000_000  # type: ignore[attr-defined]
    assert not readiness.waiting_for


async def test_its_jobs_run_on_its_own_clusters_alone(sample: Sample, ingest: Ingest) -> None:
    await sample.submit()
    submitted = [e.job_submitted for e in ingest.events if e.HasField("job_submitted")]
    assert submitted
    assert all([*job.clusters] == sample.clusters for job in submitted)


async def test_started_again_it_reports_the_same_of_the_same_decision(
    sample: Sample, ingest: Ingest
) -> None:
    await sample.submit()
    decision = start(sample, ingest, 1, decided_us=NOW_US - 30_000_000)
    await sample.obey(decision)
    again, other = Ingest(), Readiness()
    later = Sample(NOW_US - 60_000_000, again, other)  # type: ignore[arg-type]
    await later.submit()
    await later.obey(decision)
    assert again.events == ingest.events


async def test_a_running_job_refuses_actions_and_ends_where_it_is_cancelled(
    sample: Sample, ingest: Ingest
) -> None:
    await sample.submit()
    decision = start(sample, ingest, 4, decided_us=NOW_US)
    running = asyncio.create_task(sample.obey(decision))
    while not ingest.kinds()["job_started"]:  # noqa: ASYNC110 it is there in a moment
        await asyncio.sleep(0)
    action = PlacementDecided()
    action.CopyFrom(decision)
    action.verdict = VERDICT_ACTION
    action.action.CopyFrom(Action(number=1, kind=ACTION_KIND_SUSPEND))
    await sample.obey(action)
    assert ingest.kinds()["job_action_refused"] == 1
    cancelled = PlacementDecided(job_id=decision.job_id, attempt=1, verdict=VERDICT_CANCELLED)
    await sample.obey(cancelled)
    await running
    assert ingest.last("job_finished").outcome == JOB_OUTCOME_CANCELLED  # type: ignore[attr-defined]


async def test_a_job_that_waits_leaves_the_queue_where_it_is_cancelled(
    sample: Sample, ingest: Ingest
) -> None:
    await sample.submit()
    decision = start(sample, ingest, 10, decided_us=NOW_US)
    decision.verdict = VERDICT_CANCELLED
    await sample.obey(decision)
    ended = ingest.last("job_finished")
    assert (ended.outcome, ended.started_at_us) == (  # type: ignore[attr-defined]
        JOB_OUTCOME_CANCELLED,
        0,
    )
