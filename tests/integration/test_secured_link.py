"""The link of a site between two Kafkas that let nobody in without a password: MirrorMaker 2 by
the chart's own files, secrets in its environment, as the users of the access control lists."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from cli.security import Security
from cli.stages import create_topics
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.streams.on_kafka.deployment import Deployment
from tests.helm.chart import ROOT, named, render
from tests.support.secured import Secured
from tests.support.sites import mirror_program

pytestmark = pytest.mark.thorough

_SITE = ROOT / "helm/examples/site.yaml"
_WITHIN_MS = 90_000
_MESSAGES = 20
# It would make an empty topic of this name where it may.
_OWN = "Topic:LITERAL:heartbeats"


@dataclass
class SecuredLink:
    """Both ends, and who is who there."""

    hub: Secured
    site: Secured

    def send(self, end: Secured, principal: str, topic: str) -> set[bytes]:
        """Messages of a principal; what they say."""
        deployment = Deployment.from_settings(end.settings(principal))
        told = {f"{topic}-{number}".encode() for number in range(_MESSAGES)}
        with closing(KafkaProducer(**deployment.connection)) as producer:
            for value in sorted(told):
                producer.send(deployment.name(topic), value, key=b"key").get(20)
        return told

    def come(self, end: Secured, topic: str) -> list[bytes]:
        """What has come there, once as much came as was sent."""
        deployment = Deployment.from_settings(end.settings("operator"))
        options: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "consumer_timeout_ms": _WITHIN_MS,
            "isolation_level": "read_committed",
        }
        values: list[bytes] = []
        with closing(KafkaConsumer(topic, **deployment.connection, **options)) as consumer:
            for record in consumer:
                values.append(record.value)
                if len(values) == _MESSAGES:
                    break
        return values


def secured(folder: Path, clients: dict[str, str], stack: ExitStack) -> Secured:
    """A Kafka with every principal, these clients, and all topics."""
    security = Security(folder, "")
    security.credentials.create()
    for client, role in clients.items():
        security.add_client(client, role)
    security.prepare()
    servers = LocalServers(folder / "run", redis=False, secure=security.redis)
    stack.enter_context(servers)
    security.provision(servers)
    found = Secured(servers, security)
    create_topics(Deployment.from_settings(found.settings("operator")))
    return found


def mirror(folder: Path, link: SecuredLink) -> Program:
    """MirrorMaker 2 with the settings, the files and the variables that the chart gives it."""
    sets = (
        f"kafka.bootstrap={link.site.servers.kafka_bootstrap}",
        "kafka.securityProtocol=SASL_SSL,kafka.tlsSecret=ca,kafka.sasl.secretPrefix=kafka-",
        f"hub.bootstrap={link.hub.servers.kafka_bootstrap}",
    )
    rendered = render(_SITE, *(word for each in sets for word in ("--set", each)))
    mended = {
        "/etc/coplace/hub/ca.crt": str(link.hub.security.credentials.authority),
        "/etc/coplace/kafka/ca.crt": str(link.site.security.credentials.authority),
    }
    files = named(rendered, "ConfigMap")["region-mirror"]["data"]
    secrets = {"coplace-hub-user": (link.hub, "north"), "kafka-mirror": (link.site, "mirror")}
    [container] = named(rendered, "Deployment")["region-mirror"]["spec"]["template"]["spec"][
        "containers"
    ]
    env: dict[str, str] = {}
    for each in container["env"]:
        if "valueFrom" in each:
            found = each["valueFrom"]["secretKeyRef"]
            end, user = secrets[found["name"]]
            password = end.security.credentials.password(user)
            env[each["name"]] = {"username": user, "password": password}[found["key"]]
    return mirror_program(folder, files, mended, env)


@pytest.fixture
def link(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SecuredLink]:
    """The paths of Unix sockets are short: folders are not named by the tests."""
    folder = tmp_path_factory.mktemp("l")
    for name in ("COPLACE_KAFKA_BOOTSTRAP", "COPLACE_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    with ExitStack() as stack:
        hub = secured(folder / "hub", {"north": "site"}, stack)
        site = secured(folder / "site", {}, stack)
        found = SecuredLink(hub, site)
        site.servers.start([mirror(tmp_path, found)])
        yield found


def test_the_users_of_the_access_control_lists_carry_both_ways_and_ask_for_nothing_else(
    link: SecuredLink, tmp_path: Path
) -> None:
    said = link.send(link.site, "ingest", "jobs.events")
    decided = link.send(link.hub, "placement", "placement.decisions")
    assert sorted(link.come(link.hub, "jobs.events")) == sorted(said)
    assert sorted(link.come(link.site, "placement.decisions")) == sorted(decided)
    for end in (link.hub, link.site):
        log = end.servers.log("kafka").read_text()
        assert not [line for line in log.splitlines() if "is Denied" in line and _OWN not in line]
    assert not (tmp_path / "failed").read_text()
    assert "sends to the hub as the site north already" in preflight(link.hub)


def preflight(hub: Secured) -> str:
    """The error of another site of this name, which has the password."""
    command = [str(Path(sys.executable).with_name("coplace")), "preflight"]
    environment = {**os.environ, **hub.environment("north")}
    done = subprocess.run(
        [*command, "--link", "north", "--new"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr


def test_a_site_may_not_decide_and_its_mirror_may_not_speak_for_resource_managers(
    link: SecuredLink,
) -> None:
    for end, principal, topic in (
        (link.hub, "north", "placement.decisions"),
        (link.site, "mirror", "jobs.events"),
    ):
        with pytest.raises(TopicAuthorizationFailedError):
            link.send(end, principal, topic)
