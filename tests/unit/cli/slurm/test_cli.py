"""`coplace slurm obey` does what is decided, again until it is done, and each in its order."""

import grpc
import pytest
from aiokafka.errors import KafkaConnectionError
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from cli.slurm import cli
from cli.slurm.jobs import SlurmJob
from cli.slurm.orders import Release
from cli.slurm.slurm import SlurmError
from shared.clients import decisions
from tests.support.agent_ingest import Ingest, served
from tests.support.decisions import PlayedConsumer, barrier, record
from tests.unit.cli.command_line import coplace
from tests.unit.cli.slurm.fields import JOB, SUBMIT_S

JOB_ID = f"north/alpha/17/{SUBMIT_S}"


class PlayedSlurm:
    """Has one job, and is away at first."""

    def __init__(self) -> None:
        self.released: list[int] = []
        self.away = 1

    def cluster(self) -> str:
        return "alpha"

    def jobs(self) -> list[SlurmJob]:
        if self.away:
            self.away -= 1
            raise SlurmError("squeue: slurmctld does not answer")
        return [SlurmJob(JOB)]

    def release(self, job: int, _release: Release) -> None:
        self.released.append(job)


def decided(job_id: str, cluster: str = "alpha", grant: int = 1) -> PlacementDecided:
    found = PlacementDecided(job_id=job_id, attempt=1, cluster=cluster, verdict=VERDICT_START)
    found.grant, found.freq_ghz, found.walltime_s = grant, 2.1, 60
    found.node_names.append("n1")
    return found


def test_decisions_on_its_cluster_are_obeyed_over_failures_of_slurm_and_of_ingest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slurm, ingest = PlayedSlurm(), Ingest()
    ingest.answers = [grpc.StatusCode.UNAVAILABLE]
    gone = decided("north/alpha/18/1", grant=3)
    told = [decided(JOB_ID), decided("north/beta/5/1", "beta"), gone]
    monkeypatch.setattr(cli, "Slurm", lambda: slurm)
    monkeypatch.setattr(cli, "_RETRY_S", 0.01)
    monkeypatch.setattr(decisions, "AIOKafkaConsumer", PlayedConsumer)
    monkeypatch.setattr(PlayedConsumer, "records", [*map(record, told), barrier()])
    monkeypatch.setattr(PlayedConsumer, "failure", KafkaConnectionError("gone"))
    with served(ingest) as port:
        result = coplace("slurm", "obey", "--site", "north", "--ingest", f"127.0.0.1:{port}")
    assert slurm.released == [17]
    assert [event.job_declined.grant for event in ingest.got] == [3, 3]
    assert result.stdout.splitlines() == [
        f"{JOB_ID}: released on n1 at 2.1 GHz for 1 min",
        "north/alpha/18/1: declined: Slurm does not have the job any more",
    ]
    assert f"{JOB_ID}: squeue: slurmctld does not answer; tried again" in result.stderr
    assert "north/alpha/18/1: 127.0.0.1" in result.stderr
    assert "error: Kafka at" in result.stderr
    assert result.exit_code == 1
    assert PlayedConsumer.last.committed == len(told) + 1
    assert PlayedConsumer.last.is_stopped
