"""Jobs and records of one API server."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from services.kubernetes.model.bodies import Body
from services.kubernetes.model.jobs import JobKey
from services.kubernetes.model.queues import PLURAL as QUEUES_PLURAL
from services.kubernetes.model.records import API_VERSION, PLURAL
from shared.kubernetes.api import ApiServer
from shared.kueue.names import GRANTED_CHECK, PLACEMENT_MANAGER
from shared.kueue.paths import check_path, workload_path
from shared.kueue.workloads import WorkloadKey

JOBS: Final = "/apis/batch/v1/jobs"
RECORDS: Final = f"/apis/{API_VERSION}/{PLURAL}"
QUEUES: Final = f"/apis/{API_VERSION}/{QUEUES_PLURAL}"
RECORDS_MISSING: Final = "apply helm/coplace/files/jobrecords.yaml: docs/how-to/kubernetes-jobs.md"


class JobServer(ApiServer):
    """Of one cluster."""

    async def get(self, key: JobKey) -> Mapping[str, Any]:
        """Return a Job as it is now."""
        return await self.read(_path(key))

    async def patch(self, key: JobKey, body: Body) -> Mapping[str, Any]:
        """Merge into a Job; returns what it is then."""
        return await self.merge(_path(key), body)

    async def patch_status(self, key: JobKey, body: Body) -> Mapping[str, Any]:
        """Merge into the status of a Job; returns what it is then."""
        return await self.merge(f"{_path(key)}/status", body)

    async def create(self, key: JobKey, body: Body) -> Mapping[str, Any]:
        """Create a Job from its manifest."""
        return await self.add(_path(key, named=False), body)

    async def delete(self, key: JobKey, uid: str, version: str) -> None:
        """Delete a Job as it was seen, and then its pods."""
        seen = {"uid": uid, "resourceVersion": version}
        body = {"propagationPolicy": "Background", "preconditions": seen}
        await self.remove(_path(key), body)

    async def get_record(self, name: str) -> Mapping[str, Any]:
        """Return a record as it is now."""
        return await self.read(_record(name))

    async def patch_record(self, name: str, body: Body) -> Mapping[str, Any]:
        """Merge into a record; returns what it is then."""
        return await self.merge(_record(name), body)

    async def create_record(self, body: Body) -> Mapping[str, Any]:
        """Create a record."""
        return await self.add(RECORDS, body)

    async def create_queue(self, body: Body) -> Mapping[str, Any]:
        """Create what shows a queue."""
        return await self.add(QUEUES, body)

    async def patch_queue(self, name: str, status: Body) -> Mapping[str, Any]:
        """Merge into the status of what shows a queue; returns what it is then."""
        return await self.merge(f"{QUEUES}/{quote(name)}/status", {"status": status})

    async def get_workload(self, key: WorkloadKey) -> Mapping[str, Any]:
        """Return a Workload of the cluster's Kueue as it is now."""
        return await self.read(workload_path(key))

    async def patch_workload(self, key: WorkloadKey, body: Body) -> Mapping[str, Any]:
        """Merge into a Workload; returns what it is then."""
        return await self.merge(workload_path(key), body)

    async def answer_check(self, key: WorkloadKey, body: Body) -> Mapping[str, Any]:
        """Own the check of a Workload that Coplace answers; returns what it is then."""
        return await self.apply_status(workload_path(key), body, PLACEMENT_MANAGER)

    async def activate_check(self, body: Body) -> None:
        """Own the condition of the AdmissionCheck that it is answered."""
        await self.apply_status(check_path(GRANTED_CHECK), body, PLACEMENT_MANAGER)

    async def delete_record(self, name: str, uid: str) -> None:
        """Delete a record."""
        await self.remove(_record(name), {"preconditions": {"uid": uid}})


def _record(name: str) -> str:
    return f"{RECORDS}/{quote(name)}"


def _path(key: JobKey, *, named: bool = True) -> str:
    path = f"/apis/batch/v1/namespaces/{quote(key.namespace)}/jobs"
    return f"{path}/{quote(key.name)}" if named else path
