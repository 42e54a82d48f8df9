"""The life of a hub and its sites on a cluster: refused, installed, tested, filled with jobs,
upgraded, rolled back; and what each step took."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster import sites
from tests.cluster.commands import coplace
from tests.cluster.node import Cluster, ClusterError
from tests.cluster.releases import (
    EMULATED,
    HUB,
    KAFKA_PARTITIONS,
    OUTSIDE,
    RELEASES,
    SITES,
    emulated,
    ingest,
    kafka,
    program,
    site,
    values,
)

_CHART: Final = str(Path(__file__).parents[2] / "helm/coplace")
_WITHIN: Final = "20m"
_RUN_WITHIN_S: Final = 3_600.0
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
        self.rows: list[tuple[str, str]] = []

    def play(self) -> None:
        """All of it. Raises ClusterError at the first step that fails."""
        try:
            missing = {**values(HUB), "redis": {"urlSecret": "nowhere"}}
            self._refused("a secret that is not there", "there is no secret nowhere", missing)
            self._step("helm install of the hub", lambda: self._install(HUB))
            for name in SITES:
                self._step(f"helm install of the site {name}", partial(self._install, name))
            self._step("helm test: one job, from submission to price", lambda: self._test(HUB))
            for name in SITES:
                what = f"helm test of the site {name}: one job, to where it starts"
                self._step(what, partial(self._test, name))
            for refused in self._refusals():
                self._refused(*refused)
            self._step("helm upgrade: emulated rounds, topics of their own", self._upgrade)
            self._start_emulator()
            self._wait_for_jobs(_IN_FLIGHT)
            warn = {"logLevel": "warning"}
            self._step("helm upgrade with jobs in flight", lambda: self._upgrade(**warn))
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

    def _file(self, given: Mapping[str, Any]) -> str:
        file = self._out / "values.yaml"
        file.write_text(yaml.safe_dump(given))
        return str(file)

    def _helm(self, verb: str, release: str, *words: str) -> str:
        return self._cluster.helm(verb, release, *words, "--namespace", release)

    def _refused(
        self, what: str, told: str, given: Mapping[str, Any], namespace: str = HUB
    ) -> None:
        """A step that helm refuses to take, with what it says of it."""
        name = f"refused-{len(self.rows)}"
        words = ("install", name, _CHART, "--values", self._file(given), "--timeout", _WITHIN)

        def refuse() -> str:
            try:
                self._cluster.helm(*words, "--namespace", namespace)
            except ClusterError as error:
                if told not in str(error):
                    raise
                return f"with the words {told!r}"
            raise ClusterError(f"taken although {told}")

        self._step(f"refused: {what}", refuse)

    def _refusals(self) -> Iterator[tuple[str, str, Mapping[str, Any], str]]:
        """Of what does not fit beside the releases that are there."""
        first, other = SITES
        told = "already in the consumer group"
        yield "a second hub of the same name", told, self._with_servers(), HUB
        told = f"sends to the hub as the site {other} already"
        yield "a second site of the same name", told, site(other), first
        told, given = "Kafka partitions instead of 3", self._with_servers(partitions=3)
        yield "a topic with another count of partitions", told, given, HUB
        given = self._with_servers(bootstrap="nowhere.example:9092")
        yield "no Kafka at the bootstrap address", "is it up", given, HUB

    @staticmethod
    def _with_servers(**own: Any) -> dict[str, Any]:
        """Values of a second hub that has ours' servers for its own."""
        there = {"bootstrap": kafka(HUB), "partitions": KAFKA_PARTITIONS, **own}
        redis = {"url": f"redis://{HUB}-redis:6379/0"}
        return {**values(HUB), "kafka": there, "redis": redis}

    def _install(self, release: str) -> str:
        words = (_CHART, "--values", self._file(values(release)))
        self._helm("install", release, *words, "--wait", "--timeout", _WITHIN)
        return f"{len(self._pods(release))} pods"

    def _test(self, release: str) -> str:
        self._helm("test", release, "--timeout", _WITHIN)
        return ""

    def _upgrade(self, **more: Any) -> str:
        def each(release: str) -> None:
            file = self._file({**values(release), **emulated(), **more})
            words = (_CHART, "--values", file, "--wait", "--timeout", _WITHIN)
            self._helm("upgrade", release, *words)

        return self._replaced(each)

    def _rollback(self) -> str:
        words = ("--wait", "--timeout", _WITHIN)
        return self._replaced(lambda release: self._helm("rollback", release, *words))

    def _replaced(self, do: Callable[[str], object]) -> str:
        """How many pods were, and how many jobs had been charged before and after."""
        pods, jobs = self._pods(*RELEASES), self._charged()
        for release in RELEASES:
            do(release)
        new = len(self._pods(*RELEASES) - pods)
        return f"{new} new pods, {jobs} jobs charged before and {self._charged()} after"

    def _start_emulator(self) -> None:
        shutil.copy(sites.__file__, self._out / "sites.py")
        told = {
            name: {"clusters": list(clusters), "ingest": ingest(name), "kafka": kafka(name)}
            for name, clusters in SITES.items()
        }
        (self._out / "sites.json").write_text(json.dumps(told))
        env = {
            "COPLACE_SIMULATION_SEED": str(self._seed),
            "COPLACE_SIMULATION_JOBS": str(self._jobs),
            "COPLACE_SIMULATION_CAPS": "true",
        }
        self._start("emulator", ["python", "/out/sites.py", "/out/sites.json"], env)

    def _finish(self) -> str:
        self._wait_for("emulator")
        self._start("report", ["coplace", "report", "--redis", "--out", "/out/cluster"], {})
        self._wait_for("report")
        done = coplace("compare", str(self._out / "embedded"), str(self._out / "cluster"))
        return done.strip().splitlines()[-1]

    def _start(self, name: str, command: list[str], env: Mapping[str, str]) -> None:
        self._cluster.apply(program(name, command, env, self._out))

    def _wait_for(self, name: str) -> None:
        self._cluster.wait(f"{name} has ended", lambda: self._has_ended(name), _RUN_WITHIN_S)

    def _has_ended(self, name: str) -> bool:
        [job] = self._cluster.get("jobs", "--namespace", OUTSIDE, f"--selector=job={name}")
        if job["status"].get("failed"):
            raise ClusterError(f"{name} failed:\n{self._cluster.log(f'{name}-*')}")
        return bool(job["status"].get("succeeded"))

    def _pods(self, *releases: str) -> set[str]:
        return {
            pod["metadata"]["uid"]
            for release in releases
            for pod in self._cluster.get("pods", "--namespace", release)
        }

    def _wait_for_jobs(self, share: float) -> None:
        def enough() -> bool:
            self._has_ended("emulator")
            return self._charged() >= share * self._jobs

        self._cluster.wait("jobs end", enough, _RUN_WITHIN_S)

    def _charged(self) -> int:
        ask = ("redis-cli", "HLEN", f"{EMULATED}.accounts:charges")
        return int(self._cluster.kubectl("exec", "-n", HUB, f"{HUB}-redis-0", "--", *ask))

    def _show_pods(self) -> None:
        for release in (*RELEASES, OUTSIDE):
            for pod in self._cluster.get("pods", "--namespace", release):
                name = pod["metadata"]["name"]
                log = self._cluster.log(name, 8)
                print(f"--- {release}/{name} {pod['status']['phase']}\n{log}", file=sys.stderr)
