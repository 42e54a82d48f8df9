"""Entry points as real processes on real servers, in an empty namespace."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import yaml

from cli.stages import create_topics
from deploy.local.ports import free_ports
from shared.process.clock import now_us
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client
from shared.streams.on_kafka.clients import Publisher
from shared.streams.on_kafka.deployment import Deployment
from tests.starts.declared import Value
from tests.starts.entry_points import WAITING, EntryPoint
from tests.support.messaging import barrier

_READY_WITHIN_S: Final = 240.0
_NAMES_FOR_S: Final = 10.0
_NO_ANSWER: Final = "no answer"
_STOPS_WITHIN_S: Final = 90.0
# Several rounds by the clock, and the polls that bring the barriers of the first one.
_LIVES_S: Final = 1.5
_PAUSE_S: Final = 0.1
_SECOND_US: Final = 1_000_000
# What a start has of its own, whatever else is tried: its values are tried in process.
GIVEN: Final = frozenset({"COPLACE_KAFKA_PARTITIONS", "COPLACE_HTTP_PORT"})

_CLUSTER: Final = {
    "name": "k1",
    "node_model": "skylake",
    "pstates_ghz": [2.0],
    "idle_power_w": 50.0,
    "peak_bandwidth_gbps": 100.0,
}

_numbers = count()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a start: `problem` is empty where it came up, lived and stopped as it should;
    `said` is what it said where it refused or waited."""

    problem: str = ""
    said: str = ""


@dataclass(slots=True)
class Namespaces:
    """Makes empty namespaces, in each of which a first round ends."""

    kafka_bootstrap: str
    redis_url: str
    api_server: str
    folder: Path

    def make(self, told: Iterable[str]) -> Mapping[str, str]:
        """The environment of a new one, where the round ends in these topics."""
        name = f"starts{os.getpid()}x{next(_numbers)}-"
        deployment = self._deployment(name)
        create_topics(deployment)
        with Publisher(deployment) as publisher:
            ended_at_us = now_us() - _SECOND_US
            publisher.append(
                barrier(partition, 0, ended_at_us)
                for topic in told
                for partition in deployment.topics.partitions(topic)
            )
        return {
            "COPLACE_KAFKA_BOOTSTRAP": self.kafka_bootstrap,
            "COPLACE_REDIS_URL": self.redis_url,
            "COPLACE_NAMESPACE": name,
            "COPLACE_KAFKA_PARTITIONS": "1",
            **self._of_kubernetes(),
            **self._of_slurm(name),
            **self._of_agent(name),
            "COPLACE_ARCHIVE_WHERE": str(self.folder / name / "archive"),
            "COPLACE_HISTORY_DATABASE": str(self.folder / f"{name}.history.db"),
            "COPLACE_WEBHOOKS_DATABASE": str(self.folder / f"{name}.webhooks.db"),
        }

    def free(self, environment: Mapping[str, str]) -> None:
        """Delete what one holds: a broker that keeps the topics of hundreds runs out of files."""
        name = environment["COPLACE_NAMESPACE"]
        client = admin_client(self._deployment(name))
        try:
            client.delete_topics([each for each in client.list_topics() if each.startswith(name)])
        finally:
            client.close()

    def _deployment(self, name: str) -> Deployment:
        return Deployment.from_settings(
            Settings(
                kafka_bootstrap=self.kafka_bootstrap,
                redis_url=self.redis_url,
                namespace=name,
                kafka_partitions=1,
            )
        )

    def _of_slurm(self, name: str) -> Mapping[str, str]:
        """A Slurm that does not answer."""
        clusters = self.folder / "slurm.yaml"
        clusters.write_text(yaml.safe_dump({"clusters": [_CLUSTER]}))
        return {
            "SLURM_CONF": str(self.folder / "no-slurm.conf"),
            "COPLACE_SLURM_SITE": "north",
            "COPLACE_SLURM_CLUSTERS_FILE": str(clusters),
            "COPLACE_SLURM_CURSOR_FILE": str(self.folder / name / "cursor"),
        }

    def _of_kubernetes(self) -> Mapping[str, str]:
        """One cluster without nodes, Jobs and Workloads."""
        kubeconfig, clusters = self.folder / "kubeconfig.yaml", self.folder / "clusters.yaml"
        of_server = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.api_server}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        cluster = {**_CLUSTER, "kubeconfig": str(kubeconfig)}
        kubeconfig.write_text(yaml.safe_dump(of_server))
        clusters.write_text(yaml.safe_dump({"clusters": [cluster]}))
        return {
            "COPLACE_KUBERNETES_SITE": "north",
            "COPLACE_KUBERNETES_CLUSTERS_FILE": str(clusters),
            "COPLACE_KUEUE_SITE": "north",
            "COPLACE_KUEUE_CLUSTERS_FILE": str(clusters),
            "COPLACE_EXECUTOR_CLUSTER": "k1",
            "COPLACE_EXECUTOR_NAMESPACE": "site",
            "COPLACE_EXECUTOR_HOME_KUBECONFIG": str(kubeconfig),
            "COPLACE_EXECUTOR_KUBECONFIG": str(kubeconfig),
        }

    def _of_agent(self, name: str) -> Mapping[str, str]:
        """A node without meters and jobs."""
        folder = self.folder / name
        (folder / "sys").mkdir(parents=True)
        return {
            "COPLACE_AGENT_RUN_DIR": str(folder / "run"),
            "COPLACE_AGENT_SPOOL_DIR": str(folder / "spool"),
            "COPLACE_AGENT_SYS_DIR": str(folder / "sys"),
        }


def start(
    entry: EntryPoint,
    environment: Mapping[str, str],
    tried: Sequence[Value],
) -> Outcome:
    """Start an entry point with these values, let it live through its first rounds, and stop it."""
    [port] = free_ports(1)
    own = {"COPLACE_HTTP_PORT": str(port), **{each.variable: each.text for each in tried}}
    inherited = {name: value for name, value in os.environ.items() if "COPLACE_" not in name}
    path = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, *entry.words],
            env={**inherited, **path, **environment, **own},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            far = WAITING.get(entry.module, "")
            outcome = _lived(process, port, far, tried)
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        return _judged(outcome, output.read().decode(errors="replace"))


def _lived(
    process: "subprocess.Popen[bytes]",
    port: int,
    far: str,
    tried: Sequence[Value],
) -> Outcome:
    """Wait until it is ready, or as far as it can come, and for its first rounds; then stop it. One
    that keeps naming a setting that is tried refuses it."""
    until_s, said, named_s = time.monotonic() + _READY_WITHIN_S, _NO_ANSWER, 0.0
    while answer := _waits_for(port):
        said = said if answer == _NO_ANSWER else answer
        if far and far in said:
            break
        if process.poll() is not None:
            return Outcome(f"ended with {process.returncode} before it was ready")
        named_s += _PAUSE_S if any(is_named(each, said) for each in tried) else -named_s
        if time.monotonic() > until_s or named_s > _NAMES_FOR_S:
            return Outcome("is not ready", said)
        time.sleep(_PAUSE_S)
    time.sleep(_LIVES_S)
    if process.poll() is not None:
        return Outcome(f"ended with {process.returncode} in its first rounds")
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(_STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        return Outcome("does not stop")
    return Outcome(f"stopped with {code}" if code else "")


def _waits_for(port: int) -> str:
    """What readiness says; empty once it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2.0):
            return ""
    except urllib.error.HTTPError as error:
        return error.read().decode(errors="replace") or str(error)
    except OSError:
        return _NO_ANSWER


def _judged(outcome: Outcome, output: str) -> Outcome:
    """What a process said last goes with how it ended."""
    lines = [line for line in output.splitlines() if line.strip()]
    last = " | ".join(lines[-3:])[-2_000:]
    if not outcome.problem and "process ends" in output:
        return Outcome("said that it ends", last)
    return Outcome(outcome.problem, f"{outcome.said} {last}" if outcome.problem else "")


def names_one(outcome: Outcome, tried: Sequence[Value]) -> list[Value]:
    """The values of which an outcome names the setting."""
    return [each for each in tried if is_named(each, outcome.said)]


def is_named(value: Value, said: str) -> bool:
    """Whether a message names a setting: by its variable or, where it is wrong beside others alone,
    as these are named, without what the variable begins with."""
    own_name = re.sub("^COPLACE_(PLANNER_)?", "", value.variable).lower()
    is_word = "_" in own_name and re.search(rf"\b{own_name}\b", said)
    return value.variable in said or bool(is_word)


def rows_of(entry: EntryPoint) -> Iterator[list[Value]]:
    """Rows of values, one of each setting, until each value that is taken was in one."""
    taken = {
        name: [each for each in values if each.is_taken]
        for name, values in entry.values.items()
        if name not in GIVEN and not name.endswith("_PORT")
    }
    taken = {name: values for name, values in taken.items() if values}
    for number in range(max(map(len, taken.values()))):
        yield [values[number % len(values)] for values in taken.values()]
