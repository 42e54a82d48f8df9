"""Nodes alone, simulated: what kubelets would report of pods that the scheduler gave them."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from lab.benchmarks.kubernetes.cluster import CallError, RealCluster, call
from shared.kubernetes.api import PODS, ApiServer
from shared.kubernetes.reflector import reflect

_WORKERS: Final = 8


class Kubelets(ABC):
    """Of one cluster, whose Job controller and scheduler are real: each step of a pod is taken
    once."""

    def __init__(self, cluster: RealCluster, workers: int = _WORKERS) -> None:
        self._cluster, self._workers = cluster, workers
        self._due: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._seen: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Run until cancelled."""
        async with self._cluster.client() as client, asyncio.TaskGroup() as tasks:
            api = ApiServer(self._cluster.name, client)
            tasks.create_task(reflect(api, PODS, "", self, lambda: None))
            for _ in range(self._workers):
                tasks.create_task(self._work(client))

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Take all pods."""
        for each in found:
            self.changed(cluster, each)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Take a pod that is new, or has changed."""
        name, phase = found["metadata"]["name"], found["status"].get("phase")
        if found["metadata"].get("deletionTimestamp"):
            self.once(name, "delete")
        elif found["spec"].get("nodeName") and phase == "Pending":
            self.once(name, "begin")

    @abstractmethod
    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Take that a pod was deleted."""

    def once(self, name: str, what: str) -> None:
        """Take a step of a pod, unless it was taken."""
        if (name, what) not in self._seen:
            self._seen.add((name, what))
            self._due.put_nowait((name, what))

    async def _work(self, client: Any) -> None:
        while True:
            name, what = await self._due.get()
            try:
                await self._do(client, name, what)
            except CallError as error:  # it was deleted meanwhile
                print("kubelets:", error, flush=True)

    @abstractmethod
    async def _do(self, client: Any, name: str, what: str) -> None:
        """Take a step of a pod: `begin` where it has its node, `delete`, or what comes later."""


class SimulatedKubelets(Kubelets):
    """A pod that has its node runs at once, and succeeds after `run_s`; one that is deleted is
    removed. It keeps by itself when each pod was ready, and when it ended."""

    def __init__(self, cluster: RealCluster, run_s: float) -> None:
        super().__init__(cluster)
        self._run_s = run_s
        self.ready: dict[str, str] = {}
        self.ended: dict[str, str] = {}

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Ignore a pod that was deleted."""

    async def _do(self, client: Any, name: str, what: str) -> None:
        path = f"/api/v1/namespaces/physics/pods/{name}"
        if what == "delete":
            await call(client, "DELETE", path, {"gracePeriodSeconds": 0})
            return
        at = now()
        if what == "begin":
            self.ready[name] = at
            await call(client, "PATCH", f"{path}/status", {"status": running(at)})
            asyncio.get_running_loop().call_later(self._run_s, self.once, name, "end")
            return
        self.ended[name] = at
        status = succeeded(self.ready[name], at)
        await call(client, "PATCH", f"{path}/status", {"status": status})


def now() -> str:
    """Return the time as an API server has it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(at: str) -> dict[str, Any]:
    """Return the status of a pod that is ready since then."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at}
    state = {"running": {"startedAt": at}}
    told = {"phase": "Running", "startTime": at, "conditions": [ready]}
    return {**told, "containerStatuses": [_container(state, is_ready=True)]}


def succeeded(since: str, at: str) -> dict[str, Any]:
    """Return the status of a pod that ran since then and has ended."""
    ready = {"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": at}
    over = {"exitCode": 0, "reason": "Completed", "startedAt": since, "finishedAt": at}
    told = {"phase": "Succeeded", "conditions": [ready]}
    return {**told, "containerStatuses": [_container({"terminated": over}, is_ready=False)]}


def _container(state: Mapping[str, Any], *, is_ready: bool) -> dict[str, Any]:
    own = {"name": "main", "image": "none", "imageID": "none", "restartCount": 0}
    return {**own, "ready": is_ready, "started": is_ready, "state": state}
