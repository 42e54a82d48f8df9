"""An API server and a Job controller in memory, as far as Jobs need them.

Of Kubernetes it keeps: a version that grows with each write that changes something and that
updates may name (409 where it is another), uids, merge patches, finalizers, a template that changes
only while its Job is suspended and has no pods (422), the most that annotations may hold (422), and
a log of all that was written to Jobs, which watches read. Records, which no user may write, are
kept separately.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from services.kubernetes.model.jobs import JobKey
from services.kubernetes.model.names import QUEUE_NAME
from shared.kubernetes.api import ApiConflictError, ApiMissingError, ApiRefusedError
from shared.kubernetes.names import GRANT, JOB_ID
from shared.kueue.workloads import WorkloadKey

EPOCH = "2026-01-01T00:00:00Z"
Object = dict[str, Any]
_MOST = 256 * 1024


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    found = dict(old) if isinstance(old, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found


def suspended_job(name: str, *, pods: int = 1, **spec: Any) -> Object:
    """As a user submits it."""
    container = {"name": "main", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}
    template = {"metadata": {"labels": {"run": name}}, "spec": {"containers": [container]}}
    return {
        "metadata": {
            "name": name,
            "namespace": "physics",
            "labels": {QUEUE_NAME: "coplace"},
            "annotations": {},
        },
        "spec": {
            "suspend": True,
            "parallelism": pods,
            "completions": pods,
            "activeDeadlineSeconds": 3600,
            "template": template,
            **spec,
        },
    }


@dataclass
class MemoryApiServer:
    """One cluster."""

    cluster: str
    version: int = 0
    objects: dict[JobKey, Object] = field(default_factory=dict)
    log: list[tuple[int, str, Object]] = field(default_factory=list)
    starts: list[tuple[str, int]] = field(default_factory=list)
    """Ids of the jobs that were let run, with their grants; 0 where somebody did so by hand."""
    told: list[Object] = field(default_factory=list)
    forbids_creation: bool = False
    uids: int = 0
    records: dict[str, Object] = field(default_factory=dict)
    on_write: Callable[[], None] = lambda: None

    # What a user, or the Job controller, does.

    def submit(self, body: Object) -> JobKey:
        """A new Job of a user's."""
        metadata = body["metadata"]
        key = JobKey(self.cluster, metadata["namespace"], metadata["name"])
        self._create(key, body)
        return key

    def edit(self, key: JobKey, patch: Object) -> None:
        """A user or a controller changes a Job, whatever its version."""
        if key in self.objects:
            self._store(key, merged(self.objects[key], patch), by_hand=True)

    def remove(self, key: JobKey) -> None:
        """Delete a Job: it goes once its finalizers are removed."""
        if key in self.objects:
            self._store(key, merged(self.objects[key], {"metadata": {"deletionTimestamp": EPOCH}}))

    def control(self, key: JobKey, *, slowly: bool = False) -> None:
        """The Job controller looks at a Job; slowly: its pods take their time to end."""
        job = self.objects.get(key)
        if job is None or job["metadata"].get("deletionTimestamp") or self.has_ended(key):
            return
        if job["spec"].get("managedBy"):
            return  # another controller has it
        status = dict(job.get("status") or {})
        if not job["spec"].get("suspend"):
            status |= {
                "active": job["spec"].get("parallelism", 1),
                "startTime": EPOCH,
                "conditions": [],
            }
        elif status.get("active") and slowly:
            status |= {"active": 0, "terminating": 1}
        else:
            seen = {"type": "Suspended", "status": "True", "lastTransitionTime": EPOCH}
            # Since when it ran stays, until somebody takes that out.
            status |= {"active": 0, "terminating": 0, "conditions": [seen]}
        if status != job.get("status"):
            self._store(key, {**job, "status": status})

    def finish(self, key: JobKey, kind: str = "Complete") -> None:
        """The pods of a Job that runs have ended."""
        job = self.objects.get(key)
        if job is None or not self.runs(key) or not (job.get("status") or {}).get("active"):
            return
        done = {"type": kind, "status": "True", "lastTransitionTime": EPOCH}
        self._store(key, {**job, "status": {"active": 0, "startTime": EPOCH, "conditions": [done]}})

    def has_ended(self, key: JobKey) -> bool:
        """Whether it is complete, or failed."""
        conditions = (self.objects[key].get("status") or {}).get("conditions") or ()
        return any(each["type"] in ("Complete", "Failed") for each in conditions)

    def runs(self, key: JobKey) -> bool:
        """Whether pods of a Job may be."""
        job = self.objects[key]
        is_managed = bool(job["spec"].get("managedBy"))
        return not (job["spec"].get("suspend") or is_managed or self.has_ended(key))

    # What the resource manager asks for.

    async def get(self, key: JobKey) -> Object:
        if key not in self.objects:
            raise ApiMissingError(f"{key} is missing")
        return deepcopy(self.objects[key])

    async def list(self, path: str, selector: str) -> tuple[list[Mapping[str, Any]], str]:
        name, _, value = selector.partition("=")
        there = self.objects if path.endswith("/jobs") else self.records
        found: list[Mapping[str, Any]] = [
            deepcopy(each)
            for each in there.values()
            if (each["metadata"].get("labels") or {}).get(name) == value
        ]
        return found, str(self.version)

    async def patch(self, key: JobKey, body: Mapping[str, Any]) -> Object:
        if key not in self.objects:
            raise ApiMissingError(f"{key} is missing")
        metadata = self.objects[key]["metadata"]
        for name in ("uid", "resourceVersion"):
            if body["metadata"].get(name, metadata[name]) != metadata[name]:
                raise ApiConflictError(f"{name} is {metadata[name]}")
        self._store(key, merged(self.objects[key], body))
        return deepcopy(self.objects.get(key) or self.log[-1][2])

    async def patch_status(self, key: JobKey, body: Mapping[str, Any]) -> Object:
        return await self.patch(key, body)

    async def create(self, key: JobKey, body: Mapping[str, Any]) -> Object:
        if self.forbids_creation:
            raise ApiRefusedError("exceeded quota")
        if key in self.objects:
            raise ApiConflictError("already exists")
        self._create(key, deepcopy(dict(body)))
        return deepcopy(self.objects[key])

    async def delete(self, key: JobKey, uid: str, version: str) -> None:
        if key not in self.objects:
            raise ApiMissingError(f"{key} is missing")
        metadata = self.objects[key]["metadata"]
        if (metadata["uid"], metadata["resourceVersion"]) != (uid, version):
            raise ApiConflictError(f"resourceVersion is {metadata['resourceVersion']}")
        self.remove(key)

    async def tell(self, namespace: str, event: Mapping[str, Any]) -> None:
        self.told.append(dict(event))

    async def get_workload(self, key: WorkloadKey) -> Object:
        raise ApiMissingError(f"{key} is missing")

    async def patch_workload(self, key: WorkloadKey, body: Mapping[str, Any]) -> Object:
        raise ApiMissingError(f"{key} is missing")

    async def answer_check(self, key: WorkloadKey, body: Mapping[str, Any]) -> Object:
        raise ApiMissingError(f"{key} is missing")

    async def get_record(self, name: str) -> Object:
        if name not in self.records:
            raise ApiMissingError(f"record {name} is missing")
        return deepcopy(self.records[name])

    async def patch_record(self, name: str, body: Mapping[str, Any]) -> Object:
        before = await self.get_record(name)
        for each in ("uid", "resourceVersion"):
            if body["metadata"][each] != before["metadata"][each]:
                raise ApiConflictError(f"{each} is {before['metadata'][each]}")
        if (after := merged(before, deepcopy(dict(body)))) != before:
            self._store_record(name, after)
        return await self.get_record(name)

    async def create_record(self, body: Mapping[str, Any]) -> Object:
        record = deepcopy(dict(body))
        name = record["metadata"]["name"]
        if name in self.records:
            raise ApiConflictError("already exists")
        self.uids += 1
        record["metadata"] |= {"uid": f"{self.uids:08x}-record", "creationTimestamp": EPOCH}
        self._store_record(name, record)
        return await self.get_record(name)

    async def delete_record(self, name: str, uid: str) -> None:
        if (await self.get_record(name))["metadata"]["uid"] != uid:
            raise ApiConflictError("it is another one")
        self.version += 1
        del self.records[name]

    def _store_record(self, name: str, record: Object) -> None:
        self.version += 1
        record["metadata"]["resourceVersion"] = str(self.version)
        self.records[name] = record
        self.on_write()

    def _create(self, key: JobKey, body: Object) -> None:
        self.uids += 1
        metadata = {"uid": f"{self.uids:08x}-{self.cluster}", "creationTimestamp": EPOCH}
        body["metadata"] = {**body["metadata"], **metadata}
        self._store(key, body)

    def _store(self, key: JobKey, job: Object, *, by_hand: bool = False) -> None:
        before = self.objects.get(key)
        if job == before:
            return
        self._check_template(before, job)
        self._check_annotations(job)
        self.version += 1
        job["metadata"] = {**job["metadata"], "resourceVersion": str(self.version)}
        self._count_start(before, job, by_hand=by_hand)
        self.objects[key] = job
        kind = "MODIFIED" if before else "ADDED"
        if job["metadata"].get("deletionTimestamp") and not job["metadata"].get("finalizers"):
            del self.objects[key]
            kind = "DELETED"
        self.log.append((self.version, kind, deepcopy(job)))
        self.on_write()

    def _check_template(self, before: Object | None, job: Object) -> None:
        if before is None or before["spec"]["template"] == job["spec"]["template"]:
            return
        if not before["spec"].get("suspend") or (before.get("status") or {}).get("startTime"):
            raise ApiRefusedError("spec.template: field is immutable")

    def _check_annotations(self, job: Object) -> None:
        told = job["metadata"].get("annotations")
        if isinstance(told, Mapping) and sum(len(k) + len(str(v)) for k, v in told.items()) > _MOST:
            raise ApiRefusedError(f"metadata.annotations: Too long: may not be more than {_MOST}")

    def _count_start(self, before: Object | None, job: Object, *, by_hand: bool) -> None:
        """A grant stays in the template of a Job that ran with it: whoever lets that run again by
        hand starts no grant."""
        was_suspended = before is None or before["spec"].get("suspend")
        if was_suspended and not job["spec"].get("suspend") and not job["spec"].get("managedBy"):
            labels = job["spec"]["template"]["metadata"].get("labels") or {}
            job_id = (job["metadata"].get("annotations") or {}).get(JOB_ID, "")
            self.starts.append((job_id, 0 if by_hand else int(labels.get(GRANT, 0))))
