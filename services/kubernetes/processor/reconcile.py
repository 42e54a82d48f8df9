"""Effects of the state of a Job: from the objects of the API server alone, so that a restart
goes on where it was."""

from collections.abc import Sequence
from dataclasses import dataclass

from coplace.v1.jobs_pb2 import JobOutcome

from coplace_client.errors import RejectedError
from coplace_client.facts import decline_event
from services.kubernetes.model import bodies
from services.kubernetes.model.claims import AfterStop, StopRequest
from services.kubernetes.model.facts import (
    JobTerms,
    cancelled_end,
    finish,
    id_of,
    requeue,
    require_placeable,
    start,
    submission,
    submission_of,
)
from services.kubernetes.model.jobs import KubernetesJob, RunEnd
from services.kubernetes.model.names import PROBLEM
from services.kubernetes.processor.effects import (
    CreateCopy,
    DeleteJob,
    JobEffect,
    NotifyUser,
    PatchJob,
    PublishFact,
)

_OUTCOMES = {
    JobOutcome.JOB_OUTCOME_COMPLETED: "completed",
    JobOutcome.JOB_OUTCOME_FAILED: "failed",
    JobOutcome.JOB_OUTCOME_TIMED_OUT: "timed out",
    JobOutcome.JOB_OUTCOME_CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class PodDisruption:
    """That pods of a run were ended by Kubernetes, not by themselves; `failed_nodes` are those that
    were lost with them."""

    reason: str
    failed_nodes: tuple[str, ...] = ()


def reconcile(
    job: KubernetesJob,
    run: KubernetesJob | None,
    disruption: PodDisruption | None,
    terms: JobTerms,
    now_us: int,
) -> Sequence[JobEffect]:
    """Return what to do about a Job; its run is itself, or its copy on another cluster."""
    if job.outcome:
        return _release(run)
    if not job.is_taken:
        return _take(job, terms)
    if job.claim.is_live:
        return _running(job, run, disruption, terms, now_us)
    return _waiting(job, terms)


def stray(copy: KubernetesJob, job: KubernetesJob | None) -> Sequence[JobEffect]:
    """Return what to do about a copy, with the Job that it runs for (None: that is deleted): one
    without a claim is deleted."""
    if not copy.is_taken or (job is not None and _is_run_of(copy, job)):
        return ()
    return _release(copy) if copy.deleted_at_us else [DeleteJob(copy)]


def _is_run_of(copy: KubernetesJob, job: KubernetesJob) -> bool:
    claim = job.claim
    return claim.grant == copy.copy_grant and (claim.is_live or bool(job.outcome))


def _take(job: KubernetesJob, terms: JobTerms) -> Sequence[JobEffect]:
    """Into the queue, if it can be understood; else its user reads why."""
    if job.deleted_at_us or job.run_end:
        return ()
    try:
        require_placeable(job)
        asked = submission_of(job, terms)
    except RejectedError as error:
        return problem(job, str(error))
    body = bodies.taking(job, asked.job_id, asked.walltime_s)
    return [PatchJob(job, body, "taken into the queue")]


def problem(job: KubernetesJob, why: str) -> Sequence[JobEffect]:
    """Report why Coplace does not take a Job, where it was not reported yet."""
    if job.annotations.get(PROBLEM) == why:
        return ()
    user = NotifyUser(job, "NotUnderstood", why, is_warning=True)
    return [PatchJob(job, bodies.problem(job, why), f"not understood: {why}"), user]


def _waiting(job: KubernetesJob, terms: JobTerms) -> Sequence[JobEffect]:
    if job.deleted_at_us:
        return _close(job, terms, cancelled_end(job.deleted_at_us))
    if job.run_end:  # somebody started it by hand, and it was short
        return _close(job, terms, cancelled_end(job.run_end.at_us))
    if not job.is_suspended:
        return [PatchJob(job, bodies.suspending(job), "suspended: it has no grant")]
    if job.status.get("startTime"):
        return ()  # pods of before are still being ended
    try:
        return [PublishFact(submission(job, terms))]
    except RejectedError as error:
        return problem(job, str(error))


def _running(
    job: KubernetesJob,
    run: KubernetesJob | None,
    disruption: PodDisruption | None,
    terms: JobTerms,
    now_us: int,
) -> Sequence[JobEffect]:
    if run is None:
        return [_create(job, terms, now_us)]
    told: list[JobEffect] = [PublishFact(start(job, terms))]
    if run.run_end:
        return [*told, *_close(job, terms, run.run_end)]
    if run.deleted_at_us:  # Kubernetes ends the pods once the Job is let go
        return [*told, *_close(job, terms, cancelled_end(run.deleted_at_us))]
    if job.stop is not None:
        return _stopping(job, run, job.stop, terms)
    if stop := _why_stop(job, run, disruption, now_us):
        words = NotifyUser(job, "Stopped", stop.reason)
        return [*told, PatchJob(job, bodies.stopping(job, stop), f"stops: {stop.reason}"), words]
    return told


def _create(job: KubernetesJob, terms: JobTerms, now_us: int) -> JobEffect:
    """It is claimed, and has not been created yet: where it never can be, the grant is declined."""
    claim, job_id = job.claim, id_of(job, terms)
    kept = claim.declining(claim.grant, claim.attempt)

    def otherwise(why: str) -> Sequence[JobEffect]:
        told = decline_event(terms.site, job_id, claim.attempt, claim.grant, why, now_us)
        return [
            PatchJob(job, bodies.claiming(job, kept), f"declined grant {claim.grant}"),
            PublishFact(told),
            NotifyUser(job, "Declined", f"grant {claim.grant} on {claim.cluster}: {why}"),
        ]

    return CreateCopy(job.run_key, bodies.copy(job, job_id), otherwise)


def _why_stop(
    job: KubernetesJob, run: KubernetesJob, disruption: PodDisruption | None, now_us: int
) -> StopRequest | None:
    if job.deleted_at_us:
        return StopRequest(AfterStop.CANCEL, "the Job was deleted", now_us)
    if run.is_suspended:
        return StopRequest(AfterStop.REQUEUE, "suspended in Kubernetes", now_us)
    if disruption is not None:
        failed = disruption.failed_nodes
        return StopRequest(AfterStop.REQUEUE, disruption.reason, now_us, failed)
    return None


def _stopping(
    job: KubernetesJob, run: KubernetesJob, stop: StopRequest, terms: JobTerms
) -> Sequence[JobEffect]:
    if not run.is_suspended:
        return [PatchJob(run, bodies.suspending(run), "suspended: it has to end")]
    if not run.is_quiet:
        return ()
    waits = PatchJob(job, bodies.waiting(job, job.claim.over()), "waits again")
    match stop.then:
        case AfterStop.FORGET:
            return [waits]
        case AfterStop.REQUEUE:
            return [PublishFact(start(job, terms)), PublishFact(requeue(job, terms, stop)), waits]
    ended_at_us = max(stop.at_us, run.suspended_at_us)
    return [PublishFact(start(job, terms)), *_close(job, terms, cancelled_end(ended_at_us))]


def _close(job: KubernetesJob, terms: JobTerms, end: RunEnd) -> Sequence[JobEffect]:
    outcome = _OUTCOMES[end.outcome]
    patch = PatchJob(job, bodies.closing(job, outcome), outcome)
    return [PublishFact(finish(job, terms, end)), patch]


def _release(run: KubernetesJob | None) -> Sequence[JobEffect]:
    if run is None or not run.is_copy or not run.is_taken:
        return ()
    return [PatchJob(run, bodies.releasing(run), "let the copy go")]
