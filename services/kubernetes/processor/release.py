"""Effects of giving Jobs back to Kubernetes, which starts them by its own rules.

The record says so first, so that Coplace starts none of them any more; then the Job is changed."""

from collections.abc import Sequence
from typing import Final

from services.kubernetes.model import bodies, records
from services.kubernetes.model.home_status import concluded
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.names import MANAGED_BY, OUTCOME, QUEUE_NAME
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.processor.by_hand import BY_HAND, began_by_hand
from services.kubernetes.processor.effects import (
    JobEffect,
    NotifyUser,
    PatchJob,
    PatchRecord,
    PatchStatus,
)
from services.kubernetes.processor.seen import SeenJob
from shared.kubernetes.claims import AfterStop
from shared.kubernetes.effects import LookAgain

RELEASED: Final = "released: Kubernetes starts it by its own rules"
_UNMANAGED: Final = f"released: without Coplace nobody runs it with spec.managedBy: {MANAGED_BY}"
_PODS_END_S: Final = 1.0


def released(
    seen: SeenJob, record: KubernetesRecord | None, queue: str, now_us: int
) -> Sequence[JobEffect]:
    """Return what gives a Job back that Coplace decided on so far. What runs stays, and is not kept
    from being deleted any more; so is what is over."""
    job = seen.job
    if record is None:
        return give_back(job, None, queue, now_us)
    if record.outcome or job is None or job.is_deleted or job.run_end:
        return _freed(seen, record)
    if not record.released_at_us:
        return [PatchRecord(record, records.releasing(record, now_us), "released")]
    if record.claim.is_live and not _may_be_taken_back(job, record):
        return _freed(seen, record)
    return give_back(job, record, queue, now_us)


def _may_be_taken_back(job: KubernetesJob, record: KubernetesRecord) -> bool:
    """Return whether a start that was claimed has not happened, and cannot once the Job is another:
    of a copy only who creates it knows."""
    is_cancelled = record.stop is not None and record.stop.then is AfterStop.CANCEL
    is_begun = record.claim.has_begun or record.runs_as_copy or bodies.carries(job, record)
    return not (is_begun or is_cancelled)


def give_back(
    job: KubernetesJob | None, record: KubernetesRecord | None, queue: str, now_us: int
) -> Sequence[JobEffect]:
    """Return what has Kubernetes start a Job that waits; one that Kubernetes gives no pods has
    failed. Empty where it is out of the queue."""
    if job is None or job.is_deleted or job.run_end or job.labels.get(QUEUE_NAME) != queue:
        return _freed(SeenJob(job), record)
    if job.is_managed:
        body = concluded(job, None, _UNMANAGED, now_us)
        user = NotifyUser(job, "Released", _UNMANAGED, is_warning=True)
        return [user, PatchStatus(job, body)] if body else ()
    if job.keeps_its_start:
        return [PatchStatus(job, bodies.unstarting(job))]
    if job.is_suspended and job.started_at_us:
        return [LookAgain(_PODS_END_S)]  # pods of before are still being ended
    if job.granted and not job.is_suspended:
        return _without_its_grant(job, record, now_us)
    body = bodies.giving_back(job, record.before if record else None)
    informs = {OUTCOME: RELEASED}
    patch = PatchJob(job, body, "given back to Kubernetes", record, informs)
    return [patch, NotifyUser(job, "Released", RELEASED)]


def _without_its_grant(
    job: KubernetesJob, record: KubernetesRecord | None, now_us: int
) -> Sequence[JobEffect]:
    """Suspend a Job that somebody let run: it has the nodes of a grant that is over, and its pods
    count as those of a grant. Only what is suspended can be changed back."""
    patch = PatchJob(job, bodies.suspending(job), f"suspended: {BY_HAND}", record)
    return [patch, *(began_by_hand(job, record, now_us) if record else ())]


def _freed(seen: SeenJob, record: KubernetesRecord | None) -> Sequence[JobEffect]:
    """Have nothing keep a Job and what runs for it from being deleted. Of a copy that may have
    begun unseen only the process knows what became of it."""
    is_begun = record is None or record.claim.has_begun or not record.claim.is_live
    run = seen.run if is_begun else None
    of = {each.id: each for each in (seen.job, run) if each is not None}
    return [
        PatchJob(each, bodies.releasing(each), "let go", record)
        for each in of.values()
        if each.is_taken
    ]
