"""The Job controller and the nodes, simulated: what an API server shows of Jobs that run at once
and end after a time."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from lab.benchmarks.kubernetes.cluster import CallError, RealCluster, call
from services.kubernetes.adapters.api import JOBS, JobServer
from shared.kubernetes.reflector import reflect

_WORKERS: Final = 8


class SimulatedController:
    """Of one cluster. Jobs that are let run have their pods at once and complete after `run_s`."""

    def __init__(self, cluster: RealCluster, run_s: float) -> None:
        self._cluster, self._run_s = cluster, run_s
        self._due: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._seen: dict[str, str] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        async with self._cluster.client() as client, asyncio.TaskGroup() as tasks:
            api = JobServer(self._cluster.name, client)
            tasks.create_task(reflect(api, JOBS, "", self, lambda: None))
            for _ in range(_WORKERS):
                tasks.create_task(self._work(client))

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Take all Jobs."""
        for each in found:
            self.changed(cluster, each)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Take a Job that is new, or has changed."""
        name, uid = found["metadata"]["name"], found["metadata"]["uid"]
        conditions = (found.get("status") or {}).get("conditions") or ()
        has_ended = any(each["type"] in ("Complete", "Failed") for each in conditions)
        is_due = not found["spec"].get("suspend") and not has_ended
        standing = "runs" if is_due else "suspended"
        if self._seen.get(uid) != standing and not has_ended:
            self._seen[uid] = standing
            self._due.put_nowait((name, standing))

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Ignore a Job that was deleted."""

    async def _work(self, client: Any) -> None:
        while True:
            name, standing = await self._due.get()
            try:
                await (self._begin if standing == "runs" else self._suspend)(client, name)
            except CallError as error:
                print("controller:", error, flush=True)

    async def _suspend(self, client: Any, name: str) -> None:
        await self._show(client, name, active=0, startTime=None, conditions=[_true("Suspended")])

    async def _begin(self, client: Any, name: str) -> None:
        resumed = {**_true("Suspended"), "status": "False"}
        await self._show(client, name, active=1, startTime=_now(), conditions=[resumed])
        asyncio.get_running_loop().call_later(
            self._run_s, lambda: asyncio.ensure_future(self._end(client, name))
        )

    async def _end(self, client: Any, name: str) -> None:
        done = [_true("SuccessCriteriaMet"), _true("Complete")]
        try:
            await self._show(
                client, name, active=0, succeeded=1, completionTime=_now(), conditions=done
            )
        except CallError as error:  # it was suspended meanwhile
            print("controller:", error, flush=True)

    async def _show(self, client: Any, name: str, **status: Any) -> None:
        path = f"/apis/batch/v1/namespaces/physics/jobs/{name}/status"
        await call(client, "PATCH", path, {"status": status})


def _true(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "lastTransitionTime": _now(), "reason": "Simulated"}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
