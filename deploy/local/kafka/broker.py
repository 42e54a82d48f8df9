"""The broker's configuration, its storage and the program that runs it."""

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from urllib.parse import urlencode

from deploy.local.credentials import Credentials
from deploy.local.errors import LocalServersError
from deploy.local.kafka.archive import archive_of, make, taking
from deploy.local.kafka.artifacts import kafka_jars
from deploy.local.ports import free_ports
from deploy.local.prerequisites import require_java
from deploy.local.program import Program

# A message's key, headers and batch frame come on top of its payload.
_HEADROOM_BYTES = 64 * 1024
_LOG_CONFIG = Path(__file__).with_name("log4j2.xml")
# A local broker lives for minutes, in which the optimising compiler and a concurrent collector
# would take half of what it uses from the services beside it.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# The broker's own name, of its certificate: it and holders of this certificate may do anything.
KAFKA: Final = "kafka"
NODE_ID: Final = 1


class KafkaPorts(NamedTuple):
    """Where clients, the broker itself and its controller are; the second of a secure one alone."""

    clients: int
    internal: int
    controller: int


def kafka_program(
    data_dir: Path, ports: KafkaPorts, payload_bytes: int, credentials: Credentials | None = None
) -> Program:
    """Return a broker on loopback with its data in `data_dir`, which is formatted if it is new.

    `payload_bytes` is the largest payload that it takes; with `credentials` it speaks TLS alone,
    asks clients for a password of SCRAM-SHA-512, and lets them do what its access control list
    says.
    Raises PrerequisiteError without Java or Maven, LocalServersError if the storage is refused.
    """
    require_java()
    jars = kafka_jars()
    archive = archive_of(jars)
    if not archive.exists():
        _make_archive(archive, jars)
    argv = _stored(_java(jars, taking(archive)), data_dir, ports, payload_bytes, credentials)
    return Program(name="kafka", argv=argv, ready_url=_ready_url(ports, credentials))


def _java(jars: Path, options: Sequence[str] = ()) -> list[str]:
    log = f"-Dlog4j2.configurationFile={_LOG_CONFIG}"
    return ["java", *_SHORT_LIVED, *options, log, "-cp", f"{jars}/*"]


def _make_archive(archive: Path, jars: Path) -> None:
    """Run a broker of no data, once on a machine."""
    ports = KafkaPorts(*free_ports(len(KafkaPorts._fields)))
    with TemporaryDirectory() as scratch:
        broker = _stored(_java(jars), Path(scratch), ports, 1)
        make(archive, broker, _ready_url(ports, None))


def _stored(
    java: list[str],
    data_dir: Path,
    ports: KafkaPorts,
    payload_bytes: int,
    credentials: Credentials | None = None,
) -> list[str]:
    """Return the command of a broker whose settings are written and whose storage is formatted."""
    config = data_dir / "server.properties"
    data_dir.mkdir(parents=True, exist_ok=True)
    properties = {
        **server_properties(data_dir / "log", payload_bytes),
        **listener_properties(ports, credentials),
    }
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    if not (data_dir / "log" / "meta.properties").exists():
        _format(java, config)
    return [*java, "-Xmx512m", "-XX:+ExitOnOutOfMemoryError", "kafka.Kafka", str(config)]


def _ready_url(ports: KafkaPorts, credentials: Credentials | None) -> str:
    """Of a secure one where it speaks to itself: there it believes its own certificate before any
    user has a password."""
    if credentials is None:
        return f"kafka://127.0.0.1:{ports.clients}"
    certificate, key = credentials.identity(KAFKA)
    files = {"ca_file": credentials.authority, "cert_file": certificate, "key_file": key}
    return f"kafka+ssl://127.0.0.1:{ports.internal}?{urlencode(files)}"


def reloaded_files(credentials: Credentials) -> Mapping[str, str]:
    """Return the settings that make a secure broker read its certificate and its authorities again
    while it runs."""
    files = {
        "ssl.keystore.location": str(credentials.identity(KAFKA).certificate),
        "ssl.truststore.location": str(credentials.authority),
    }
    return {
        f"listener.name.{listener}.{setting}": file
        for listener in ("clients", "internal", "controller")
        for setting, file in files.items()
    }


def listener_properties(ports: KafkaPorts, credentials: Credentials | None) -> Mapping[str, str]:
    """Return where the broker listens, and whom it believes there: anybody without
    `credentials`."""
    if credentials:
        return _secure(ports, credentials)
    return {
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{ports.controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{ports.clients},"
        f"CONTROLLER://127.0.0.1:{ports.controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports.clients}",
    }


def _secure(ports: KafkaPorts, credentials: Credentials) -> Mapping[str, str]:
    """Clients show a password; the broker and its controller show each other the certificate."""
    advertised = f"CLIENTS://127.0.0.1:{ports.clients},INTERNAL://127.0.0.1:{ports.internal}"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    return {
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{ports.controller}",
        "listeners": f"{advertised},CONTROLLER://127.0.0.1:{ports.controller}",
        "advertised.listeners": advertised,
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,INTERNAL:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": scram,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(credentials.identity(KAFKA).certificate),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(credentials.authority),
        "listener.name.internal.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{KAFKA}",
    }


def server_properties(log_dir: Path, payload_bytes: int) -> Mapping[str, str | int]:
    """Return the broker's settings but for its listeners: one node that is both broker and
    controller."""
    message_bytes = payload_bytes + _HEADROOM_BYTES
    return {
        "process.roles": "broker,controller",
        "node.id": NODE_ID,
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(log_dir),
        "message.max.bytes": message_bytes,
        "replica.fetch.max.bytes": message_bytes,
        # Topics are created from their files; a misspelt one is an error.
        "auto.create.topics.enable": "false",
        # With one broker nothing can have a second copy.
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        # Groups start at once, and a member that died is noticed as fast as its own
        # session_timeout_s says.
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1_000,
        # A killed broker may rejoin only when its old session is over; the defaults of 9 s and
        # 2 s are made for a network between the broker and its controller.
        "broker.session.timeout.ms": 3_000,
        "broker.heartbeat.interval.ms": 500,
        # Two empty records a second show followers that the controller lives; here are none, and
        # they are a third of what an idle broker does.
        "metadata.max.idle.interval.ms": 0,
        # The defaults of 50 serve large clusters and cost start-up and recovery time here.
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
    }


def _format(java: list[str], config: Path) -> None:
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
    tool = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(config)]
    done = subprocess.run([*java, *tool], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LocalServersError(
            f"Apache Kafka refused the storage that {config} describes: remove {config.parent}, "
            f"then try again.\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
