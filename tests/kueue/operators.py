"""What the operators of JobSets and PyTorchJobs do, as far as Kueue needs it: once one is not
suspended they create its pods, and say when all have succeeded."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lab.benchmarks.kubernetes.cluster import CallError, call
from lab.benchmarks.kubernetes.kubelets import now
from shared.kubernetes.api import PODS, ApiServer
from shared.kubernetes.reflector import reflect
from tests.kueue.cluster import NAMESPACE, KueueCluster
from tests.kueue.kinds import JOBSETS, OF, PYTORCHJOBS

_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_WORKERS: Final = 4


class Operators:
    """Of one cluster."""

    def __init__(self, cluster: KueueCluster) -> None:
        self._cluster = cluster
        self._owners: dict[str, Mapping[str, Any]] = {}
        self._pods: dict[str, dict[str, str]] = {}
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._locks: dict[str, asyncio.Lock] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        async with self._cluster.client() as client, asyncio.TaskGroup() as tasks:
            api = ApiServer(self._cluster.name, client)
            for path in (JOBSETS, PYTORCHJOBS, PODS):
                tasks.create_task(reflect(api, path, "", self, lambda: None))
            for _ in range(_WORKERS):
                tasks.create_task(self._work(client))

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Take all objects of a kind."""
        for each in found:
            self.changed(cluster, each)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Take an owner or a pod that is new, or has changed."""
        metadata = found["metadata"]
        if _is_owner(found):
            self._owners[metadata["name"]] = found
            self._due.put_nowait(metadata["name"])
        elif of := metadata.get("annotations", {}).get(OF):
            self._pods.setdefault(of, {})[metadata["name"]] = str(found["status"].get("phase"))
            self._due.put_nowait(of)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Forget a pod that was deleted."""
        if of := found["metadata"].get("annotations", {}).get(OF):
            self._pods.get(of, {}).pop(found["metadata"]["name"], None)
            self._due.put_nowait(of)

    async def _work(self, client: Any) -> None:
        while True:
            name = await self._due.get()
            owner = self._owners.get(name)
            if owner is None:
                continue
            async with self._locks.setdefault(name, asyncio.Lock()):
                try:
                    await self._look(client, owner)
                except CallError as error:  # it is there already, or Kueue's webhooks are not
                    if "AlreadyExists" not in str(error):
                        asyncio.get_running_loop().call_later(1, self._due.put_nowait, name)

    async def _look(self, client: Any, owner: Mapping[str, Any]) -> None:
        name = owner["metadata"]["name"]
        pods, wanted = self._pods.get(name, {}), list(_pods_of(owner))
        if _is_done(owner):
            return
        if _is_suspended(owner):
            for each in [pod for pod, phase in pods.items() if phase in ("Pending", "Running")]:
                await call(client, "DELETE", f"{_PODS}/{each}", {})
            return
        if sum(phase == "Succeeded" for phase in pods.values()) >= len(wanted):
            await call(client, "PATCH", f"{_path(owner)}/{name}/status", _succeeded(owner))
            return
        for body in wanted:
            if body["metadata"]["name"] not in pods:
                await call(client, "POST", _PODS, body)


def _is_owner(found: Mapping[str, Any]) -> bool:
    spec = found["spec"]
    return "replicatedJobs" in spec or "pytorchReplicaSpecs" in spec


def _is_suspended(owner: Mapping[str, Any]) -> bool:
    policy = owner["spec"].get("runPolicy", owner["spec"])
    return bool(policy.get("suspend"))


def _is_done(owner: Mapping[str, Any]) -> bool:
    return bool(owner.get("status", {}).get("conditions"))


def _path(owner: Mapping[str, Any]) -> str:
    return JOBSETS if "replicatedJobs" in owner["spec"] else PYTORCHJOBS


def _pods_of(owner: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The pods that it asks for, as Kueue changed their templates."""
    name, number = owner["metadata"]["name"], 0
    for count, template in _templates(owner["spec"]):
        for _ in range(count):
            metadata = {**template["metadata"], "name": f"{name}-{number}", "namespace": NAMESPACE}
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": template["spec"],
            }
            number += 1


def _templates(spec: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for each in spec.get("replicatedJobs", ()):
        inside = each["template"]["spec"]
        yield each["replicas"] * inside["parallelism"], inside["template"]
    for each in spec.get("pytorchReplicaSpecs", {}).values():
        yield each["replicas"], each["template"]


def _succeeded(owner: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = "Completed" if "replicatedJobs" in owner["spec"] else "Succeeded"
    told = {"type": kind, "status": "True", "reason": kind, "message": "all pods succeeded"}
    return {"status": {"conditions": [{**told, "lastTransitionTime": now()}]}}
