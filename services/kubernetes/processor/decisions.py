"""What follows from a decision on a Job: the same whenever it is read again."""

from collections.abc import Sequence

from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_REQUEUE,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_REJECTED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)

from coplace_client.facts import action_refused, decline_event
from services.kubernetes.model import bodies
from services.kubernetes.model.claims import AfterStop, GrantClaim, StopRequest
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.processor.effects import JobEffect, NotifyUser, PatchJob, PublishFact

_GONE = "the Job is not there any more"
_ENDED = "the Job has ended"


def obeying(
    decision: PlacementDecided, job: KubernetesJob | None, site: str, now_us: int
) -> Sequence[JobEffect]:
    """Return what to do about a decision on a Job (None: its API server does not have it any more,
    or never had it)."""
    match decision.verdict:
        case _ if job is None:
            return _without_job(decision, site, now_us)
        case x if x == VERDICT_START:
            return _start(decision, job, site, now_us)
        case x if x == VERDICT_WITHDRAWN:
            return _withdraw(decision, job, site, now_us)
        case x if x in (VERDICT_CANCELLED, VERDICT_REJECTED):
            return _drop(decision, job, site, now_us)
        case x if x == VERDICT_ACTION:
            return _act(decision, job, site, now_us)
    return ()


def _without_job(decision: PlacementDecided, site: str, now_us: int) -> Sequence[JobEffect]:
    """Nothing ever starts without its Job, so that no word has to be kept. Of one that started its
    end was published before it was deleted, after which this means nothing; it answers for one
    whose finalizer somebody took by hand."""
    if decision.verdict == VERDICT_ACTION or not decision.grant:
        return ()
    return [_declined(decision, site, _GONE, now_us)]


def _start(
    decision: PlacementDecided, job: KubernetesJob, site: str, now_us: int
) -> Sequence[JobEffect]:
    claim = job.claim
    if claim.has_answered(decision.grant):
        return _said_before(decision, job, site, now_us)
    if why_not := _why_not(decision, job, now_us):
        return _decline(decision, job, site, now_us, why_not)
    started = GrantClaim(
        grant=decision.grant,
        attempt=decision.attempt,
        is_live=True,
        declined=claim.declined,
        cluster=decision.cluster,
        freq_ghz=decision.freq_ghz,
        at_us=now_us,
        nodes=tuple(decision.node_names),
        node_units=tuple(decision.node_units),
        walltime_s=decision.walltime_s,
    )
    is_here = decision.cluster == job.cluster
    body = bodies.starting(job, started) if is_here else bodies.claiming(job, started)
    words = f"claimed grant {decision.grant} for {decision.cluster}"
    return [
        PatchJob(job, body, words, lambda why: _decline(decision, job, site, now_us, why)),
    ]


def _why_not(decision: PlacementDecided, job: KubernetesJob, now_us: int) -> str:
    """Why a job cannot start; empty where it can."""
    if job.outcome or job.run_end:
        return _ENDED
    if job.deleted_at_us:
        return "the Job was deleted"
    if not job.is_taken:
        return "the Job is not in Coplace's queue"
    if job.claim.is_live:
        return f"the run under grant {job.claim.grant} has not ended yet"
    if not job.is_suspended or job.status.get("startTime"):
        return "the Job is not suspended"
    if not decision.node_names:
        return "the decision names no nodes"
    return "too late" if 0 < decision.start_by_us < now_us else ""


def _said_before(
    decision: PlacementDecided, job: KubernetesJob, site: str, now_us: int
) -> Sequence[JobEffect]:
    """The first answer to a grant is final; that it was declined may not have been published."""
    if not decision.grant or job.claim.declined != decision.grant:
        return ()
    return [_declined(decision, site, "declined before", now_us)]


def _decline(
    decision: PlacementDecided, job: KubernetesJob, site: str, now_us: int, why: str
) -> Sequence[JobEffect]:
    """Keep the answer first, then publish it."""
    kept = job.claim.declining(decision.grant, decision.attempt)
    return [
        PatchJob(job, bodies.claiming(job, kept), f"declined grant {decision.grant}"),
        _declined(decision, site, why, now_us),
        NotifyUser(job, "Declined", f"grant {decision.grant}: {why}"),
    ]


def _declined(decision: PlacementDecided, site: str, why: str, now_us: int) -> JobEffect:
    words = (decision.job_id, decision.attempt, decision.grant)
    return PublishFact(decline_event(site, *words, why, now_us))


def _withdraw(
    decision: PlacementDecided, job: KubernetesJob, site: str, now_us: int
) -> Sequence[JobEffect]:
    """A start that took place has crossed the question, and counts unless it is void."""
    claim = job.claim
    if not claim.has_answered(decision.grant):
        return _decline(decision, job, site, now_us, "as asked")
    if claim.grant == decision.grant and claim.is_live:
        return _stop(job, AfterStop.FORGET, decision, now_us) if decision.is_void else ()
    return _said_before(decision, job, site, now_us)


def _drop(
    decision: PlacementDecided, job: KubernetesJob, site: str, now_us: int
) -> Sequence[JobEffect]:
    """It is not to start any more, or to end."""
    claim = job.claim
    if claim.is_live and not job.outcome:
        return _stop(job, AfterStop.CANCEL, decision, now_us)
    if job.outcome:
        return _said_before(decision, job, site, now_us)
    word = "rejected" if decision.verdict == VERDICT_REJECTED else "cancelled"
    kept, told = None, list(_said_before(decision, job, site, now_us))
    if decision.grant and not claim.has_answered(decision.grant):
        kept = claim.declining(decision.grant, decision.attempt)
        told = [_declined(decision, site, word, now_us)]
    outcome = f"{word}: {decision.reason}"
    patch = PatchJob(job, bodies.closing(job, outcome, kept), word)
    return [patch, *told, NotifyUser(job, word.capitalize(), decision.reason, is_warning=True)]


def _act(
    decision: PlacementDecided, job: KubernetesJob, site: str, now_us: int
) -> Sequence[JobEffect]:
    if not job.claim.is_live or job.claim.grant != decision.grant or job.outcome:
        return ()
    if decision.action.kind == ACTION_KIND_END:
        return _stop(job, AfterStop.CANCEL, decision, now_us)
    if decision.action.kind == ACTION_KIND_REQUEUE:
        return _stop(job, AfterStop.REQUEUE, decision, now_us)
    why = "a pod keeps its clock, and one that is suspended is lost"
    return [PublishFact(action_refused(site, decision, why, now_us))]


def _stop(
    job: KubernetesJob, then: AfterStop, decision: PlacementDecided, now_us: int
) -> Sequence[JobEffect]:
    """Unless it stops already; who cancels goes before who would have it again."""
    stop = job.stop
    if stop is not None and (stop.then is not AfterStop.REQUEUE or then is AfterStop.REQUEUE):
        return ()
    request = StopRequest(then, decision.reason, now_us)
    words = NotifyUser(job, "Stopped", decision.reason)
    return [PatchJob(job, bodies.stopping(job, request), f"stops, to {then}"), words]
