"""From both ways in to the accounts, on real Kafka and Redis, with bad input and kills."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import grpc
import orjson
import pytest
import redis
from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.ingest_service_pb2 import (
    Envelope,
    PublishRequest,
    PublishStreamRequest,
    PublishStreamResponse,
)
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub
from coplace.v1.pricing_pb2 import ChargeMade

from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from services.pricing.app import stages
from shared.catalogue.record import NewRecord, TopicPartition
from shared.domain.money import micro_units
from shared.pricing.charge import audit
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client, ensure_topics
from shared.streams.on_kafka.clients import Publisher, Reader
from shared.streams.on_kafka.deployment import Deployment
from tests.support.patience import PATIENCE_S
from tests.support.redis_loss import lose
from tests.unit.services.ingest.envelopes import JOB, NOW_US, PAYLOADS, envelope

_MODULES = {
    "ingest": "services.ingest",
    "ingest-jobcomp": "services.ingest.jobcomp",
    "pricing": "services.pricing",
    "accounts": "services.pricing.accounts",
}
SLURM_END = {
    "jobid": 4242,
    "username": "alice",
    "account": "proj1",
    "@submit": "2026-05-04T09:58:00Z",
    "@start": "2026-05-04T10:00:05Z",
    "@end": "2026-05-04T11:00:05Z",
    "total_cpus": 192,
    "total_nodes": 4,
    "nodes": "n[001-004]",
    "state": "COMPLETED",
    "cluster": "c1",
    "time_limit": 7200,
    "job_name": "cfd",
}


class Edges:
    """The services under test, and what a test sees of them."""

    def __init__(self, servers: LocalServers) -> None:
        self.servers = servers
        settings = Settings(
            kafka_bootstrap=servers.kafka_bootstrap, namespace="edges", kafka_partitions=4
        )
        self.deployment = Deployment.from_settings(settings)
        client = admin_client(self.deployment)
        ensure_topics(client, self.deployment, stages(settings))
        client.close()
        self.redis = redis.Redis.from_url(servers.redis_url)
        self.ingest_port, *ports = free_ports(1 + len(_MODULES))
        self.programs = {
            name: self._program(name, port) for name, port in zip(_MODULES, ports, strict=True)
        }
        servers.start(self.programs.values())
        self._channel = grpc.insecure_channel(f"127.0.0.1:{self.ingest_port}")
        self.client = IngestServiceStub(self._channel)

    def close(self) -> None:
        """End the services, and disconnect."""
        self.servers.remove(self.programs.values())
        self._channel.close()
        self.redis.close()

    def publish(self, *envelopes: Envelope) -> PublishStreamResponse:
        """Send a stream of events."""
        requests = [PublishStreamRequest(event=found) for found in envelopes]
        response: PublishStreamResponse = self.client.PublishStream(iter(requests), timeout=30)
        return response

    def publish_raw(self, *values: bytes) -> None:
        """Send what Slurm might send."""
        with Publisher(self.deployment) as publisher:
            publisher.append(
                NewRecord(TopicPartition("slurm.jobcomp", 1), b"", value) for value in values
            )

    def charges(self) -> dict[str, ChargeMade]:
        """The newest charge of each job so far."""
        partitions = self.deployment.topics.partitions("prices.charges")
        events = self._events(partitions)
        return {found.job_id: found for found in events if isinstance(found, ChargeMade)}

    def dead_letters(self) -> list[DeadLetter]:
        """What of Slurm's messages could not be used."""
        partitions = self.deployment.topics.partitions("dlq.slurm.jobcomp")
        events = self._events(partitions)
        return [found for found in events if isinstance(found, DeadLetter)]

    def not_ready(self, name: str) -> str:
        """Why a service does not work; empty while it does."""
        try:
            with urlopen(str(self.programs[name].ready_url), timeout=5):
                return ""
        except HTTPError as refused:
            return refused.read().decode()
        except OSError:
            return "it restarts"

    def coplace(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """An operator's command."""
        settings = self.deployment.settings
        environment = {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "COPLACE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
            "COPLACE_REDIS_URL": self.servers.redis_url,
            "COPLACE_NAMESPACE": settings.namespace,
            "COPLACE_KAFKA_PARTITIONS": str(settings.kafka_partitions),
        }
        return subprocess.run(
            [sys.executable, "-c", "from cli.main import app; app()", *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def spent(self) -> dict[str, int]:
        """Balances in Redis, 0.000001 SU."""
        found: Any = self.redis.hgetall("edges.accounts:spent")
        return {account.decode(): int(amount) for account, amount in found.items()}

    def _events(self, partitions: tuple[TopicPartition, ...]) -> list[object]:
        codec = self.deployment.codec
        found: list[object] = []
        with Reader(self.deployment, partitions) as reader:
            # Barriers never end, so read for a while.
            until = time.monotonic() + 1.0
            while time.monotonic() < until:
                found += [codec.decode(record).payload for record in reader.poll()]
        return found

    def _program(self, name: str, port: int) -> Program:
        return Program(
            name,
            [sys.executable, "-m", _MODULES[name]],
            env={
                "PYTHONPATH": os.pathsep.join(sys.path),
                "COPLACE_NAMESPACE": "edges",
                "COPLACE_KAFKA_PARTITIONS": "4",
                "COPLACE_SESSION_TIMEOUT_S": "2",
                "COPLACE_HTTP_PORT": str(port),
                "COPLACE_INGEST_PORT": str(self.ingest_port),
                "COPLACE_PRICING_GRACE_S": "0",
            },
            ready_url=f"http://127.0.0.1:{port}/readyz",
        )


@pytest.fixture(scope="module")
def edges(servers: LocalServers) -> Iterator[Edges]:
    """Services for all cases."""
    found = Edges(servers)
    yield found
    found.close()


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.1)


def of_job(job: str, kind: str, **changes: object) -> Envelope:
    """An event of a job of its own, which ends as one that held all of its nodes."""
    whole = {"cores": 0} if kind == "jobFinished" else {}
    found = envelope(kind, jobId=job, **{**whole, **changes})
    found.id = f"north/{kind}/{job}/1"
    return found


def test_a_job_that_shared_its_nodes_is_discounted_and_its_account_charged(edges: Edges) -> None:
    job = str(JOB["jobId"])
    refused = of_job("other", "jobFinished", nodes=0)
    ended_us = NOW_US + 3_600_000_000
    # A pair is believed where both were on a node, and left room there.
    beside = str(PAYLOADS["shuttersMeasured"]["coRunnerJobId"])
    response = edges.publish(
        of_job(beside, "jobSubmitted", shareable=True),
        of_job(beside, "jobStarted"),
        of_job(job, "jobSubmitted", shareable=True),
        of_job(job, "jobStarted"),
        refused,
        of_job(job, "shuttersMeasured", endedAtUs=ended_us),
        of_job(job, "jobFinished", endedAtUs=ended_us),
    )
    assert (response.published, response.rejections[0].index) == (6, 4)
    eventually(lambda: edges.spent().get("physics", 0) > 0 and job in edges.charges())
    eventually(lambda: edges.charges()[job].slowdown_ratio > 1)
    charge = edges.charges()[job]
    audit(charge)
    assert charge.slowdown_ratio == pytest.approx(1.2)
    eventually(lambda: edges.spent()["physics"] == micro_units(Decimal(charge.price_su)))


def test_a_copy_is_charged_once(edges: Edges) -> None:
    job = "north/alpha/copied/1"
    facts = [of_job(job, kind, account="copies") for kind in ("jobSubmitted", "jobFinished")]
    facts[1].job_finished.ended_at_us += 1_000_000_000
    edges.publish(*facts)
    eventually(lambda: "copies" in edges.spent())
    spent = edges.spent()
    edges.publish(*facts)
    edges.publish(of_job("north/alpha/after/1", "jobSubmitted"))
    time.sleep(1.0)
    assert edges.spent() == spent
    assert edges.charges()[job].revision == 1


def test_slurms_messages_become_charges_and_what_is_broken_a_dead_letter(edges: Edges) -> None:
    broken = [b"{", b'{"jobid": "\xff\xfe"}', b"[1]", orjson.dumps(SLURM_END | {"jobid": "x"})]
    odd = {"job_name": "a\tb" + "x" * 300, "tres_alloc": "gres/tmpsize=10737418240"}
    odder = orjson.dumps(SLURM_END | odd | {"jobid": 4243, "qos": "caf?"}).replace(b"?", b"\xe9")
    start = {name: value for name, value in SLURM_END.items() if name != "@end"} | {"state": None}
    edges.publish_raw(orjson.dumps(start), *broken, orjson.dumps(SLURM_END), odder)
    # Two jobs on 192 cores for an hour at 1 SU a core hour.
    eventually(lambda: edges.spent().get("proj1", 0) >= 2 * 192_000_000)
    assert edges.spent()["proj1"] == 2 * 192_000_000
    eventually(lambda: len(edges.dead_letters()) >= len(broken))
    letters = sorted(edges.dead_letters(), key=lambda letter: letter.offset)
    assert [letter.value for letter in letters] == broken
    assert [letter.value_sha256 for letter in letters] == [
        hashlib.sha256(value).digest() for value in broken
    ]
    assert letters[3].reason.startswith("jobid")


@pytest.mark.parametrize("killed", ["ingest", "ingest-jobcomp", "pricing", "accounts"])
def test_a_kill_of_any_of_them_loses_nothing_and_charges_nobody_twice(
    edges: Edges, killed: str
) -> None:
    account, count = f"killed-{killed}", 20
    for number in range(count):
        job = f"north/alpha/{killed}/{number}"
        facts = [of_job(job, kind, account=account) for kind in ("jobSubmitted", "jobFinished")]
        facts[1].job_finished.ended_at_us += 1_000_000_000
        if number == count // 2:
            edges.servers.kill(killed)
            edges.servers.wait_ready(killed)
        edges.publish(*facts)
        slurm = SLURM_END | {"jobid": number + 1, "account": account, "cluster": killed}
        edges.publish_raw(orjson.dumps(slurm))
    one_su = 1_000 * 4 * 48 * 1_000_000 // 3600
    expected = count * (one_su + (1 if (1_000 * 4 * 48 * 1_000_000) % 3600 * 2 > 3600 else 0))
    eventually(lambda: edges.spent().get(account, 0) >= expected + count * 192_000_000)
    assert edges.spent()[account] == expected + count * 192_000_000


def test_a_redis_that_lost_everything_rebuilds_itself_from_the_charges(edges: Edges) -> None:
    spent = edges.spent()
    assert spent
    lose(edges.redis, "edges")
    edges.publish(of_job("north/alpha/lost/1", "jobSubmitted", account="lost"))
    finish = of_job("north/alpha/lost/1", "jobFinished", account="lost")
    finish.job_finished.ended_at_us += 3_600_000_000
    edges.publish(finish)
    eventually(lambda: edges.spent() == spent | {"lost": 192_000_000})


def test_charges_that_were_replaced_are_refused_until_an_operator_has_decided(edges: Edges) -> None:
    ledger = edges.deployment.name("prices.charges")
    with admin_client(edges.deployment) as client:
        client.delete_topics([ledger])
        eventually(lambda: ledger not in client.list_topics())
        client.create_topics({ledger: {"num_partitions": 4}})
    eventually(lambda: "prices.charges is another" in edges.not_ready("accounts"))
    eventually(lambda: "prices.charges is another" in edges.not_ready("pricing"))
    examined = edges.coplace("doctor")
    assert examined.returncode == 1
    assert "coplace restore rebuild accounts" in examined.stdout
    stopped = [edges.programs[name] for name in ("accounts", "pricing")]
    edges.servers.remove(stopped)
    eventually(lambda: not edges.coplace("restore", "accept", "pricing").returncode)
    assert not edges.coplace("restore", "rebuild", "accounts").returncode
    edges.servers.start(stopped)
    job = "north/alpha/after-restore/1"
    finish = of_job(job, "jobFinished", account="restored")
    finish.job_finished.ended_at_us += 3_600_000_000
    edges.publish(of_job(job, "jobSubmitted", account="restored"), finish)
    eventually(lambda: edges.spent() == {"restored": 192_000_000})


@pytest.mark.parametrize("name", list(_MODULES))
def test_sigterm_ends_a_service_gracefully(edges: Edges, name: str) -> None:
    def times_stopped() -> int:
        return edges.servers.log(name).read_text().count('"event":"stopped"')

    before = times_stopped()
    edges.servers.kill(name, signal.SIGTERM)
    eventually(lambda: times_stopped() == before + 1)
    edges.servers.wait_ready(name)


def test_an_invalid_unary_call_names_the_field(edges: Edges) -> None:
    with pytest.raises(grpc.RpcError) as error:
        edges.client.Publish(PublishRequest(event=envelope("jobSubmitted", walltimeS=-1)))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "job_submitted.walltime_s" in str(error.value.details())
