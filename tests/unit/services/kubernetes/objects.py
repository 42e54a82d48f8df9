"""Jobs and nodes as these tests want them."""

from typing import Any

from services.kubernetes.model.facts import JobTerms
from services.kubernetes.model.jobs import KubernetesJob
from tests.support.kubernetes_api import EPOCH, Object, merged, suspended_job

NOW_US = 1_767_300_000_000_000
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


def job(patch: Object | None = None, **spec: Any) -> KubernetesJob:
    """A suspended Job of alpha with two cores and 4 GiB, and what a merge patch makes of it."""
    fields = suspended_job("lu", **spec)
    fields["metadata"] |= {
        "uid": "00000001-alpha",
        "creationTimestamp": EPOCH,
        "resourceVersion": "7",
    }
    return KubernetesJob("alpha", merged(fields, patch or {}))


def node(name: str, cpu: str = "36", **more: Any) -> Object:
    """A node that is ready."""
    fields = {
        "metadata": {"name": name, "creationTimestamp": EPOCH},
        "spec": {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "192Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    found: Object = merged(fields, more)
    return found
