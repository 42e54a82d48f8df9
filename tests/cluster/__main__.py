"""Installs the chart on a real Kubernetes with real pods, plays jobs through it over an upgrade and
a rollback, and compares what they were charged with the embedded run: `make e2e-k8s`."""

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console
from rich.table import Table

from deploy.cache import cache_dir
from deploy.compose import images
from deploy.compose.podman import Podman
from tests.cluster.node import Cluster, ClusterError, running

_ROOT: Final = Path(__file__).parents[2]
_CHART: Final = str(_ROOT / "helm/coplace")
_RELEASE: Final = "region"
_SPACE: Final = "coplace"
_PREFIX: Final = "emulated"
# Of the emulator and the report, which are no part of the release.
_OUTSIDE: Final = "outside"
_KAFKA_PARTITIONS: Final = 2
_SANDBOX: Final = "localhost/sandbox:latest"
_WITHIN: Final = "12m"
_RUN_WITHIN_S: Final = 1_500.0
# The share of the jobs that have been charged when the upgrade begins.
_IN_FLIGHT: Final = 0.1


class Story:
    """What is done, and what each step took."""

    def __init__(self, cluster: Cluster, out: Path, jobs: int, seed: int) -> None:
        self._cluster = cluster
        self._out = out
        self._jobs = jobs
        self._seed = seed
        self._began_s = time.monotonic()
        self._refusals = 0
        self.rows: list[tuple[str, str]] = []

    def play(self) -> None:
        """All of it. Raises ClusterError at the first step that fails."""
        try:
            self._step("refused: a secret that is not there", self._refuse_missing_secret)
            self._step("helm install", self._install)
            self._step("helm test: one job, from submission to price", self._test)
            self._step("refused: a second region of the same name", self._refuse_same_name)
            self._step("refused: a topic with another count of partitions", self._refuse_count)
            self._step("refused: no Kafka at the bootstrap address", self._refuse_bootstrap)
            self._step("helm upgrade: emulated rounds, topics of their own", self._upgrade_emulated)
            self._start_emulator()
            self._wait_for_jobs(_IN_FLIGHT)
            self._step("helm upgrade with jobs in flight", self._upgrade)
            self._step("helm rollback with jobs in flight", self._rollback)
            self._step("all jobs ended and charged", self._finish)
        except BaseException:
            self._show_pods()
            raise

    def _step(self, what: str, do: Callable[[], str]) -> None:
        began_s = time.monotonic()
        came = do()
        took_s = time.monotonic() - began_s
        self.rows.append((what, f"{took_s:.0f} s" + (f", {came}" if came else "")))
        since_s = time.monotonic() - self._began_s
        print(f"[{since_s:6.0f} s] {what}: {self.rows[-1][1]}", flush=True)

    def _values(self, **more: Any) -> str:
        file = self._out / "values.yaml"
        file.write_text(yaml.safe_dump({**_values(), **more}))
        return str(file)

    def _helm(self, verb: str, *words: str) -> str:
        return self._cluster.helm(verb, _RELEASE, *words, "--namespace", _SPACE)

    def _refused(self, told: str, values: str) -> str:
        """What helm said when it refused an installation with these values."""
        self._refusals += 1
        words = ("install", f"refused-{self._refusals}", _CHART, "--values", values)
        try:
            self._cluster.helm(*words, "--namespace", _SPACE, "--timeout", _WITHIN)
        except ClusterError as error:
            if told not in str(error):
                raise
            return f"told {told!r}"
        raise ClusterError(f"taken although {told}")

    def _refuse_missing_secret(self) -> str:
        values = self._values(redis={"urlSecret": "nowhere"})
        return self._refused("there is no secret nowhere", values)

    def _install(self) -> str:
        self._helm("install", _CHART, "--values", self._values(), "--wait", "--timeout", _WITHIN)
        pods = self._cluster.get("pods", "--namespace", _SPACE)
        return f"{len(pods)} pods"

    def _test(self) -> str:
        self._helm("test", "--timeout", _WITHIN)
        return ""

    def _elsewhere(self, **kafka: Any) -> str:
        """Values of a second release that has our servers for its own."""
        there = {"bootstrap": f"{_RELEASE}-kafka:9092", "partitions": _KAFKA_PARTITIONS}
        own = {"kafka": {**there, **kafka}}
        return self._values(**own, redis={"url": f"redis://{_RELEASE}-redis:6379/0"})

    def _refuse_same_name(self) -> str:
        return self._refused("already in the consumer group", self._elsewhere())

    def _refuse_count(self) -> str:
        return self._refused("Kafka partitions instead of 3", self._elsewhere(partitions=3))

    def _refuse_bootstrap(self) -> str:
        return self._refused("is it up", self._elsewhere(bootstrap="nowhere.example:9092"))

    def _upgrade_emulated(self) -> str:
        emulated = {"topicPrefix": _PREFIX, "env": {"COPLACE_ROUNDS": "barriers"}}
        return self._upgrade_to(**emulated)

    def _upgrade(self) -> str:
        emulated = {"topicPrefix": _PREFIX, "env": {"COPLACE_ROUNDS": "barriers"}}
        return self._upgrade_to(**emulated, logLevel="warning")

    def _upgrade_to(self, **values: Any) -> str:
        words = (_CHART, "--values", self._values(**values))
        return self._replaced(lambda: self._helm("upgrade", *words, "--wait", "--timeout", _WITHIN))

    def _rollback(self) -> str:
        return self._replaced(lambda: self._helm("rollback", "--wait", "--timeout", _WITHIN))

    def _replaced(self, do: Callable[[], str]) -> str:
        """How many pods were, and how many jobs had been charged before and after."""
        pods, jobs = self._pods(), self._charged()
        do()
        new = len(self._pods() - pods)
        return f"{new} new pods, {jobs} jobs charged before and {self._charged()} after"

    def _finish(self) -> str:
        self._wait_for_job("emulator")
        self._run_job("report", ["coplace", "report", "--redis", "--out", "/out/cluster"])
        done = _coplace("compare", str(self._out / "embedded"), str(self._out / "cluster"))
        return done.strip().splitlines()[-1]

    def _start_emulator(self) -> None:
        address = f"{_RELEASE}-ingest:50051"
        self._apply_job(
            "emulator",
            ["python", "-m", "services.emulator"],
            {
                "COPLACE_SIMULATION_INGEST_ADDRESS": address,
                "COPLACE_SIMULATION_SEED": str(self._seed),
                "COPLACE_SIMULATION_JOBS": str(self._jobs),
                "COPLACE_SIMULATION_CAPS": "true",
            },
        )

    def _run_job(self, name: str, command: list[str]) -> None:
        self._apply_job(name, command, {})
        self._wait_for_job(name)

    def _apply_job(self, name: str, command: list[str], env: Mapping[str, str]) -> None:
        settings = {
            "COPLACE_KAFKA_BOOTSTRAP": f"{_RELEASE}-kafka:9092",
            "COPLACE_REDIS_URL": f"redis://{_RELEASE}-redis:6379/0",
            "COPLACE_KAFKA_PARTITIONS": str(_KAFKA_PARTITIONS),
            "COPLACE_NAMESPACE": _PREFIX,
            "COPLACE_ROUNDS": "barriers",
            **env,
        }
        self._cluster.apply(_job(name, command, settings, self._out))

    def _wait_for_job(self, name: str) -> None:
        def ended() -> bool:
            [job] = self._cluster.get("jobs", "--namespace", _OUTSIDE, f"--selector=job={name}")
            if job["status"].get("failed"):
                raise ClusterError(f"{name} failed:\n{self._cluster.log(f'{name}-*')}")
            return bool(job["status"].get("succeeded"))

        self._cluster.wait(f"{name} has ended", ended, _RUN_WITHIN_S)

    def _pods(self) -> set[str]:
        pods = self._cluster.get("pods", "--namespace", _SPACE)
        return {each["metadata"]["uid"] for each in pods}

    def _wait_for_jobs(self, share: float) -> None:
        enough = share * self._jobs
        self._cluster.wait("jobs end", lambda: self._charged() >= enough, _RUN_WITHIN_S)

    def _charged(self) -> int:
        ask = ("redis-cli", "HLEN", f"{_PREFIX}.accounts:charges")
        return int(self._cluster.kubectl("exec", "-n", _SPACE, f"{_RELEASE}-redis-0", "--", *ask))

    def _show_pods(self) -> None:
        for pod in self._cluster.get("pods", "--namespace", _SPACE):
            name = pod["metadata"]["name"]
            log = self._cluster.log(name, 8)
            print(f"--- {name} {pod['status']['phase']}\n{log}", file=sys.stderr)


def _values() -> dict[str, Any]:
    """A small installation with servers of its own, of images that the node has."""
    return {
        "image": {"repository": "localhost/coplace", "tag": "latest", "pullPolicy": "Never"},
        "kafka": {"partitions": _KAFKA_PARTITIONS, "own": {"enabled": True, "storage": "1Gi"}},
        "redis": {"own": {"enabled": True, "storage": "1Gi"}},
        "services": {"energyApi": {"replicas": 1}, "pricing": {"replicas": 2}},
    }


def _job(name: str, command: list[str], env: Mapping[str, str], out: Path) -> Mapping[str, Any]:
    """A program of the image that speaks to the release, with a folder of this machine."""
    container = {
        "name": name,
        "image": images.COPLACE,
        "imagePullPolicy": "Never",
        "command": command,
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "volumeMounts": [{"name": "out", "mountPath": "/out"}],
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "out", "hostPath": {"path": str(out)}}],
        "dnsConfig": {"searches": [f"{_SPACE}.svc.cluster.local"]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": _OUTSIDE, "labels": {"job": name}},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }


def _prepare(cluster: Cluster, out: Path) -> None:
    """Namespaces, of which the release takes restricted pods alone, and volumes of its servers."""
    out.chmod(0o777)
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    for name, labels in ((_SPACE, restricted), (_OUTSIDE, {})):
        metadata = {"name": name, "labels": labels}
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for server in ("kafka", "redis"):
        folder = cluster.folder / f"volume-{server}"
        folder.mkdir()
        folder.chmod(0o777)
        cluster.apply(_volume(server, folder))

    def has_account() -> bool:
        accounts = cluster.get("serviceaccounts", "--namespace", _SPACE)
        return any(each["metadata"]["name"] == "default" for each in accounts)

    cluster.wait("the namespace has its account", has_account)


def _volume(server: str, folder: Path) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": server},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": _SPACE, "name": f"data-{_RELEASE}-{server}-0"},
        },
    }


def _images(folder: Path, *, built: bool) -> Path:
    """An archive of the images of the release, built anew where their source changed."""
    run_dir = Path(os.environ.get("XDG_RUNTIME_DIR") or "/run") / "coplace"
    podman = Podman(cache_dir() / "containers", run_dir)
    with (cache_dir() / "compose-check.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built:
            images.provide_images(podman, print)
        sleeps = f'FROM {images.DEBIAN}\nENTRYPOINT ["sleep", "infinity"]\n'
        (folder / "Dockerfile").write_text(sleeps)
        podman.call("build", "--pull=never", f"--tag={_SANDBOX}", str(folder))
        archive = folder / "images.tar"
        save = ("save", "--format=docker-archive", "--multi-image-archive", f"--output={archive}")
        podman.call(*save, images.COPLACE, images.KAFKA, images.REDIS, _SANDBOX)
    return archive


def _coplace(*arguments: str) -> str:
    """Run the command line on this machine. Raises ClusterError."""
    command = [str(Path(sys.executable).with_name("coplace")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"coplace {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Exit with a message unless everything came as it should."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("run/cluster"))
    parser.add_argument("--built", action="store_true", help="take the image that is there")
    asked = parser.parse_args()
    out = asked.out.absolute()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    try:
        rows = _play(out, asked.jobs, asked.seed, built=asked.built)
    except ClusterError as error:
        sys.exit(f"e2e-k8s: {error}")
    table = Table(title=f"{asked.jobs} jobs, seed {asked.seed}, on Kubernetes", show_header=False)
    for row in rows:
        table.add_row(*row)
    Console(width=110).print(table)


def _play(out: Path, jobs: int, seed: int, *, built: bool) -> list[tuple[str, str]]:
    programs = Path(_printed("deploy/build-kubernetes.sh", "v1.34.1"))
    tools = Path(_printed("deploy/helm.sh")).parent
    _coplace("demo", f"--seed={seed}", f"--jobs={jobs}", f"--out={out / 'embedded'}")
    archive = _images(out, built=built)
    with (
        tempfile.TemporaryDirectory(prefix="coplace-cluster-") as scratch,
        running(Cluster(Path(scratch) / "node", programs, tools)) as cluster,
    ):
        cluster.load(archive)
        archive.unlink()
        _prepare(cluster, out)
        story = Story(cluster, out, jobs, seed)
        story.play()
        return story.rows


def _printed(*command: str) -> str:
    program = [str(_ROOT / command[0]), *command[1:]]
    return subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
