"""From the energy topics through Redis to an answer over gRPC, on real servers, with kills."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.energy_pb2 import SignatureUpdated
from google.protobuf.message import Message
from typer.testing import CliRunner

from cli.energy import ask
from cli.main import app
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.catalogue.event import Event, Publish
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client, ensure_topics
from shared.streams.on_kafka.clients import Publisher, Reader
from shared.streams.on_kafka.deployment import Deployment
from tests.support.redis_loss import lose
from tests.support.snippets import HOW_TO, write_programs
from tests.unit.services.energy.api.appdb import PSTATES_GHZ, SCALE, coefficients, row

_DEADLINE_S = 60.0
_MODULES = {"appdb-cache": "services.energy.appdb_cache", "energy-api": "services.energy.api"}
APPS = 50


class Energy:
    """The cache and the API, and what a test sees of them."""

    def __init__(self, servers: LocalServers) -> None:
        self.servers = servers
        settings = Settings(
            kafka_bootstrap=servers.kafka_bootstrap, namespace="energy", kafka_partitions=4
        )
        self.deployment = Deployment.from_settings(settings)
        with admin_client(self.deployment) as client:
            ensure_topics(client, self.deployment)
        self.redis = redis.Redis.from_url(servers.redis_url)
        self._api_port, *ports = free_ports(1 + len(_MODULES))
        self._programs = list(map(self._program, _MODULES, ports))
        servers.start(self._programs)

    def close(self) -> None:
        """End the processes, and disconnect."""
        self.servers.remove(self._programs)
        self.redis.close()

    @property
    def address(self) -> str:
        """Of the API."""
        return f"127.0.0.1:{self._api_port}"

    def publish(self, *payloads: Message, time_us: int = 1_767_225_600_000_000) -> None:
        """Append events as the energy service's stages would."""
        codec = self.deployment.codec
        with Publisher(self.deployment) as publisher:
            publisher.append(codec.encode(_published(each, time_us)) for each in payloads)

    def rows(self) -> Mapping[bytes, bytes]:
        """All that the cache holds."""
        found: Any = self.redis.hgetall("energy.appdb:signatures")
        tables: Any = self.redis.hgetall("energy.appdb:coefficients")
        return {**found, **tables}

    def dead_letters(self, topic: str) -> list[Message]:
        """What could not be used."""
        places = self.deployment.topics.partitions(f"dlq.{topic}")
        with Reader(self.deployment, places) as reader:
            return [self.deployment.codec.decode(record).payload for record in reader.to_end()]

    def _program(self, name: str, port: int) -> Program:
        return Program(
            name,
            [sys.executable, "-m", _MODULES[name]],
            env={
                "PYTHONPATH": os.pathsep.join(sys.path),
                "COPLACE_NAMESPACE": "energy",
                "COPLACE_KAFKA_PARTITIONS": "4",
                "COPLACE_SESSION_TIMEOUT_S": "2",
                "COPLACE_HTTP_PORT": str(port),
                "COPLACE_ENERGY_API_PORT": str(self._api_port),
            },
            ready_url=f"http://127.0.0.1:{port}/readyz",
        )


def _published(payload: Message, time_us: int) -> Publish:
    is_row = isinstance(payload, SignatureUpdated)
    topic, source = (
        ("energy.signatures", "energy.appdb")
        if is_row
        else ("energy.coefficients", "energy.learner")
    )
    values: Any = payload
    key = f"{values.app_id}|{values.node_model}" if is_row else values.node_model
    return Publish(topic, Event(f"{source}/{key}/{time_us}", source, time_us, key, payload))


def measured(app_id: str) -> SignatureUpdated:
    """A row of the application database."""
    return SignatureUpdated.FromString(row(app_id))


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + _DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def energy(servers: LocalServers) -> Iterator[Energy]:
    """Services and fifty applications for all cases."""
    found = Energy(servers)
    found.publish(coefficients(), *(measured(f"app{number}") for number in range(APPS)))
    eventually(lambda: len(found.rows()) == APPS + 1)
    yield found
    found.close()


def test_what_was_published_is_projected_by_the_command_line(energy: Energy) -> None:
    asked = ["energy", "ask", "--app=app7", "--app=nobody", f"--address={energy.address}"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    rows = [line.split("|") for line in result.stdout.splitlines() if "app7" in line]
    assert [cells[3].strip() for cells in rows] == [f"{ghz:g}" for ghz in PSTATES_GHZ]
    assert "nobody on gold: the application has no signature" in result.stderr


def test_the_program_of_the_how_to_asks_for_an_application_and_a_signature(
    energy: Energy, tmp_path: Path
) -> None:
    write_programs(HOW_TO / "ask-for-projections.md", tmp_path)
    command = [sys.executable, "ask.py", energy.address, "app3", "gold", SCALE]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    # These coefficients give every P-state the same energy: which is the least, rounding decides.
    assert [line.partition(" at ")[0] for line in result.stdout.splitlines()] == [
        "app3: least energy 15000 J",
        "mine: least energy 13120 J",
    ]


def test_a_refused_question_ends_the_command_with_the_field(energy: Energy) -> None:
    result = CliRunner().invoke(app, ["energy", "ask", "--app=", f"--address={energy.address}"])
    assert result.exit_code == 1
    assert "subjects[0].app_id" in result.stderr


def test_a_killed_cache_has_the_same_rows_and_goes_on(energy: Energy) -> None:
    before = energy.rows()
    energy.servers.kill("appdb-cache")
    energy.publish(measured("after-the-kill"))
    energy.servers.wait_ready("appdb-cache")
    eventually(lambda: b"after-the-kill|gold" in energy.rows())
    assert {**energy.rows(), **before} == energy.rows()


def test_what_cannot_be_projected_from_is_a_dead_letter_and_what_follows_is_kept(
    energy: Energy,
) -> None:
    broken = measured("broken")
    broken.at[0].power_w = -1.0
    energy.publish(broken, measured("follows"))
    eventually(lambda: b"follows|gold" in energy.rows())
    assert b"broken|gold" not in energy.rows()
    eventually(lambda: len(energy.dead_letters("energy.signatures")) == 1)
    [letter] = energy.dead_letters("energy.signatures")
    assert isinstance(letter, DeadLetter)
    assert letter.reason.startswith("at[0].power_w")


def test_a_redis_that_lost_everything_is_filled_again_although_nothing_new_comes(
    energy: Energy,
) -> None:
    before = energy.rows()
    lose(energy.redis, "energy")
    eventually(lambda: energy.rows() == before)
    answered = ask.project(energy.address, ask.request(["app7"]))
    assert tuple(answered[0].freq_ghz) == PSTATES_GHZ
