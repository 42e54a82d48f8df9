"""Copies of Jobs that the executor of another cluster runs: the kind `JobAssignment` of
`coplace.io/v1`, in the home cluster.

The home cluster writes what is to run, and the executor what becomes of it. To whom decides here an
assignment is the Job of the other cluster, with the assignment's own id and version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coplace_client.errors import RejectedError
from services.kubernetes.model.bodies import Body
from services.kubernetes.model.jobs import JobKey, KubernetesJob
from services.kubernetes.model.names import ASSIGNMENT, EXECUTOR, FINALIZER, QUEUE_NAME
from services.kubernetes.model.records import API_VERSION
from services.kubernetes.model.run_pods import (
    PodDisruption,
    pod_fields,
    read_disruption,
    read_pods,
)
from shared.domain.times import in_utc
from shared.kubernetes.objects import (
    ApiObject,
    mapping_of,
    require_identity,
    texts_of,
    unmanaged,
)
from shared.kubernetes.pods import RunPod
from shared.kubernetes.texts import shown
from shared.kueue.names import QUEUE_LABEL

KIND: Final = "JobAssignment"
PLURAL: Final = "jobassignments"
_STATUS: Final = "assignment"
_WITHDRAWN: Final = "withdrawn"
_COUNTS: Final = ("active", "ready", "terminating", "succeeded", "failed")
_TIMES: Final = ("startTime", "completionTime", "completedIndexes", "failedIndexes")


@dataclass(frozen=True, slots=True)
class JobAssignment(ApiObject):
    """One assignment of a cluster."""

    cluster: str
    fields: Mapping[str, Any]

    @classmethod
    def parse(cls, cluster: str, fields: Mapping[str, Any]) -> "JobAssignment":
        """Return the assignment that the home cluster shows. Raises RejectedError."""
        found = cls(cluster, unmanaged(mapping_of(fields)))
        require_identity(found.metadata)
        if not all(_names(found.metadata)):
            raise RejectedError("metadata.name", "must be NAMESPACE.NAME of a Job")
        return found

    @property
    def key(self) -> JobKey:
        """Return the cluster, namespace and name of what runs for it."""
        return JobKey(self.cluster, *_names(self.metadata))

    @property
    def job(self) -> KubernetesJob:
        """Return what is to run."""
        return KubernetesJob(self.cluster, {"spec": mapping_of(self.spec.get("job"))})

    @property
    def is_in_kueue(self) -> bool:
        """Return whether the Kueue there says when it runs."""
        return QUEUE_LABEL in self.labels

    @property
    def is_kept(self) -> bool:
        """Return whether its end is yet to be published by the home cluster."""
        return FINALIZER in self.finalizers

    @property
    def is_withdrawn(self) -> bool:
        """Return whether it must not run, or not any more."""
        return self.job.is_suspended or bool(self.metadata.get("deletionTimestamp"))

    @property
    def said(self) -> "AssignmentStatus":
        """Return what its executor said of it."""
        return AssignmentStatus.read(self.status, self.key.namespace)


@dataclass(frozen=True, slots=True)
class AssignmentStatus:
    """What an executor said: that it alone decides whether it starts (`is_claimed`), why it never
    will (`refused`), the uid of the Job that it created, when that was deleted, and its pods. One
    that was to end, and has, `is_final`: nobody can let it run again."""

    is_claimed: bool = False
    refused: str = ""
    run_uid: str = ""
    deleted_at: str = ""
    is_final: bool = False
    pods: Sequence[RunPod] = ()
    disruption: PodDisruption | None = None

    @classmethod
    def read(cls, told: Mapping[str, Any], namespace: str) -> "AssignmentStatus":
        """Return what a status says."""
        return cls(
            is_claimed=told.get("claimed") is True,
            refused=str(told.get("refused") or ""),
            run_uid=str(told.get("uid") or ""),
            deleted_at=str(told.get("deletedAt") or ""),
            is_final=told.get("final") is True,
            pods=read_pods(told.get("pods"), namespace),
            disruption=read_disruption(told.get("disruption")),
        )

    @property
    def may_be_taken_back(self) -> bool:
        """Return whether it has not begun, and cannot where it is another from now on."""
        return not self.run_uid and (not self.is_claimed or bool(self.refused))


def _names(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """The namespace has no dots."""
    namespace, _, name = str(metadata.get("name")).partition(".")
    return namespace, name


def assignment_name(key: JobKey) -> str:
    """Return the name of the assignment of a copy."""
    return f"{key.namespace}.{key.name}"


def assignment_body(key: JobKey, copy: Body) -> Body:
    """Return the assignment of a copy, by the manifest of that. One that waits for Kueue is not
    suspended here: that asks for its end."""
    metadata = {**copy["metadata"], "name": assignment_name(key)}
    del metadata["namespace"]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": {"job": {**copy["spec"], "suspend": False}},
    }


def assignment_patch(body: Body) -> Body:
    """Return a patch of a copy as one of its assignment."""
    return {**body, "spec": {"job": body["spec"]}} if "spec" in body else body


def job_shown(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the Job of the other cluster as its assignment shows it."""
    metadata, status = mapping_of(fields.get("metadata")), mapping_of(fields.get("status"))
    namespace, name = _names(metadata)
    deleted_at = metadata.get("deletionTimestamp") or status.get("deletedAt")
    spec = mapping_of(mapping_of(fields.get("spec")).get("job"))
    is_suspended = spec.get("suspend") is True or status.get("suspended") is True
    return {
        "metadata": {
            **mapping_of(unmanaged(fields).get("metadata")),
            "namespace": namespace,
            "name": name,
            **({"deletionTimestamp": deleted_at} if deleted_at else {}),
        },
        "spec": {**spec, "suspend": is_suspended},
        "status": mapping_of(status.get("job")),
        # No user can write them: the API server takes no such fields of a Job.
        _STATUS: status,
        _WITHDRAWN: spec.get("suspend") is True,
    }


def said_of(run: KubernetesJob) -> AssignmentStatus | None:
    """Return what the executor said of a copy; None where none runs it."""
    told = run.fields.get(_STATUS)
    return AssignmentStatus.read(told, run.key.namespace) if isinstance(told, Mapping) else None


def is_asked_to_end(run: KubernetesJob) -> bool:
    """Return whether an executor was asked to end a copy, or not to create it."""
    return run.fields.get(_WITHDRAWN) is True


def run_body(assignment: JobAssignment) -> Body:
    """Return the Job that runs for an assignment. It is in no queue of Coplace there; in one of
    Kueue it runs once that lets it."""
    key, metadata = assignment.key, assignment.metadata
    spec = assignment.spec["job"]
    labels = {name: told for name, told in assignment.labels.items() if name != QUEUE_NAME}
    annotations = texts_of(metadata.get("annotations"))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {**labels, EXECUTOR: key.cluster},
            "annotations": {**annotations, ASSIGNMENT: assignment.uid},
            "finalizers": [FINALIZER],
        },
        "spec": {**spec, "suspend": True} if assignment.is_in_kueue else spec,
    }


def claimed() -> Body:
    """Say that the executor decides from now on whether it starts."""
    return {"claimed": True}


def refused(why: str) -> Body:
    """Say that it never starts."""
    return {"refused": shown(why)}


def removed(now_us: int) -> Body:
    """Say that what ran is not there any more."""
    return {"deletedAt": in_utc(now_us // 1_000_000)}


def reported(
    run: KubernetesJob,
    pods: Sequence[RunPod],
    disruption: PodDisruption | None,
    *,
    is_final: bool = False,
) -> Body:
    """Say what becomes of what runs; `is_final` where it has ended as it was asked to, and was
    deleted for that."""
    status = run.status
    told: dict[str, Any] = {name: status.get(name) for name in (*_COUNTS, *_TIMES, "conditions")}
    if run.keeps_its_start:  # all of its pods have ended: it counts as never started
        told["startTime"] = None
    return {
        "uid": run.uid,
        "suspended": run.spec.get("suspend") is True,
        "final": is_final,
        "deletedAt": None if is_final else run.metadata.get("deletionTimestamp"),
        "job": told,
        "pods": [pod_fields(each) for each in pods],
        "disruption": disruption.to_fields() if disruption else None,
    }


def has_said(assignment: JobAssignment, status: Body) -> bool:
    """Return whether a status says all of this."""
    return _has(assignment.status, status)


def _has(status: Mapping[str, Any], told: Body) -> bool:
    return all(
        _has(mapping_of(status.get(name)), value)
        if isinstance(value, Mapping)
        else status.get(name) == value
        for name, value in told.items()
    )


def status_patch(assignment: JobAssignment, status: Body) -> Body:
    """Return a patch of the status of an assignment as it was seen."""
    version = {"uid": assignment.uid, "resourceVersion": assignment.resource_version}
    return {"metadata": version, "status": status}
