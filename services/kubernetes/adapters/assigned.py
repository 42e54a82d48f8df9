"""The API server of a cluster that has an executor, as far as the home cluster shows it: of the
assignments that the executor fetches there, and of what it reports."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from services.kubernetes.adapters.api import JOBS, RECORDS, JobServer
from services.kubernetes.model.assignments import (
    PLURAL,
    assignment_body,
    assignment_name,
    assignment_patch,
    job_shown,
)
from services.kubernetes.model.bodies import Body
from services.kubernetes.model.jobs import JobKey
from services.kubernetes.model.records import API_VERSION
from shared.kubernetes.api import ApiMissingError, ApiUnavailableError, Trim
from shared.kubernetes.connection import ApiConnection
from shared.kubernetes.leases import LeaseName, LeaseWatch

LEASE: Final = "executor"
"""The Lease in the namespace of an executor, which renews it while its own cluster answers."""
SILENT_S: Final = 30.0
MISSING: Final = "apply helm/coplace/files/jobassignments.yaml: docs/how-to/executors.md"


def path_of_kind(namespace: str, plural: str) -> str:
    """Return where the objects of a kind are in the namespace of an executor."""
    return f"/apis/{API_VERSION}/namespaces/{quote(namespace)}/{plural}"


def assignments_path(namespace: str) -> str:
    """Return where the assignments of an executor are."""
    return path_of_kind(namespace, PLURAL)


class AssignedJobs(JobServer):
    """Of one cluster; `namespace` is that of its executor in the home cluster, whose connection
    `client` is."""

    def __init__(
        self,
        cluster: str,
        client: ApiConnection,
        namespace: str,
        refused: Callable[[str], object] = str,
    ) -> None:
        super().__init__(cluster, client, refused)
        self.namespace, self._path = namespace, assignments_path(namespace)
        self._executor = LeaseWatch(self, LeaseName(namespace, LEASE), SILENT_S)
        self.begun = asyncio.Event()
        """Set once it was seen that the executor has ever renewed its Lease: it does so once it has
        reported all nodes."""

    async def answer(self) -> None:
        """Return once the executor has said that its cluster answers."""
        await super().answer()
        await self._executor.look()
        if self._executor.was_renewed:
            self.begun.set()
        if self._executor.is_silent or not self._executor.was_renewed:
            words = f"its executor has not renewed the Lease {self.namespace}/{LEASE}"
            raise ApiUnavailableError(f"{self.cluster}: {words} for {SILENT_S:g} s")

    async def list(
        self, path: str, selector: str, trim: Trim = dict
    ) -> tuple[Sequence[Mapping[str, Any]], str]:
        """List the Jobs that were assigned; there are no records."""
        if path == RECORDS:
            return (), ""
        if path != JOBS:
            return await super().list(path, selector, trim)
        return await super().list(self._path, selector, lambda found: trim(job_shown(found)))

    async def watch(
        self, path: str, selector: str, version: str
    ) -> AsyncIterator[tuple[str, Mapping[str, Any]]]:
        """Watch the Jobs that were assigned, or something else that the home cluster has."""
        watched = super().watch(self._path if path == JOBS else path, selector, version)
        async for kind, found in watched:
            yield kind, found if kind == "BOOKMARK" or path != JOBS else job_shown(found)

    async def get(self, key: JobKey) -> Mapping[str, Any]:
        """Return a Job as its executor has reported it."""
        return job_shown(await self.read(self._of(key)))

    async def patch(self, key: JobKey, body: Body) -> Mapping[str, Any]:
        """Change the assignment of a Job; returns what the Job is then."""
        return job_shown(await self.merge(self._of(key), assignment_patch(body)))

    async def patch_status(self, key: JobKey, body: Body) -> Mapping[str, Any]:
        """Return a Job as it is: its executor says what its status is."""
        return await self.get(key)

    async def create(self, key: JobKey, body: Body) -> Mapping[str, Any]:
        """Assign a Job by its manifest."""
        return job_shown(await self.add(self._path, assignment_body(key, body)))

    async def delete(self, key: JobKey, uid: str, version: str) -> None:
        """Delete an assignment as it was seen; the executor ends its Job then."""
        await self.remove(
            self._of(key), {"preconditions": {"uid": uid, "resourceVersion": version}}
        )

    async def get_record(self, name: str) -> Mapping[str, Any]:
        """Raise ApiMissingError: there are none."""
        raise ApiMissingError(f"{self.cluster}: no record is kept where an executor is")

    def _of(self, key: JobKey) -> str:
        return f"{self._path}/{quote(assignment_name(key))}"
