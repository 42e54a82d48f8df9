"""The broker's configuration, its storage and the program that runs it."""

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from deploy.local.errors import LocalServersError
from deploy.local.kafka.artifacts import kafka_jars
from deploy.local.prerequisites import require_java
from deploy.local.program import Program

# A message's key, headers and batch frame come on top of its payload.
_HEADROOM_BYTES = 64 * 1024
_LOG_CONFIG = Path(__file__).with_name("log4j2.xml")
# A local broker lives for minutes, in which the optimising compiler and a concurrent collector
# would take half of what it uses from the services beside it.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def kafka_program(data_dir: Path, port: int, controller_port: int, payload_bytes: int) -> Program:
    """A broker on loopback with its data in `data_dir`, which is formatted if it is new.

    `payload_bytes` is the largest payload that it takes.
    Raises PrerequisiteError without Java or Maven, LocalServersError if the storage is refused.
    """
    require_java()
    java = [
        "java",
        *_SHORT_LIVED,
        f"-Dlog4j2.configurationFile={_LOG_CONFIG}",
        "-cp",
        f"{kafka_jars()}/*",
    ]
    config = data_dir / "server.properties"
    data_dir.mkdir(parents=True, exist_ok=True)
    properties = server_properties(data_dir / "log", port, controller_port, payload_bytes)
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    if not (data_dir / "log" / "meta.properties").exists():
        _format(java, config)
    return Program(
        name="kafka",
        argv=[*java, "-Xmx512m", "-XX:+ExitOnOutOfMemoryError", "kafka.Kafka", str(config)],
        ready_url=f"kafka://127.0.0.1:{port}",
    )


def server_properties(
    log_dir: Path, port: int, controller_port: int, payload_bytes: int
) -> Mapping[str, str | int]:
    """The broker's settings: one node that is both broker and controller."""
    message_bytes = payload_bytes + _HEADROOM_BYTES
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
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
        # A killed broker may come back only when its old session is over; the defaults of 9 s and
        # 2 s are made for a network between the broker and its controller.
        "broker.session.timeout.ms": 3_000,
        "broker.heartbeat.interval.ms": 500,
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
