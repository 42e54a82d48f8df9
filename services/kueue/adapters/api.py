"""Workloads and AdmissionChecks of one API server."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from services.kueue.model.records import RECORD_VERSION
from shared.kubernetes.api import ApiServer
from shared.kubernetes.pods import trimmed_pod
from shared.kueue.answers import Body
from shared.kueue.names import ADMISSION_MANAGER, API_VERSION, PLACEMENT_MANAGER, POD_GROUP
from shared.kueue.paths import check_path, workload_path
from shared.kueue.workloads import WorkloadKey

CONFIGS: Final = f"/apis/{API_VERSION}/multikueueconfigs"
FLAVORS: Final = f"/apis/{API_VERSION}/resourceflavors"
RECORDS: Final = f"/apis/{RECORD_VERSION}/workloadrecords"
RECORDS_MISSING: Final = "apply helm/coplace/files/workloadrecords.yaml: docs/how-to/kueue.md"


class WorkloadServer(ApiServer):
    """Of one cluster."""

    async def get(self, key: WorkloadKey) -> Mapping[str, Any]:
        """Return a Workload as it is now."""
        return await self.read(workload_path(key))

    async def patch(self, key: WorkloadKey, body: Body) -> Mapping[str, Any]:
        """Merge into a Workload; returns what it is then."""
        return await self.merge(workload_path(key), body)

    async def answer_checks(self, key: WorkloadKey, body: Body) -> Mapping[str, Any]:
        """Own the checks of a Workload that Coplace answers."""
        return await self.apply_status(workload_path(key), body, PLACEMENT_MANAGER)

    async def nominate(self, key: WorkloadKey, body: Body) -> Mapping[str, Any]:
        """Own the admission of a Workload, as Kueue does."""
        return await self.apply_status(workload_path(key), body, ADMISSION_MANAGER)

    async def group_pods(self, key: WorkloadKey) -> Sequence[Mapping[str, Any]]:
        """Return the pods that the user of a Workload created as a group."""
        path = f"/api/v1/namespaces/{quote(key.namespace)}/pods"
        found, _ = await self.list(path, f"{POD_GROUP}={key.name}", trimmed_pod)
        return found

    async def get_record(self, uid: str) -> Mapping[str, Any]:
        """Return the record of a Workload as it is now."""
        return await self.read(_record(uid))

    async def create_record(self, body: Body) -> Mapping[str, Any]:
        """Create the record of a Workload."""
        return await self.add(RECORDS, body)

    async def patch_record(self, uid: str, body: Body) -> Mapping[str, Any]:
        """Merge into the record of a Workload; returns what it is then."""
        return await self.merge(_record(uid), body)

    async def delete_record(self, uid: str, version: str) -> None:
        """Delete the record of a Workload, where it is as it was seen."""
        await self.remove(_record(uid), {"preconditions": {"resourceVersion": version}})

    async def activate(self, name: str, body: Body) -> None:
        """Own the condition of an AdmissionCheck that it is answered."""
        await self.apply_status(check_path(name), body, PLACEMENT_MANAGER)


def _record(uid: str) -> str:
    return f"{RECORDS}/{quote(uid)}"
