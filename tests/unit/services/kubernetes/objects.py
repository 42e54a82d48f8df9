"""Jobs and nodes as these tests want them."""

from typing import Any

from services.kubernetes.model.facts import JobTerms, submission_of
from services.kubernetes.model.jobs import JobUid, KubernetesJob
from services.kubernetes.model.records import KubernetesRecord
from shared.kubernetes.claims import GrantClaim
from tests.support.kubernetes_api import EPOCH, Object, merged, suspended_job
from tests.unit.shared.kubernetes.objects import NOW_US

CREATED_US = 1_767_225_600_000_000
JOB_ID = "north/alpha/physics/lu/00000001/1767225600"
TERMS = JobTerms(
    site="north",
    architecture="north/kubernetes",
    account_label="",
    user_label="",
    default_walltime_s=0,
    node_models={"alpha": "gold-6254", "beta": "epyc-7742"},
)

LIVE = GrantClaim(
    1,
    is_live=True,
    cluster="alpha",
    freq_ghz=2.1,
    walltime_s=60,
    at_us=NOW_US,
    nodes=("n1",),
    run_uid="00000001-alpha",
)


def job(patch: Object | None = None, **spec: Any) -> KubernetesJob:
    """A suspended Job of alpha with two cores and 4 GiB, and what a merge patch makes of it."""
    fields = suspended_job("lu", **spec)
    fields["metadata"] |= {
        "uid": "00000001-alpha",
        "creationTimestamp": EPOCH,
        "resourceVersion": "7",
    }
    return KubernetesJob("alpha", merged(fields, patch or {}))


def recorded(claim: GrantClaim | None = None, outcome: str = "", **spec: Any) -> KubernetesRecord:
    """The record of that Job, with the words on its grants."""
    submitted = submission_of(job(**spec), TERMS)
    return KubernetesRecord(
        id=JobUid("alpha", "00000001-alpha"),
        record_uid="00000009-record",
        version="8",
        job_key=job().key,
        job_id=submitted.job_id,
        asked=submitted.SerializeToString(),
        claim=claim or GrantClaim(),
        outcome=outcome,
    )


def ended_pod(job_name: str, labels: Object, reason: str = "PreemptionByScheduler") -> Object:
    """A pod of a Job that Kubernetes itself ended."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    labels = {**labels, "batch.kubernetes.io/job-name": job_name}
    return {
        "metadata": {"namespace": "physics", "labels": labels},
        "spec": {"nodeName": "n1"},
        "status": {"conditions": [condition]},
    }
