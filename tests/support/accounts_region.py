"""A Slurm with accounts, and what of Coplace charges its runs."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.pricing_pb2 import ChargeMade

from cli.kafka_topics import CHARGES, KafkaTopics
from cli.stages import create_topics
from coplace_client.facts import fact
from coplace_client.ingest import publish
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.process.clock import now_us
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.support.patience import PATIENCE_S
from tests.support.slurm_accounting import AccountingSlurm

NAMESPACE: Final = "slurm-accounts"
# What the Slurm is, which knows nothing of them.
_CLUSTERS: Final = {"gold": "n[1-2]", "rome": "n[3-4]"}
_SUMS: Final = re.compile(r"in the accounts, ([\d.e+]+) charged")
_PUBLISHED: Final = re.compile(r"published (\d+) facts, (\d+) were refused")

# As sacct writes a time that never was.
_NEVER: Final = ("None", "Unknown")


class AccountsRegion:
    """Ingest and pricing beside a Slurm, which does not know of them."""

    def __init__(
        self,
        servers: LocalServers,
        slurm: AccountingSlurm,
        namespace: str = NAMESPACE,
        ingest: str = "",
    ) -> None:
        """`ingest` is where one listens that runs already."""
        self._bootstrap, self._slurm, self._namespace = servers.kafka_bootstrap, slurm, namespace
        self.deployment = Deployment.from_settings(
            Settings(kafka_bootstrap=self._bootstrap, namespace=namespace, kafka_partitions=2)
        )
        create_topics(self.deployment)
        self._ports = free_ports(4)
        self._ingest = ingest or f"127.0.0.1:{self._ports[0]}"
        self._began_s = time.time()

    def programs(self) -> list[Program]:
        """What charges."""
        return [self._program("ingest", 1), self._program("pricing", 2)]

    def jobcomp(self) -> Program:
        """What reads the records of the plugin."""
        return self._program("ingest.jobcomp", 3)

    def _program(self, name: str, port: int) -> Program:
        http_port = self._ports[port]
        environment = {
            **self._environment(),
            "COPLACE_HTTP_PORT": str(http_port),
            "COPLACE_INGEST_PORT": str(self._ports[0]),
            "COPLACE_PRICING_GRACE_S": "0",
            "COPLACE_INGEST_JOBCOMP_SITE": "north",
            "COPLACE_INGEST_JOBCOMP_CLUSTERS": ",".join(_CLUSTERS),
        }
        command = [sys.executable, "-m", f"services.{name}"]
        ready = f"http://127.0.0.1:{http_port}/readyz"
        return Program(f"accounts-{name.replace('.', '-')}", command, environment, ready)

    def declare(self) -> None:
        """Declare the clusters that the Slurm is: `jobcomp` waits for it."""
        for cluster, nodes in _CLUSTERS.items():
            declared = ClusterDeclared(
                cluster=cluster,
                site="north",
                node_model=f"model-{cluster}",
                nodes=2,
                cores_per_node=8,
                pstates_ghz=[2.0],
                idle_power_w=50,
                peak_bandwidth_gbps=100,
                node_names=[nodes],
            )
            event = fact("north", declared, cluster, now_us())
            publish(f"127.0.0.1:{self._ports[0]}", Settings(), event)

    def catch_up(self) -> tuple[int, int]:
        """How many facts were published, and how many of them refused."""
        done = self._coplace("catch-up", f"--ingest={self._ingest}")
        found = _PUBLISHED.search(done.stdout)
        assert found, done.stderr
        return int(found[1]), int(found[2])

    def core_s(self) -> tuple[float, float]:
        """The core time in the accounts, by their times as text, and the charged one, s. In 22.05
        each part of a run that was resized has the start of the job. A run that was requeued ended
        with its script, which may have been before."""
        said = _SUMS.search(self._coplace("reconcile").stderr)
        assert said
        columns = "--format=jobid,state,submit,start,end,suspended,alloccpus,nodelist"
        options = ("--allusers", "--duplicates", "--starttime=now-1hour")
        said_rows = self._slurm.say("sacct", *options, "--noheader", "--parsable2", columns)
        runs: list[list[str]] = []
        for name, state, *row in (line.split("|") for line in said_rows.splitlines()):
            if "." not in name:
                runs.append([state, *row])
            elif name.endswith(".batch") and runs[-1][0] == "REQUEUED":
                runs[-1][3] = min(runs[-1][3], row[2])
        return sum(_core_s(*row) for _, *row in runs), float(said[1])

    def reconcile(self) -> tuple[int, list[str]]:
        """How it ended, and a line for each difference."""
        done = self._coplace("reconcile", "--output=csv")
        assert done.returncode in (0, 1), done.stderr
        return done.returncode, done.stdout.splitlines()[1:]

    def record(self) -> str:
        """What placement decided by, as `coplace simulate --recorded` reads it."""
        done = self._run("tail", "placement.inputs")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def until_reconciled(self) -> None:
        """Wait until all that was published is charged."""
        deadline_s = time.monotonic() + PATIENCE_S
        while (found := self.reconcile()) != (0, []):
            assert time.monotonic() < deadline_s, found
            time.sleep(1)

    def charged_clusters(self) -> set[str]:
        """Return the clusters on which jobs were charged."""
        charges = KafkaTopics(self.deployment).topic(CHARGES)
        return {each.payload.cluster for each in charges if isinstance(each.payload, ChargeMade)}

    def _coplace(self, verb: str, *more: str) -> "subprocess.CompletedProcess[str]":
        begin = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._began_s - 3600))
        clusters = [f"--cluster={name}" for name in _CLUSTERS]
        return self._run("slurm", verb, "--site=north", f"--from={begin}", *clusters, *more)

    def _run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", "from cli.main import app; app()", *command],
            env={**self._slurm.environment, **self._environment()},
            capture_output=True,
            text=True,
            check=False,
        )

    def _environment(self) -> dict[str, str]:
        return {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "COPLACE_KAFKA_BOOTSTRAP": self._bootstrap,
            "COPLACE_NAMESPACE": self._namespace,
            "COPLACE_KAFKA_PARTITIONS": "2",
        }


def of_core_time(lines: Sequence[str], what: str) -> list[str]:
    """The differences of one kind."""
    return [line for line in lines if what in line]


def _core_s(submit: str, start: str, end: str, suspended: str, cores: str, nodes: str) -> float:
    if nodes == "None assigned" or start in _NEVER:  # it was cancelled before its nodes were ready
        return 0
    hours, minutes, seconds = map(int, suspended.split(":"))
    ran = datetime.fromisoformat(end) - max(map(datetime.fromisoformat, (submit, start)))
    return (ran.total_seconds() - 3_600 * hours - 60 * minutes - seconds) * int(cores)
