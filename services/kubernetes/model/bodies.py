"""What is written to the API server: merge patches of Jobs, and copies of them.

Each patch names the version of the Job that it was decided on: where the Job is newer, or another
one of its name, nothing is changed (409).
"""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any, Final

from services.kubernetes.model.claims import GrantClaim, StopRequest
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.names import (
    CLAIM,
    COPY_OF,
    FINALIZER,
    FREQUENCY_GHZ,
    GRANT,
    JOB_ID,
    OUTCOME,
    PROBLEM,
    QUEUE_NAME,
    STOP,
    WALLTIME_S,
)
from shared.domain.hostlist import expand

Body = Mapping[str, Any]
# What the Job controller adds of its own.
_OF_KUBERNETES: Final = ("batch.kubernetes.io/", "controller-uid", "job-name")
# A copy whose Job says nothing of it is removed a day after its end.
_KEPT_S: Final = 86_400
_ANNOTATION_MOST: Final = 1024


def _annotated(job: KubernetesJob, annotations: Mapping[str, str | None], **more: Any) -> Body:
    short = {name: text and text[:_ANNOTATION_MOST] for name, text in annotations.items()}
    short |= {name: annotations[name] for name in (CLAIM, STOP) if name in annotations}
    return _update(job, annotations=short, **more)


def _update(job: KubernetesJob, **metadata: Any) -> Body:
    version = {"uid": job.uid, "resourceVersion": job.resource_version}
    return {"metadata": {**version, **metadata}}


def taking(job: KubernetesJob, job_id: str, walltime_s: float) -> Body:
    """Take a Job into the queue: it has no pods, and is not deleted before its end was published.
    The limit"""
    told = {JOB_ID: job_id, WALLTIME_S: f"{walltime_s:g}", PROBLEM: None}
    body = _annotated(job, told, finalizers=[*job.finalizers, FINALIZER])
    return {**body, "spec": {"suspend": True}}


def problem(job: KubernetesJob, why: str) -> Body:
    """Annotate a Job with why it is not taken."""
    return _annotated(job, {PROBLEM: why})


def claiming(job: KubernetesJob, claim: GrantClaim) -> Body:
    """Leave the word on a grant."""
    return _annotated(job, {CLAIM: claim.to_json()})


def starting(job: KubernetesJob, claim: GrantClaim) -> Body:
    """Leave the word on a grant and start the Job in its own cluster, in one."""
    pod: dict[str, Any] = {
        "metadata": _pod_metadata(claim, job.annotations[JOB_ID]),
        "spec": {"affinity": _affinity(claim.nodes)},
    }
    spec = {"suspend": False, "activeDeadlineSeconds": ceil(claim.walltime_s)}
    body = _annotated(job, {CLAIM: claim.to_json(), STOP: None})
    return {**body, "spec": {**spec, "template": pod}}


def _pod_metadata(claim: GrantClaim, job_id: str) -> dict[str, Any]:
    told = {JOB_ID: job_id, FREQUENCY_GHZ: f"{claim.freq_ghz:g}"}
    return {"labels": {GRANT: str(claim.grant)}, "annotations": told}


def _affinity(nodes: Iterable[str]) -> Body:
    """One of these nodes; by their names, whatever labels they have."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for each in nodes
        for name in expand(each)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def copy(job: KubernetesJob, job_id: str) -> Body:
    """Return what runs for a Job of another cluster under its claim: of its name and grant, so that
    there is one at most."""
    claim, key, spec = job.claim, job.run_key, dict(job.spec)
    for name in ("selector", "manualSelector"):
        spec.pop(name, None)
    spec["template"] = _copied_template(job.spec["template"], claim, job_id)
    spec["suspend"], spec["activeDeadlineSeconds"] = False, ceil(claim.walltime_s)
    spec.setdefault("ttlSecondsAfterFinished", _KEPT_S)
    own = {QUEUE_NAME: job.labels[QUEUE_NAME], COPY_OF: job.cluster, GRANT: str(claim.grant)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {**_own(job.labels), **own},
            "annotations": {JOB_ID: job_id},
            "finalizers": [FINALIZER],
        },
        "spec": spec,
    }


def _copied_template(template: Body, claim: GrantClaim, job_id: str) -> Body:
    metadata, added = template.get("metadata") or {}, _pod_metadata(claim, job_id)
    labels = {**_own(metadata.get("labels")), **added["labels"]}
    annotations = {**(metadata.get("annotations") or {}), **added["annotations"]}
    pod = {**template["spec"], "affinity": _affinity(claim.nodes)}
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod}


def _own(labels: Mapping[str, str] | None) -> dict[str, str]:
    return {
        name: value for name, value in (labels or {}).items() if not name.startswith(_OF_KUBERNETES)
    }


def stopping(job: KubernetesJob, stop: StopRequest) -> Body:
    """Ask for the end of a Job's run."""
    return _annotated(job, {STOP: stop.to_json()})


def suspending(job: KubernetesJob) -> Body:
    """Suspend a Job, so that the Job controller ends all pods."""
    return {**_update(job), "spec": {"suspend": True}}


def waiting(job: KubernetesJob, claim: GrantClaim) -> Body:
    """Note that the run is over, and the Job waits again."""
    return _annotated(job, {CLAIM: claim.to_json(), STOP: None})


def closing(job: KubernetesJob, outcome: str, claim: GrantClaim | None = None) -> Body:
    """Let the Job go, once its end was published."""
    told = {OUTCOME: outcome, STOP: None}
    if claim is not None:
        told[CLAIM] = claim.to_json()
    return _annotated(job, told, finalizers=_others(job))


def releasing(job: KubernetesJob) -> Body:
    """Let a copy go."""
    return _update(job, finalizers=_others(job))


def _others(job: KubernetesJob) -> list[str]:
    return [each for each in job.finalizers if each != FINALIZER]
