"""The programs that the how-tos print, against a real broker and a real ingest."""

import json
import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer
from coplace.v1.placement_pb2 import (
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.message import Message
from kafka import KafkaConsumer
from typer.testing import CliRunner

from cli.main import app
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import Record, TopicPartition
from shared.process.settings import Settings, settings
from shared.streams.on_kafka.admin import admin_client, ensure_topics
from shared.streams.on_kafka.clients import Publisher, Reader
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.dead_letters import dead_letter
from tests.support.snippets import HOW_TO, write_programs

_TIME_US = 1_767_225_600_000_000
_JOB = "north/alpha/4711/1767225600"
_OTHER_JOB = "north/alpha/4712/1767225600"
_REJECTED_JOB = "north/alpha/4713/1767225600"


@pytest.fixture
def deployment(servers: LocalServers, request: pytest.FixtureRequest) -> Deployment:
    namespace = f"{request.node.name}.{uuid4().hex}"
    deployment = Deployment.from_settings(
        Settings(kafka_bootstrap=servers.kafka_bootstrap, namespace=namespace, kafka_partitions=4)
    )
    client = admin_client(deployment)
    ensure_topics(client, deployment)
    client.close()
    return deployment


@pytest.fixture
def _command_line(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The settings of commands that run in this process."""
    for name, value in _environment(deployment).items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    yield
    settings.cache_clear()


def _environment(deployment: Deployment, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "COPLACE_KAFKA_BOOTSTRAP": deployment.settings.kafka_bootstrap,
        "COPLACE_NAMESPACE": deployment.settings.namespace,
        "COPLACE_KAFKA_PARTITIONS": "4",
        **more,
    }


def _run(program: str, folder: Path, environment: dict[str, str]) -> str:
    result = subprocess.run(
        [sys.executable, program],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


async def _publish(
    deployment: Deployment, topic: str, messages: Sequence[Message], *, abort: bool = False
) -> None:
    producer = AIOKafkaProducer(**deployment.connection, transactional_id=deployment.name("test"))
    await producer.start()
    await producer.begin_transaction()
    for message in messages:
        event = Event("test", "test", _TIME_US, message.job_id, message)  # type: ignore[attr-defined]
        new = deployment.codec.encode(Publish(topic, event))
        await producer.send_and_wait(
            deployment.name(topic),
            new.value,
            new.key,
            new.partition.kafka_partition,
            headers=list(new.headers),
        )
    await (producer.abort_transaction() if abort else producer.commit_transaction())
    await producer.stop()


def _charge(job_id: str, revision: int, price_su: str) -> ChargeMade:
    return ChargeMade(
        job_id=job_id, attempt=1, revision=revision, account="physics", price_su=price_su
    )


async def test_a_bill_counts_the_last_revision_of_each_charge_once(
    deployment: Deployment, tmp_path: Path
) -> None:
    write_programs(HOW_TO / "bill-from-prices.md", tmp_path)
    environment = _environment(deployment)
    first, second = _charge(_JOB, 1, "1.500000"), _charge(_OTHER_JOB, 1, "2.000000")
    await _publish(deployment, "prices.charges", [first, second, first])
    assert _run("bill.py", tmp_path, environment).split() == ["physics", "3.500000", "SU"]

    await _publish(deployment, "prices.charges", [_charge(_JOB, 2, "1.000000"), first])
    await _publish(deployment, "prices.charges", [_charge("aborted", 1, "9.000000")], abort=True)
    for _ in range(2):
        assert _run("bill.py", tmp_path, environment).split() == ["physics", "3.000000", "SU"]


async def test_a_resource_manager_reports_jobs_and_starts_what_was_decided_for_it(
    ingest_address: str, deployment: Deployment, tmp_path: Path
) -> None:
    write_programs(HOW_TO / "connect-a-resource-manager.md", tmp_path)
    environment = _environment(deployment, COPLACE_INGEST_ADDRESS=ingest_address)

    assert _run("report.py", tmp_path, environment).startswith("submitted north/alpha/4711/")
    declared = _event_of(deployment, "commands", "coplace.v1.ClusterDeclared").payload
    assert declared.cluster == "alpha"  # type: ignore[attr-defined]

    elsewhere = PlacementDecided(job_id="elsewhere", verdict=VERDICT_START, cluster="beta")
    queued = PlacementDecided(job_id=_OTHER_JOB, verdict=VERDICT_QUEUED)
    start = PlacementDecided(
        job_id=_JOB,
        attempt=1,
        verdict=VERDICT_START,
        cluster="alpha",
        node_indices=[7, 8],
        freq_ghz=2.0,
        walltime_s=3600,
        grant=1,
    )
    declines = PlacementDecided(
        job_id=_OTHER_JOB, attempt=1, verdict=VERDICT_WITHDRAWN, cluster="alpha", grant=1
    )
    too_late = PlacementDecided(
        job_id=_OTHER_JOB, attempt=1, verdict=VERDICT_START, cluster="alpha", grant=1
    )
    crossed = PlacementDecided(
        job_id=_JOB, attempt=1, verdict=VERDICT_WITHDRAWN, cluster="alpha", grant=1
    )
    rejected = PlacementDecided(
        job_id=_REJECTED_JOB, attempt=1, verdict=VERDICT_REJECTED, reason="fits on no cluster"
    )
    decided = [elsewhere, queued, rejected, declines, too_late, start, crossed]
    await _publish(deployment, "placement.decisions", decided)
    with _obeying(tmp_path, environment) as first_line:
        assert first_line in (
            f"rejected {_REJECTED_JOB}: fits on no cluster\n",
            f"declined {_OTHER_JOB}: as asked\n",
            f"start {_JOB} on alpha-0007,alpha-0008 at 2.0 GHz for at most 3600 s\n",
        )
        started = _event_of(deployment, "jobs.events", "coplace.v1.JobStarted").payload
        declined = _event_of(deployment, "jobs.events", "coplace.v1.JobDeclined").payload
    assert list(started.nodes) == ["alpha-0007", "alpha-0008"]  # type: ignore[attr-defined]
    assert (started.job_id, started.grant) == (_JOB, 1)  # type: ignore[attr-defined]
    assert (declined.job_id, declined.grant) == (_OTHER_JOB, 1)  # type: ignore[attr-defined]
    answers = [type(one.payload).__name__ for one in _so_far(deployment, "jobs.events")]
    assert sorted(answers) == ["JobDeclined", "JobStarted", "JobSubmitted"]


@pytest.fixture
def ingest_address(servers: LocalServers, deployment: Deployment) -> Iterator[str]:
    """The gRPC address of an ingest for this deployment."""
    grpc_port, http_port = free_ports(2)
    environment = {
        **_environment(deployment),
        "COPLACE_INGEST_PORT": str(grpc_port),
        "COPLACE_HTTP_PORT": str(http_port),
    }
    ready_url = f"http://127.0.0.1:{http_port}/readyz"
    command = [sys.executable, "-m", "services.ingest"]
    ingest = [Program(f"ingest-{grpc_port}", command, environment, ready_url)]
    servers.start(ingest)
    yield f"127.0.0.1:{grpc_port}"
    servers.remove(ingest)


@pytest.mark.usefixtures("_command_line")
def test_a_dead_letter_is_listed_shown_and_replayed(deployment: Deployment) -> None:
    partition = TopicPartition("jobs.events", 2)
    refused = Record(partition, 17, b"key", b"not protobuf", (("ce_type", b"unheard of"),))
    letter = dead_letter(refused, "ce_type: 'unheard of' is not in jobs.events", "pricing", 0)
    with Publisher(deployment) as publisher:
        publisher.append([deployment.codec.encode(letter)])

    listed = _coplace("dlq", "list")
    assert (
        listed
        == "jobs.events/2/17\tpricing\trefused\tce_type: 'unheard of' is not in jobs.events\n"
    )
    shown = json.loads(_coplace("dlq", "show", "jobs.events/2/17"))
    assert b64decode(shown["value"]) == refused.value
    _coplace("dlq", "replay", "jobs.events/2/17")
    with Reader(deployment, [partition]) as reader:
        (replayed,) = reader.to_end()
    assert replace(replayed, offset=refused.offset) == refused


def _coplace(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@contextmanager
def _obeying(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    command = [sys.executable, "obey.py"]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()


def _event_of(deployment: Deployment, topic: str, event_type: str) -> Event:
    return next(event for event in _events(deployment, topic) if event.type == event_type)


def _so_far(deployment: Deployment, topic: str) -> list[Event]:
    with Reader(deployment, deployment.codec.topics.partitions(topic)) as reader:
        return [deployment.codec.decode(record) for record in reader.to_end()]


def _events(deployment: Deployment, topic: str) -> Iterator[Event]:
    """The events of a topic from its start, and those that still come for a while."""
    consumer = KafkaConsumer(
        deployment.name(topic),
        bootstrap_servers=deployment.settings.kafka_bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=30_000,
    )
    try:
        for found in consumer:
            yield deployment.codec.decode(deployment.record(found))
    finally:
        consumer.close()
