"""The jobs of a step pass ingest's checks and do in placement what their kind says."""

from collections.abc import Sequence

import pytest
from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JobFinished, JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_QUEUED, VERDICT_START, PlacementDecided

from lab.benchmarks.system.jobs import cancelled, finished, requests, started, submitted_at
from lab.benchmarks.system.step import Kind
from lab.demo.embedded import EmbeddedSystem
from lab.demo.options import DemoOptions
from lab.emulator.adapters import envelope_of
from lab.emulator.emulator import Emulator, RoundOutput
from lab.emulator.facts import EPOCH_US
from lab.workloads.clusters import clusters
from services.ingest.model import Intake
from shared.catalogue.event import Publish
from shared.catalogue.topics import Topics
from shared.streams.stages.stage import Round

TOPICS = Topics(kafka_partitions=1)


class Region:
    """Everything in one process, a round a call."""

    def __init__(self) -> None:
        settings = DemoOptions().shared().model_copy(update={"kafka_partitions": 1})
        self._system = EmbeddedSystem(settings)
        self._system.publish(Emulator((), clusters(), 1).next_round())
        self._round = Round(0, EPOCH_US)

    def end_round(self, events: Sequence[Publish]) -> list[PlacementDecided]:
        self._round = Round(self._round.number + 1, self._round.ended_at_us + 100_000)
        self._system.publish(RoundOutput(tuple(events), self._round))
        return [*self._system.new_answers().decisions]

    def submit(self, kind: Kind, count: int, first_index: int) -> list[int]:
        """The first outcomes of new jobs; those that start are obeyed."""
        now_us = self._round.ended_at_us + 1
        jobs = [submitted_at(request, now_us) for request in requests(kind, count, first_index)]
        decided = self.end_round([job.submission() for job in jobs])
        by_id = {job.job_id: job for job in jobs}
        starts = [d for d in decided if d.verdict == VERDICT_START]
        self.end_round([started(by_id[d.job_id], d, now_us) for d in starts])
        return [int(d.verdict) for d in decided]


def test_each_kind_of_job_does_what_its_name_says() -> None:
    region = Region()
    assert region.submit(Kind.FILL, 16, 0) == [VERDICT_START] * 16
    assert region.submit(Kind.WIDE, 16, 16) == [VERDICT_QUEUED] * 16
    assert region.submit(Kind.QUEUE, 20, 32) == [VERDICT_QUEUED] * 20
    assert region.submit(Kind.FLOW, 20, 82) == [VERDICT_START] * 20
    assert set(region.submit(Kind.TOP_UP, 48, 102)) == {VERDICT_START, VERDICT_QUEUED}
    assert region.submit(Kind.WAIT, 20, 150).count(VERDICT_QUEUED) >= 18


@pytest.mark.parametrize("kind", Kind)
def test_what_a_resource_manager_says_passes_ingest(kind: Kind) -> None:
    intake, now_us = Intake(TOPICS), EPOCH_US + 5
    for request in requests(kind, 5, 100):
        job = submitted_at(request, now_us)
        decided = PlacementDecided(
            attempt=1, cluster="p1", node_indices=[3, 4], cores_per_node=48, freq_ghz=2.0
        )
        said = [
            job.submission(),
            started(job, decided, now_us),
            *finished(job, decided, now_us, now_us + 1),
            cancelled(job, now_us),
        ]
        accepted = [intake.accept(envelope_of(each.event), now_us / 1e6) for each in said]
        assert [each.topic for each in accepted] == [each.topic for each in said]


def test_jobs_of_other_indices_are_others_and_some_name_no_application() -> None:
    jobs = [submitted_at(r, EPOCH_US) for at in (0, 50) for r in requests(Kind.WAIT, 50, at)]
    assert len({job.job_id for job in jobs}) == 100
    payloads = [job.submission().event.payload for job in jobs]
    assert sum(isinstance(p, JobSubmitted) and not p.app_id for p in payloads) == 10
    ended = cancelled(jobs[0], EPOCH_US).event.payload
    assert isinstance(ended, JobFinished)
    assert (ended.outcome, ended.started_at_us) == (JOB_OUTCOME_CANCELLED, 0), "it never started"
