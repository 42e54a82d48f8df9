"""Simulated nodes that obey what pods say of their run, and keep what they saw. What a hook of the
chart runs is run for real."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import aiohttp

from lab.benchmarks.kubernetes.cluster import CallError, RealCluster, call
from lab.benchmarks.kubernetes.kubelets import Kubelets, now, running, succeeded
from shared.kubernetes.objects import time_us

RUNS_S: Final = "test/runs-s"
JOB: Final = "test/job"
FOR_EVER: Final = "for ever"
_DEFAULT_S: Final = "2"
_OTHERS: Final = ""
_MISSING: Final = "missing"
_WORKERS: Final = 16
_AGAIN_S: Final = 0.2
RunHook = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Runs what a pod of a hook says, and returns once that has succeeded."""


async def _no_hook(pod: Mapping[str, Any]) -> None:
    raise AssertionError(f"a hook that nobody runs: {pod['metadata']['name']}")


class ObservingKubelets(Kubelets):
    """A pod that has its node is ready at once, unless one of its volumes is missing, and succeeds
    after the seconds that it says."""

    def __init__(self, cluster: RealCluster, run_hook: RunHook = _no_hook) -> None:
        super().__init__(cluster, _WORKERS)
        self._run_hook = run_hook
        self._pods: dict[str, Mapping[str, Any]] = {}
        self._ready: dict[str, str] = {}
        self.ready: dict[str, dict[str, str]] = defaultdict(dict)
        """When the pods of each Job were ready, by its name and theirs."""
        self.ended: dict[str, dict[str, str]] = defaultdict(dict)
        self.begun_s: dict[str, float] = {}
        """When the first pod of each Job began, s since 1970."""
        self.nodes: dict[str, set[str]] = defaultdict(set)
        """Where they ran."""
        self.at_once: dict[str, int] = defaultdict(int)
        """The most pods that ran at once, by the first word of their Job's name."""
        self._running: dict[str, int] = defaultdict(int)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Take a pod that is new, or has changed."""
        name = found["metadata"]["name"]
        self._pods[name] = found
        if found["spec"].get("nodeName") and JOB in (found["metadata"].get("annotations") or {}):
            self.begun_s.setdefault(found["metadata"]["annotations"][JOB], time.time())
        if not _is_missing(found) or found["metadata"].get("deletionTimestamp"):
            super().changed(cluster, found)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Forget a pod that was deleted."""
        self._pods.pop(found["metadata"]["name"], None)

    def end(self, jobs: Iterable[str]) -> None:
        """Let pods of Jobs end that run for ever; from any thread."""
        for job in jobs:
            for name in self.ready[job]:
                self._loop.call_soon_threadsafe(self.once, name, "end")

    def run_s(self, job: str, pods: int | None = None) -> float:
        """Return how long a Job ran, from its last pod's Ready to its last pod's end, s. Of one
        that has fewer pods at a time than ever ran, from when so many were ready."""
        ready, ended = sorted(map(time_us, self.ready[job].values())), self.ended[job].values()
        return (max(map(time_us, ended)) - ready[:pods][-1]) / 1e6

    async def _do(self, client: Any, name: str, what: str) -> None:
        if (pod := self._pods.get(name)) is None:
            return
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}"
        told = pod["metadata"].get("annotations") or {}
        job, at = told.get(JOB, _OTHERS), now()
        if what == "delete":
            if name in self.ready[job] and name not in self.ended[job]:
                self._count(job, -1)
            await persistent(client, "DELETE", path, {"gracePeriodSeconds": 0})
            return
        if what == "begin":
            self._ready[name] = self.ready[job][name] = at
            self.nodes[job].add(pod["spec"]["nodeName"])
            self._count(job, 1)
            await persistent(client, "PATCH", f"{path}/status", {"status": running(at)})
            self._loop = asyncio.get_running_loop()
            if _is_hook(pod):
                await self._run_hook(pod)
                self.once(name, "end")
            elif (runs_s := told.get(RUNS_S, _DEFAULT_S)) != FOR_EVER:
                self._loop.call_later(float(runs_s), self.once, name, "end")
            return
        self.ended[job][name] = at
        self._count(job, -1)
        status = succeeded(self._ready[name], at)
        await persistent(client, "PATCH", f"{path}/status", {"status": status})

    def _count(self, job: str, change: int) -> None:
        kind = job.partition("-")[0]
        self._running[kind] += change
        self.at_once[kind] = max(self.at_once[kind], self._running[kind])


async def persistent(client: Any, method: str, path: str, body: Any) -> None:
    """Ask until the API server has done it, over its ends and starts. Raises CallError where it
    never will, such as for a pod that was deleted."""
    while True:
        try:
            await call(client, method, path, body)
        except (aiohttp.ClientError, OSError, TimeoutError):
            await asyncio.sleep(_AGAIN_S)
        except CallError as error:
            # One that has just started knows no rights yet.
            if not any(f": {status} " in str(error) for status in (401, 403, 429, 500, 503, 504)):
                raise
            await asyncio.sleep(_AGAIN_S)
        else:
            return


def _is_hook(pod: Mapping[str, Any]) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return bool(labels.get("app.kubernetes.io/component") == "kubernetes-release")


def _is_missing(pod: Mapping[str, Any]) -> bool:
    volumes = pod["spec"].get("volumes") or ()
    return any((each.get("configMap") or {}).get("name") == _MISSING for each in volumes)
