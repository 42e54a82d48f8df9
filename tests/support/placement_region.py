"""A region of ingest and placement as processes on real Kafka, and what is reported and asked
there over gRPC."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import grpc
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.ingest_service_pb2 import Envelope, PublishRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub
from coplace.v1.jobs_pb2 import JobSubmitted
from typer.testing import CliRunner

from cli.main import app
from cli.stages import create_topics
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment

_DEADLINE_S: Final = 120.0


class Region:
    """Ingest and placement, and what a test publishes and asks."""

    def __init__(self, servers: LocalServers, namespace: str) -> None:
        self.servers, self.namespace = servers, namespace
        settings = Settings(
            kafka_bootstrap=servers.kafka_bootstrap, namespace=namespace, kafka_partitions=2
        )
        create_topics(Deployment.from_settings(settings))
        self._ports = dict(zip(("ingest", "placement", "energy"), free_ports(3), strict=True))
        programs = zip(self._ports.items(), free_ports(3), strict=True)
        self._programs = [self._program(*named, http) for named, http in programs]
        servers.start(self._programs)

    def close(self) -> None:
        """End the processes."""
        self.servers.remove(self._programs)

    def kill_placement(self) -> None:
        """End it hard, and wait for it to be there again."""
        name = self._name("placement")
        self.servers.kill(name)
        self.servers.wait_ready(name)

    def tell(self, **payload: object) -> None:
        """Report a fact as a resource manager does."""
        [message] = payload.values()
        now_us = time.time_ns() // 1000
        name = message.DESCRIPTOR.full_name  # type: ignore[attr-defined]
        event = Envelope(id=f"north/{name}/{now_us}", source="north", time_us=now_us, **payload)  # type: ignore[arg-type]
        with grpc.insecure_channel(self._address("ingest")) as channel:
            IngestServiceStub(channel).Publish(PublishRequest(event=event), timeout=60)

    def coplace(self, *words: str) -> str:
        """What a command prints."""
        environment = {f"COPLACE_{n.upper()}_ADDRESS": self._address(n) for n in self._ports}
        return CliRunner().invoke(app, [*words], env=environment).output

    def coplace_on_kafka(self, *words: str) -> str:
        """What a command prints that reads topics."""
        program = [sys.executable, "-c", "from cli.main import app; app()", *words]
        environment = {**os.environ, **self._environment}
        environment["COPLACE_INGEST_ADDRESS"] = self._address("ingest")
        run = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
        return run.stdout + run.stderr

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "COPLACE_KAFKA_BOOTSTRAP": self.servers.kafka_bootstrap,
            "COPLACE_NAMESPACE": self.namespace,
            "COPLACE_KAFKA_PARTITIONS": "2",
        }

    def until(self, is_so: Callable[[str], bool], *words: str) -> str:
        """What a command prints once that is so."""
        deadline = time.monotonic() + _DEADLINE_S
        while not is_so(told := self.coplace(*words)):
            assert time.monotonic() < deadline, told
            time.sleep(0.2)
        return told

    def _address(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"

    def _name(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    def _program(self, name: str, port: int, http_port: int) -> Program:
        return Program(
            self._name(name),
            [sys.executable, "-m", f"services.{name}"],
            env={
                **self._environment,
                "COPLACE_SESSION_TIMEOUT_S": "6",
                "COPLACE_HTTP_PORT": str(http_port),
                f"COPLACE_{name.upper()}_PORT": str(port),
                "COPLACE_PLACEMENT_START_TIMEOUT_S": "0",
                "COPLACE_PLACEMENT_MOST_NODE_FAILURES": "1",
            },
            ready_url=f"http://127.0.0.1:{http_port}/readyz",
        )


def cluster(name: str, **changes: Any) -> ClusterDeclared:
    values: dict[str, Any] = {
        "cluster": name,
        "site": "north",
        "node_model": "gold-6254",
        "nodes": 4,
        "cores_per_node": 36,
        "pstates_ghz": [1.2, 3.1],
        "idle_power_w": 100,
        "peak_bandwidth_gbps": 200,
    }
    return ClusterDeclared(**(values | changes))


def job(number: int, nodes: int, **changes: Any) -> JobSubmitted:
    now_us = time.time_ns() // 1000
    values: dict[str, Any] = {
        "job_id": f"north/alpha/{number}/1767225600",
        "attempt": 1,
        "user": "ada",
        "account": "physics",
        "nodes": nodes,
        "walltime_s": 3600,
        "reference_cluster": "alpha",
        "submitted_at_us": now_us,
    }
    return JobSubmitted(**(values | changes))
