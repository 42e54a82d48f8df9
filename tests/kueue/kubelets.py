"""Simulated nodes whose pods say when they were ready and when they ended."""

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from lab.benchmarks.kubernetes.cluster import CallError, call
from lab.benchmarks.kubernetes.kubelets import Kubelets, now, running, succeeded
from tests.kueue.cluster import KueueCluster
from tests.kueue.kinds import OF

_WORKERS: Final = 16


class KueueKubelets(Kubelets):
    """A pod that has its node is ready at once, and succeeds after the seconds that it asks for;
    one that is deleted is removed. It keeps when the pods of each Workload were ready and ended, by
    itself."""

    def __init__(self, cluster: KueueCluster) -> None:
        super().__init__(cluster, _WORKERS)
        self._pods: dict[str, Mapping[str, Any]] = {}
        self._ready: dict[str, str] = {}
        self.ready: dict[str, dict[str, str]] = {}
        """When the pods of each Workload were ready, by its name and their uids."""
        self.ended: dict[str, dict[str, str]] = {}
        """When they ended."""
        self.ready_s: dict[str, dict[str, float]] = {}
        self.ended_s: dict[str, dict[str, float]] = {}
        """The same to the microsecond, s since 1970."""

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Take a pod that is new, or has changed."""
        self._pods[found["metadata"]["name"]] = found
        super().changed(cluster, found)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Forget a pod that was deleted; one that comes may have its name."""
        name = found["metadata"]["name"]
        self._pods.pop(name, None)
        self._seen -= {(name, what) for what in ("begin", "end", "delete")}

    def runs_s(self, pod: Mapping[str, Any]) -> float:
        """Return for how long a pod runs."""
        return float(json.loads(pod["metadata"]["annotations"]["runs-s"]))

    async def _do(self, client: Any, name: str, what: str) -> None:
        pod = self._pods.get(name)
        if pod is None:
            return
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}"
        if what == "delete":
            with suppress(CallError):  # one without a node is removed at once
                await call(client, "DELETE", path, {"gracePeriodSeconds": 0})
            return
        job, uid, at = pod["metadata"]["annotations"][OF], pod["metadata"]["uid"], now()
        if what == "begin":
            self._ready[name] = self.ready.setdefault(job, {})[uid] = at
            self.ready_s.setdefault(job, {})[uid] = time.time()
            await call(client, "PATCH", f"{path}/status", {"status": running(at)})
            asyncio.get_running_loop().call_later(self.runs_s(pod), self.once, name, "end")
            return
        self.ended.setdefault(job, {})[uid] = at
        self.ended_s.setdefault(job, {})[uid] = time.time()
        status = succeeded(self._ready[name], at)
        await call(client, "PATCH", f"{path}/status", {"status": status})
