"""What is written to Workloads and AdmissionChecks by whoever answers these.

Each names the version of the object that it was decided on: where that is newer, nothing is changed
(409)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from shared.domain.times import in_utc
from shared.kubernetes.objects import mapping_of
from shared.kubernetes.texts import shown
from shared.kueue.names import API_VERSION
from shared.kueue.workloads import CheckState, KueueWorkload

Body = Mapping[str, Any]
_MOST_MESSAGE: Final = 1024


def checked(
    workload: KueueWorkload,
    names: Iterable[str],
    state: CheckState,
    message: str,
    now_us: int,
    *,
    updates: Sequence[Body] = (),
    requeue_s: int | None = None,
) -> Body:
    """Answer checks of a Workload: what its pods get with `Ready`, after which time Kueue tries
    again with `Retry`, s."""
    told: dict[str, Any] = {
        "state": str(state),
        "message": shown(message, _MOST_MESSAGE),
        "lastTransitionTime": in_utc(now_us / 1e6),
    }
    if updates:
        told["podSetUpdates"] = list(updates)
    if requeue_s is not None:
        told["requeueAfterSeconds"] = requeue_s
    return status_body(workload, {"admissionChecks": [{"name": name, **told} for name in names]})


def activated(check: Mapping[str, Any], now_us: int) -> Body:
    """Say of an AdmissionCheck that somebody answers it."""
    metadata = mapping_of(check.get("metadata"))
    active = {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "Coplace answers it",
        "lastTransitionTime": in_utc(now_us / 1e6),
        "observedGeneration": metadata.get("generation", 1),
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "AdmissionCheck",
        "metadata": {"name": metadata.get("name")},
        "status": {"conditions": [active]},
    }


def deactivated(workload: KueueWorkload) -> Body:
    """Have Kueue end a Workload, and admit it no more."""
    version = {"uid": workload.id.uid, "resourceVersion": workload.resource_version}
    return {"metadata": version, "spec": {"active": False}}


def status_body(workload: KueueWorkload, status: Body) -> Body:
    """Return what owns these fields of the status of a Workload."""
    key = workload.key
    metadata = {
        "name": key.name,
        "namespace": key.namespace,
        "uid": workload.id.uid,
        "resourceVersion": workload.resource_version,
    }
    return {"apiVersion": API_VERSION, "kind": "Workload", "metadata": metadata, "status": status}
