"""A Slurm, what lies between, and Coplace as processes."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

from cli.kafka_topics import KafkaTopics
from cli.main import app
from cli.stages import create_topics
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from services.slurm.adapters.commands import Slurm
from services.slurm.model.jobs import SlurmJob
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.support.patience import PATIENCE_S
from tests.support.slurm import LocalSlurm

NAMESPACE: Final = "slurm"
CLUSTERS: Final = """\
clusters:
- {name: alpha, node_model: gold-6254, pstates_ghz: [1.2, 2.0, 3.1], idle_power_w: 110,
   peak_bandwidth_gbps: 140}
"""
# A test takes a partition down that placement is to know as up.
EVERY: Final = {
    "COPLACE_SLURM_LOOKS_EVERY_S": "0.5",
    "COPLACE_SLURM_IDLE_LOOKS_EVERY_S": "0.5",
    "COPLACE_SLURM_NODES_EVERY_S": "0.5",
    "COPLACE_SLURM_NOTES_EVERY_S": "1",
    "COPLACE_SLURM_NOTES_PER_MINUTE": "600",
    "COPLACE_SLURM_DECLARES_EVERY_S": "3600",
}
# As the process has them by itself.
DEFAULTS: Final = {
    "COPLACE_SLURM_LOOKS_EVERY_S": "1",
    "COPLACE_SLURM_IDLE_LOOKS_EVERY_S": "3",
    "COPLACE_SLURM_NODES_EVERY_S": "20",
    "COPLACE_SLURM_DECLARES_EVERY_S": "60",
}


class Region:
    """A Slurm, what lies between, and Coplace."""

    def __init__(
        self, servers: LocalServers, slurm: LocalSlurm, namespace: str = NAMESPACE
    ) -> None:
        self.slurm, self._namespace = slurm, namespace
        self.deployment = Deployment.from_settings(
            Settings(
                kafka_bootstrap=servers.kafka_bootstrap, namespace=namespace, kafka_partitions=2
            )
        )
        create_topics(self.deployment)
        self._ports = free_ports(10)
        self._between: subprocess.Popen[bytes] | None = None
        self.ingest, self.placement = (f"127.0.0.1:{port}" for port in self._ports[:2])

    def programs(self) -> list[Program]:
        """Ingest, placement and watch."""
        return [
            self._program("ingest", "INGEST", self._ports[0], self._ports[2]),
            self._program("placement", "PLACEMENT", self._ports[1], self._ports[3]),
            self._program("watch", "WATCH", self._ports[5], self._ports[6]),
        ]

    def jobcomp(self) -> Program:
        """What reads the records of the plugin."""
        found = self._program("ingest.jobcomp", "INGEST", self._ports[0], self._ports[4])
        site = {"COPLACE_INGEST_JOBCOMP_SITE": "north", "COPLACE_INGEST_JOBCOMP_CLUSTER": "alpha"}
        return replace(found, env={**found.env, **site})

    def pricing(self) -> Program:
        """What charges."""
        found = self._program("pricing", "PRICING", self._ports[8], self._ports[9])
        return replace(found, env={**found.env, "COPLACE_PRICING_GRACE_S": "0"})

    def _program(self, name: str, prefix: str, port: int, http_port: int) -> Program:
        environment = {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "COPLACE_NAMESPACE": self._namespace,
            "COPLACE_KAFKA_PARTITIONS": "2",
            "COPLACE_HTTP_PORT": str(http_port),
            f"COPLACE_{prefix}_PORT": str(port),
        }
        command = [sys.executable, "-m", f"services.{name}"]
        return Program(
            f"{self._namespace}-{name.replace('.', '-')}",
            command,
            environment,
            f"http://127.0.0.1:{http_port}/readyz",
        )

    def start(self, clusters: str = CLUSTERS, **more: str) -> None:
        """Start the resource manager of this Slurm."""
        file = self.slurm.folder / "clusters.yaml"
        file.write_text(clusters)
        environment = {
            **self.slurm.environment,
            **EVERY,
            "PYTHONPATH": os.pathsep.join(sys.path),
            # It has no Kafka.
            "COPLACE_KAFKA_BOOTSTRAP": "127.0.0.1:1",
            "COPLACE_HTTP_PORT": str(self._ports[7]),
            "COPLACE_SLURM_SITE": "north",
            "COPLACE_SLURM_CLUSTERS_FILE": str(file),
            "COPLACE_SLURM_CURSOR_FILE": str(self.slurm.folder / "cursor"),
            "COPLACE_SLURM_HEARTBEAT_FILE": str(self.heartbeat),
            "COPLACE_SLURM_ENDED_DIR": str(self.slurm.ended),
            "COPLACE_SLURM_SUBMITTED_FILE": str(self.slurm.submitted),
            "COPLACE_SLURM_INGEST_ADDRESS": self.ingest,
            "COPLACE_SLURM_PLACEMENT_ADDRESS": self.placement,
            "COPLACE_SLURM_WATCH_ADDRESS": f"127.0.0.1:{self._ports[5]}",
            **more,
        }
        command = [sys.executable, "-m", "services.slurm"]
        with (self.slurm.folder / "service.log").open("ab") as log:
            self._between = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    @property
    def heartbeat(self) -> Path:
        """The file whose time is when Coplace last spoke."""
        return self.slurm.folder / "heartbeat"

    @property
    def between(self) -> subprocess.Popen[bytes]:
        """The process beside this Slurm."""
        assert self._between is not None
        return self._between

    def kill(self) -> None:
        """End it at once."""
        if self._between is not None:
            self._between.kill()
            self._between.wait(30)

    def is_ready(self) -> bool:
        """Whether it does its work."""
        try:
            return "ready" in self.page("readyz")
        except OSError:
            return False

    def jobs(self) -> list[SlurmJob]:
        """What Slurm shows."""
        return Slurm().jobs()

    def page(self, name: str) -> str:
        """What a page of it says, such as `metrics`."""
        url = f"http://127.0.0.1:{self._ports[7]}/{name}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    def job(self, number: int) -> SlurmJob:
        """A job as Slurm shows it."""
        [found] = [job for job in Slurm().jobs() if job.job_id == number]
        return found

    def is_cancelled(self, number: int) -> bool:
        """Whether it is over in Slurm by somebody's word."""
        return self.job(number).state == "CANCELLED"

    def has_nodes(self, number: int) -> bool:
        """Whether it runs in Slurm, or is about to."""
        return self.job(number).has_nodes

    def has_run_for(self, number: int, least_s: float) -> bool:
        """Whether it began so long ago by Slurm's word."""
        return time.time() >= float(self.job(number).fields["start_time"]) + least_s

    def id_of(self, number: int) -> str:
        """Its id in Coplace."""
        return f"north/alpha/{number}/{self.job(number).submit_s}"

    def ask(self, *arguments: str) -> str:
        """What `coplace` answers."""
        return self._asked(*arguments).output

    def _asked(self, *arguments: str) -> Result:
        where = {"COPLACE_PLACEMENT_ADDRESS": self.placement, "COPLACE_INGEST_ADDRESS": self.ingest}
        return CliRunner().invoke(app, arguments, env=where)

    def release(self, number: int) -> None:
        """Let a job in that its user held. Raises AssertionError where that is not known yet."""
        result = self._asked("release", self.id_of(number))
        assert result.exit_code == 0, result.output

    def until_said(self, words: str, *command: str) -> None:
        """Wait until a command says these words."""
        deadline_s = time.monotonic() + PATIENCE_S
        while words not in (said := self.ask(*command)):
            assert time.monotonic() < deadline_s, f"{words} is not in {said}"
            time.sleep(0.2)

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until something holds."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not holds():
            told = "".join(log.read_text() for log in self.slurm.folder.glob("*.log"))
            assert time.monotonic() < deadline_s, f"{what} did not come: {told[-3000:]}"
            time.sleep(0.2)

    def facts(self, kind: type[Any], job_id: str) -> list[Any]:
        """What `jobs.events` holds of a job, of one kind, without what comes again: squeue and
        jobcomp.lua both report an end, in the same words."""
        found: dict[str, Any] = {}
        for event in KafkaTopics(self.deployment).topic("jobs.events"):
            if isinstance(event.payload, kind) and event.payload.job_id == job_id:
                assert found.setdefault(event.id, event.payload) == event.payload
        return list(found.values())


@contextmanager
def connected(
    servers: LocalServers,
    slurm: LocalSlurm,
    namespace: str = NAMESPACE,
    clusters: str = CLUSTERS,
    **more: str,
) -> Iterator[Region]:
    """A Slurm that runs, and what connects it; commands of this process are those of that Slurm.
    `more` is of the environment of the process beside it."""
    with ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        stack.enter_context(slurm)
        for name in ("SLURM_CONF", "PATH"):
            environment.setenv(name, slurm.environment[name])
        found = Region(servers, slurm, namespace)
        programs = found.programs()
        servers.start(programs)
        stack.callback(servers.remove, programs)
        found.start(clusters, **more)
        stack.callback(found.kill)
        yield found
