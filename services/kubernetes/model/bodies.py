"""What is written to the API server: merge patches of Jobs, and copies of them.

Each patch names the version of the Job that it was decided on: where the Job is newer, or another
one of its name, nothing is changed (409).
"""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any, Final

from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.names import (
    COPY_OF,
    FINALIZER,
    QUEUE_NAME,
    RECORD,
)
from services.kubernetes.model.node_choice import JOB_NAMES, wants_node_per_index
from services.kubernetes.model.records import KubernetesRecord
from shared.domain.hostlist import expand
from shared.kubernetes.claims import GrantClaim
from shared.kubernetes.names import FREQUENCY_GHZ, GRANT, HOSTNAME, JOB_ID
from shared.kubernetes.objects import mapping_of, mappings_of, whole_of
from shared.kueue.names import QUEUE_LABEL

Body = Mapping[str, Any]
# What the Job controller adds of its own.
_SPREAD: Final = "topologySpreadConstraints"
_OF_KUBERNETES: Final = ("batch.kubernetes.io/", "controller-uid", "job-name")
# A copy whose Job says nothing of it is removed a day after its end.
_KEPT_S: Final = 86_400
_ANNOTATION_MOST: Final = 1024
# The nodes that were decided take the place of those that may be chosen.
_CHOSEN_BY: Final = ("nodeName", "nodeSelector")
_NO_GRANT: Final[Body] = {
    "labels": {GRANT: None},
    "annotations": {JOB_ID: None, FREQUENCY_GHZ: None},
}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def annotated(body: Body, words: Mapping[str, str | None]) -> Body:
    """Add annotations that users read to a patch: cut, since they share what Kubernetes takes."""
    short = {name: text and text[:_ANNOTATION_MOST] for name, text in words.items()}
    return {**body, "metadata": {**body["metadata"], "annotations": short}}


def update(job: KubernetesJob, **metadata: Any) -> Body:
    """Return a patch of the metadata of a Job as it was seen."""
    version = {"uid": job.uid, "resourceVersion": job.resource_version}
    return {"metadata": {**version, **metadata}}


def taking(job: KubernetesJob) -> Body:
    """Take a Job into the queue: it has no pods, and is not deleted before its end was
    published."""
    finalizers = job.finalizers if job.is_taken else [*job.finalizers, FINALIZER]
    return {**update(job, finalizers=finalizers), "spec": {"suspend": True}}


def starting(job: KubernetesJob, record: KubernetesRecord) -> Body:
    """Start a Job in its own cluster, as its record has claimed it: with no more pods than were
    granted, where and for as long as was decided."""
    claim = record.claim
    placed = {"nodeAffinity": {**affinity(claim.nodes)["nodeAffinity"], _PREFERRED: None}}
    pod: dict[str, Any] = {
        "metadata": _pod_metadata(claim, record.job_id),
        "spec": {"affinity": placed, "nodeSelector": None},
    }
    return {**update(job), "spec": {**_begun(job, claim), "template": pod}}


def _begun(job: KubernetesJob, claim: GrantClaim) -> dict[str, Any]:
    """What a run begins with: the decided limit, and no more pods than were granted."""
    spec = {"suspend": False, "activeDeadlineSeconds": ceil(claim.walltime_s)}
    most = sum(claim.units)
    return spec if 0 < job.pods <= most else {**spec, "parallelism": most}


def keeping(job: KubernetesJob, queue: str) -> Body | None:
    """Set back what keeps a Job in the queue until its end was published; None where it is
    there."""
    metadata: dict[str, Any] = {}
    if not job.is_taken and not job.is_deleted:
        metadata["finalizers"] = [*job.finalizers, FINALIZER]
    if job.labels.get(QUEUE_NAME) != queue:
        metadata["labels"] = {QUEUE_NAME: queue}
    return update(job, **metadata) if metadata else None


def limiting(run: KubernetesJob, claim: GrantClaim) -> Body | None:
    """Set back what a run may have at most; None where it has no more."""
    most, limit_s = sum(claim.units), ceil(claim.walltime_s)
    told_s, spec = whole_of(run.spec.get("activeDeadlineSeconds")), dict[str, Any]()
    if run.pods > most:
        spec["parallelism"] = most
    if told_s is None or told_s > limit_s:
        spec["activeDeadlineSeconds"] = limit_s
    return {**update(run), "spec": spec} if spec else None


def _pod_metadata(claim: GrantClaim, job_id: str) -> dict[str, Any]:
    told = {JOB_ID: job_id, FREQUENCY_GHZ: f"{claim.freq_ghz:g}"}
    return {"labels": {GRANT: str(claim.grant)}, "annotations": told}


def affinity(nodes: Iterable[str]) -> Body:
    """Return one of these nodes; by their names, whatever labels they have."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for each in nodes
        for name in expand(each)
    ]
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}


def carries(job: KubernetesJob, record: KubernetesRecord) -> bool:
    """Return whether a Job was let run as its record has claimed it, and nowhere else."""
    claim = record.claim
    placed = mapping_of(mapping_of(job.pod.get("affinity")).get("nodeAffinity"))
    wanted = affinity(claim.nodes)["nodeAffinity"]
    return job.granted == claim.grant and placed == wanted


def copy(job: KubernetesJob, record: KubernetesRecord, queue: str, kueue_queue: str = "") -> Body:
    """Return what runs for a Job under its claim, elsewhere or where Kubernetes gives it no pods:
    of its name and grant, so that there is one at most. In a queue of Kueue that lets it run."""
    claim, key, spec = record.claim, record.run_key, dict(job.spec)
    for name in ("selector", "manualSelector", "managedBy"):
        spec.pop(name, None)
    spec |= {**_begun(job, claim), "template": _copied_template(job, record)}
    spec.setdefault("ttlSecondsAfterFinished", _KEPT_S)
    own = {QUEUE_NAME: queue, COPY_OF: job.cluster, GRANT: str(claim.grant)}
    if kueue_queue:
        own[QUEUE_LABEL], spec["suspend"] = kueue_queue, True
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {**_own(job.labels), **own},
            "annotations": {JOB_ID: record.job_id, RECORD: record.id.uid},
            "finalizers": [FINALIZER],
        },
        "spec": spec,
    }


def _copied_template(job: KubernetesJob, record: KubernetesRecord) -> Body:
    claim, metadata = record.claim, mapping_of(job.template.get("metadata"))
    added = _pod_metadata(claim, record.job_id)
    labels = {**_own(mapping_of(metadata.get("labels"))), **added["labels"]}
    annotations = {**mapping_of(metadata.get("annotations")), **added["annotations"]}
    pod = {name: told for name, told in job.pod.items() if name not in _CHOSEN_BY}
    names = (job.key.name, record.run_key.name)
    chosen = {**_renamed(mapping_of(pod.get("affinity")), *names), **affinity(claim.nodes)}
    if wants_node_per_index(job):
        chosen["podAntiAffinity"] = _apart(chosen, record.run_key.name)
    placed = {**pod, "affinity": chosen}
    if _SPREAD in pod:
        placed[_SPREAD] = _renamed(pod[_SPREAD], *names)
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": placed}


def _renamed(told: Any, job_name: str, copy_name: str) -> Any:
    """Return what a pod says of pods of its Job, as of those of a copy: that has another name."""
    if isinstance(told, Mapping):
        return {
            name: copy_name
            if name in JOB_NAMES and value == job_name
            else _renamed(value, job_name, copy_name)
            for name, value in told.items()
        }
    if isinstance(told, list):
        return [_renamed(each, job_name, copy_name) for each in told]
    return told


def _apart(chosen: Body, job_name: str) -> Body:
    """What pods keep away from, and from each other too."""
    told = mapping_of(chosen.get("podAntiAffinity"))
    selector = {"matchLabels": {JOB_NAMES[-1]: job_name}}
    own = {"topologyKey": HOSTNAME, "labelSelector": selector}
    return {**told, _REQUIRED: [*mappings_of(told.get(_REQUIRED)), own]}


def _own(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: told for name, told in labels.items() if not name.startswith(_OF_KUBERNETES)}


def suspending(job: KubernetesJob) -> Body:
    """Suspend a Job, so that the Job controller ends all pods."""
    return {**update(job), "spec": {"suspend": True}}


def unstarting(job: KubernetesJob) -> Body:
    """Take since when a Job ran out of its status: the API server lets its template be changed
    then, and its controller writes that time anew."""
    return {**update(job), "status": {"startTime": None}}


def giving_back(job: KubernetesJob, before: Body | None) -> Body:
    """Take a Job out of the queue and let it run by Kubernetes' own rules: where, and for as long
    as, its user wrote before a grant took the place of that. Without `before` it keeps the nodes of
    its last grant."""
    kept = [each for each in job.finalizers if each != FINALIZER]
    spec: dict[str, Any] = {"suspend": False}
    if job.granted and job.is_suspended:
        spec["template"] = {"metadata": dict(_NO_GRANT)}
        if before is not None:
            spec["activeDeadlineSeconds"] = before.get("activeDeadlineSeconds")
            affinity = {"nodeAffinity": _own_affinity(before)}
            spec["template"]["spec"] = {
                "affinity": affinity,
                "nodeSelector": before.get("nodeSelector"),
            }
    return {**update(job, finalizers=kept, labels={QUEUE_NAME: None}), "spec": spec}


def _own_affinity(before: Body) -> Body:
    told = mapping_of(before.get("nodeAffinity"))
    return {name: told.get(name) for name in (_REQUIRED, _PREFERRED)}


def releasing(job: KubernetesJob) -> Body:
    """Let a Job or a copy go, once its end was published."""
    return update(job, finalizers=[each for each in job.finalizers if each != FINALIZER])
