"""Nodes alone, simulated: what kubelets would report of pods that the scheduler gave them."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from lab.benchmarks.kubernetes.cluster import CallError, RealCluster, call
from shared.kubernetes.api import PODS, ApiServer
from shared.kubernetes.reflector import reflect

_WORKERS: Final = 8


class SimulatedKubelets:
    """Of one cluster, whose Job controller and scheduler are real: a pod that has its node runs at
    once, and succeeds after `run_s`; one that is deleted is removed."""

    def __init__(self, cluster: RealCluster, run_s: float) -> None:
        self._cluster, self._run_s = cluster, run_s
        self._due: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._seen: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Run until cancelled."""
        async with self._cluster.client() as client, asyncio.TaskGroup() as tasks:
            api = ApiServer(self._cluster.name, client)
            tasks.create_task(reflect(api, PODS, "", self, lambda: None))
            for _ in range(_WORKERS):
                tasks.create_task(self._work(client))

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Take all pods."""
        for each in found:
            self.changed(cluster, each)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Take a pod that is new, or has changed."""
        name, phase = found["metadata"]["name"], found["status"].get("phase")
        if found["metadata"].get("deletionTimestamp"):
            self._once(name, "delete")
        elif found["spec"].get("nodeName") and phase == "Pending":
            self._once(name, "begin")

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Ignore a pod that was deleted."""

    def _once(self, name: str, what: str) -> None:
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

    async def _do(self, client: Any, name: str, what: str) -> None:
        path = f"/api/v1/namespaces/physics/pods/{name}"
        if what == "delete":
            await call(client, "DELETE", path, {"gracePeriodSeconds": 0})
            return
        phase = "Running" if what == "begin" else "Succeeded"
        status = {"phase": phase, "startTime": _now()}
        await call(client, "PATCH", f"{path}/status", {"status": status})
        if what == "begin":
            asyncio.get_running_loop().call_later(self._run_s, self._once, name, "end")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
