"""Workloads and AdmissionChecks of one API server."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from services.kueue.model.bodies import Body
from services.kueue.model.names import ADMISSION_MANAGER, API_VERSION, PLACEMENT_MANAGER
from services.kueue.model.workloads import WorkloadKey
from shared.kubernetes.api import ApiServer

WORKLOADS: Final = f"/apis/{API_VERSION}/workloads"
CHECKS: Final = f"/apis/{API_VERSION}/admissionchecks"
CONFIGS: Final = f"/apis/{API_VERSION}/multikueueconfigs"
FLAVORS: Final = f"/apis/{API_VERSION}/resourceflavors"
KUEUE_MISSING: Final = "install Kueue 0.14 or newer there: docs/how-to/kueue.md"


class WorkloadServer(ApiServer):
    """Of one cluster."""

    async def get(self, key: WorkloadKey) -> Mapping[str, Any]:
        """Return a Workload as it is now."""
        return await self.read(_path(key))

    async def patch(self, key: WorkloadKey, body: Body) -> Mapping[str, Any]:
        """Merge into a Workload; returns what it is then."""
        return await self.merge(_path(key), body)

    async def answer_checks(self, key: WorkloadKey, body: Body) -> Mapping[str, Any]:
        """Own the checks of a Workload that Coplace answers."""
        return await self.apply_status(_path(key), body, PLACEMENT_MANAGER)

    async def nominate(self, key: WorkloadKey, body: Body) -> Mapping[str, Any]:
        """Own the admission of a Workload, as Kueue does."""
        return await self.apply_status(_path(key), body, ADMISSION_MANAGER)

    async def activate(self, name: str, body: Body) -> None:
        """Own the condition of an AdmissionCheck that it is answered."""
        await self.apply_status(f"{CHECKS}/{quote(name)}", body, PLACEMENT_MANAGER)


def _path(key: WorkloadKey) -> str:
    namespace, name = quote(key.namespace), quote(key.name)
    return f"/apis/{API_VERSION}/namespaces/{namespace}/workloads/{name}"
