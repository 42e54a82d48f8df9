"""What to do about a Job that somebody let run without its grant: it is suspended, and that run is
charged as a job of its own."""

from collections.abc import Sequence

from services.kubernetes.model import bodies, records
from services.kubernetes.model.facts import JobTerms, run_by_hand
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.processor.effects import JobEffect, PatchJob, PatchRecord, PatchStatus
from shared.kubernetes.claims import AfterStop, StopRequest
from shared.kubernetes.effects import PublishFact

BY_HAND = "it was let run without its grant"


def began_by_hand(job: KubernetesJob, record: KubernetesRecord, now_us: int) -> Sequence[JobEffect]:
    """Keep since when a Job runs that has no grant: its controller does not, once it is suspended.
    Before it goes a patch of the Job, which holds only where that is as it was seen."""
    if record.by_hand is not None or not job.started_at_us:
        return ()
    since_us = min(max(job.started_at_us, job.created_at_us), now_us)
    kept = records.stopping(record, StopRequest(AfterStop.REQUEUE, BY_HAND, since_us))
    return [PatchRecord(record, kept, "keeps since when it runs")]


def charge_by_hand(
    record: KubernetesRecord, terms: JobTerms, ended_us: int, now_us: int
) -> Sequence[JobEffect]:
    """Publish the run without a grant that is over."""
    assert record.by_hand is not None
    facts = run_by_hand(record, terms, record.by_hand.at_us, ended_us, now_us)
    return [
        *map(PublishFact, facts),
        PatchRecord(record, records.stopped(record), "ran without its grant"),
    ]


def end_by_hand(
    job: KubernetesJob | None, record: KubernetesRecord, terms: JobTerms, now_us: int
) -> Sequence[JobEffect]:
    """End the run without a grant of a job that is over, and charge it."""
    if job is None:
        return charge_by_hand(record, terms, now_us, now_us)
    if job.run_end:
        return charge_by_hand(record, terms, job.run_end.at_us, now_us)
    if job.is_deleted:
        return charge_by_hand(record, terms, job.deleted_at_us, now_us)
    if not job.is_suspended:
        return [PatchJob(job, bodies.suspending(job), f"suspended: {BY_HAND}", record)]
    if job.started_at_us:
        return unstarted(job)
    return charge_by_hand(record, terms, job.suspended_at_us, now_us)


def unstarted(job: KubernetesJob) -> Sequence[JobEffect]:
    """Wait until the pods of before have ended, then have it count as never started."""
    return [PatchStatus(job, bodies.unstarting(job))] if job.keeps_its_start else ()
