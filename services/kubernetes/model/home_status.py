"""The status of a Job that Coplace manages: that of its copy, so that whoever waits for the Job is
answered.

The rules of the API server for such a status:
https://kubernetes.io/docs/concepts/workloads/controllers/job/#delegation-of-managing-a-job-object-to-external-controller
"""

from collections.abc import Mapping
from typing import Any, Final

from services.kubernetes.model.bodies import Body, update
from services.kubernetes.model.jobs import KubernetesJob
from shared.domain.times import in_utc
from shared.kubernetes.objects import mappings_of

_COUNTS: Final = ("active", "ready", "terminating", "succeeded", "failed")
_TOLD: Final = ("startTime", "completionTime", "completedIndexes", "failedIndexes")
# Before its end each has a condition that says how that will be.
_CONDITIONS: Final = ("SuccessCriteriaMet", "FailureTarget", "Complete", "Failed")
_COMPLETED: Final = "completed"


def mirrored(job: KubernetesJob, run: KubernetesJob | None) -> Body | None:
    """Return what makes the status of a Job that of what runs for it, or of nothing; None where it
    is."""
    return _changed(job, _read(run.status) if run else _read({}))


def concluded(
    job: KubernetesJob, run: KubernetesJob | None, outcome: str, now_us: int
) -> Body | None:
    """Return what makes the status of a Job that of one that is over; None where it is: as what ran
    for it ended, or by an outcome of Coplace's own."""
    if job.run_end is not None:
        return None
    if run is not None and run.run_end is not None:
        return _changed(job, _read(run.status))
    at = in_utc(now_us / 1e6)
    is_complete = outcome == _COMPLETED
    kinds = _CONDITIONS[0::2] if is_complete else _CONDITIONS[1::2]
    more = {"status": "True", "reason": "Coplace", "message": outcome}
    times = {"lastProbeTime": at, "lastTransitionTime": at}
    found: dict[str, Any] = {
        **_read({"startTime": job.status.get("startTime") or at}),
        "conditions": [{"type": kind, **more, **times} for kind in kinds],
    }
    if is_complete:
        found["completionTime"] = at
    return _changed(job, found)


def _read(status: Mapping[str, Any]) -> dict[str, Any]:
    """What is mirrored of a status; None for what it has not."""
    conditions = [
        dict(each)
        for each in mappings_of(status.get("conditions"))
        if each.get("type") in _CONDITIONS
    ]
    return {
        **{name: status.get(name) or None for name in _COUNTS},
        **{name: status.get(name) for name in _TOLD},
        "conditions": conditions or None,
    }


def _changed(job: KubernetesJob, wanted: Mapping[str, Any]) -> Body | None:
    if _read(job.status) == wanted:
        return None
    return {**update(job), "status": dict(wanted)}
