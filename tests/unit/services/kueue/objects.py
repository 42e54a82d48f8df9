"""Workloads as these tests want them."""

from collections.abc import Mapping
from typing import Any

from services.kueue.model.facts import KueueTerms, submission_of
from services.kueue.model.records import WorkloadRecord
from shared.kubernetes.claims import GrantClaim
from shared.kueue.workloads import CheckNames, KueueWorkload

NOW_US = 1_767_300_000_000_000
CREATED = "2026-01-01T00:00:00Z"
TERMS = KueueTerms("north", "north/kueue", 3600, {"alpha": "gold-6254"})
CHECKS = CheckNames(frozenset({"placement"}), cluster="alpha")
FIELDS = {
    "f:status": {
        "f:admission": {"f:clusterQueue": {}},
        "f:conditions": {'k:{"type":"QuotaReserved"}': {".": {}, "f:status": {}}},
        "f:resourceRequests": {'v:"a"': {}},
    }
}
OWNED = {
    "managedFields": [
        {"manager": "other", "operation": "Apply", "subresource": "status", "fieldsV1": {}},
        {
            "manager": "kueue-admission",
            "operation": "Apply",
            "subresource": "status",
            "fieldsV1": FIELDS,
        },
    ]
}
LIVE = GrantClaim(
    3,
    is_live=True,
    cluster="alpha",
    freq_ghz=2.1,
    walltime_s=60,
    at_us=NOW_US,
    nodes=("n1",),
)


def pod_set(name: str = "main", count: int = 1, **requests: str) -> dict[str, Any]:
    """A pod set whose pods ask for these."""
    container = {"name": "main", "resources": {"requests": requests or {"cpu": "2"}}}
    template = {"metadata": {"labels": {}}, "spec": {"containers": [container]}}
    return {"name": name, "count": count, "template": template}


def workload(
    status: Mapping[str, Any] | None = None,
    *sets: dict[str, Any],
    owner: str = "lu",
    spec: dict[str, Any] | None = None,
    **conditions: str,
) -> KueueWorkload:
    """A Workload of alpha with these true conditions since these times."""
    told = [
        {"type": name, "status": "True", "reason": name, "lastTransitionTime": at}
        for name, at in conditions.items()
    ]
    metadata = {
        "namespace": "physics",
        "name": "job-lu-1a2b",
        "uid": "00000001-alpha",
        "creationTimestamp": CREATED,
        "resourceVersion": "7",
        "ownerReferences": [{"name": owner}],
    }
    asked = {"queueName": "main", "podSets": list(sets) or [pod_set()], **(spec or {})}
    fields = {"metadata": metadata, "spec": asked}
    return KueueWorkload("alpha", {**fields, "status": {"conditions": told, **(status or {})}})


def recorded(found: KueueWorkload | None = None, **more: Any) -> WorkloadRecord:
    """The record of a Workload."""
    return WorkloadRecord(submission_of(found or workload(), ["alpha"], TERMS), **more)
