"""The assignments of one executor in a home cluster, in memory: as the home cluster writes them,
and as the executor does.

Of Kubernetes it keeps a version that grows with each write and that updates may name (409 where it
is another), uids, merge patches, a status of its own, and finalizers.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from services.kubernetes.adapters.api import JOBS
from services.kubernetes.adapters.assigned import AssignedJobs
from services.kubernetes.model.assignments import assignment_name, job_shown
from services.kubernetes.model.jobs import JobKey
from services.kubernetes.model.names import QUEUE_NAME
from shared.kubernetes.api import ApiConflictError, ApiMissingError, ApiRefusedError, Trim
from tests.support.kubernetes_api import EPOCH, Object, merged


class MemoryAssignments(AssignedJobs):
    """Of the executor of a cluster, in the namespace `site`."""

    def __init__(self, cluster: str) -> None:
        super().__init__(cluster, None, "site")  # type: ignore[arg-type]
        self.objects: dict[str, Object] = {}
        self.log: list[tuple[int, str, Object]] = []
        self.version = self.uids = 0
        self.forbids_creation = False
        self.on_write: Callable[[], None] = lambda: None

    # What AssignedJobs asks of the API server.

    async def read(self, path: str) -> Object:
        return deepcopy(self._there(path))

    async def merge(self, path: str, body: Mapping[str, Any]) -> Object:
        """A status is written by its own path alone."""
        path, is_status = path.removesuffix("/status"), path.endswith("/status")
        before = self._there(path)
        self._require(before, body["metadata"])
        kept = {n: t for n, t in body.items() if (n == "status") is is_status or n == "metadata"}
        return self._store(path.rpartition("/")[2], merged(before, deepcopy(kept)))

    async def add(self, path: str, body: Mapping[str, Any]) -> Object:
        if self.forbids_creation:
            raise ApiRefusedError("exceeded quota")
        made = deepcopy(dict(body))
        name = made["metadata"]["name"]
        if name in self.objects:
            raise ApiConflictError("already exists")
        self.uids += 1
        made["metadata"] |= {
            "namespace": "site",
            "uid": f"{self.uids:08x}-assigned",
            "creationTimestamp": EPOCH,
        }
        return self._store(name, made)

    async def remove(self, path: str, body: Mapping[str, Any]) -> None:
        before = self._there(path)
        self._require(before, body["preconditions"])
        gone = {"metadata": {"deletionTimestamp": EPOCH}}
        self._store(path.rpartition("/")[2], merged(before, gone))

    async def list(
        self, path: str, selector: str, trim: Trim = dict
    ) -> tuple[Sequence[Mapping[str, Any]], str]:
        return (self.jobs() if path == JOBS else []), str(self.version)

    async def watch(
        self, path: str, selector: str, version: str
    ) -> AsyncIterator[tuple[str, Mapping[str, Any]]]:
        raise NotImplementedError
        yield

    # What its executor asks for.

    async def get_assignment(self, key: JobKey) -> Object:
        return await self.read(self._of(key))

    async def say(self, key: JobKey, body: Mapping[str, Any]) -> Object:
        return await self.merge(f"{self._of(key)}/status", body)

    # What tests ask for.

    def jobs(self) -> Sequence[Mapping[str, Any]]:
        """What the home cluster shows."""
        shown = [job_shown(each) for each in self.objects.values()]
        return [each for each in shown if each["metadata"]["labels"].get(QUEUE_NAME)]

    def at(self, key: JobKey) -> Object:
        return self.objects[assignment_name(key)]

    def _there(self, path: str) -> Object:
        name = path.rpartition("/")[2]
        if name not in self.objects:
            raise ApiMissingError(f"{name} is missing")
        return self.objects[name]

    def _require(self, before: Object, named: Mapping[str, Any]) -> None:
        for name in ("uid", "resourceVersion"):
            if named.get(name, before["metadata"][name]) != before["metadata"][name]:
                raise ApiConflictError(f"{name} is {before['metadata'][name]}")

    def _store(self, name: str, after: Object) -> Object:
        if after == self.objects.get(name):
            return deepcopy(after)
        self.version += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        after["metadata"]["resourceVersion"] = str(self.version)
        self.objects[name] = after
        if after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
            del self.objects[name]
            kind = "DELETED"
        self.log.append((self.version, kind, deepcopy(after)))
        self.on_write()
        return deepcopy(after)
