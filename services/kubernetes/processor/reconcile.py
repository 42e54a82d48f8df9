"""Effects of the state of a Job: from the objects of the API server alone, so that a restart
goes on where it was.

Its record is believed, and the Job is not: what a user may write there asks for something, or is
set back."""

from collections.abc import Sequence
from dataclasses import dataclass

from coplace.v1.jobs_pb2 import JobOutcome

from coplace_client.errors import RejectedError
from coplace_client.facts import decline_event
from services.kubernetes.model import bodies, records
from services.kubernetes.model.assignments import said_of
from services.kubernetes.model.conditions import first_conditions
from services.kubernetes.model.facts import (
    JobTerms,
    assumptions,
    cancelled_end,
    finish,
    requeue,
    require_job_controller,
    require_unchanged,
    start,
    submission,
    submission_of,
)
from services.kubernetes.model.home_status import concluded, mirrored
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.names import (
    CLAIM,
    OUTCOME,
    PROBLEM,
    QUEUE_NAME,
    STOP,
    WALLTIME_S,
)
from services.kubernetes.model.records import KubernetesRecord, record_body
from services.kubernetes.processor.by_executor import (
    asking_end,
    awaiting,
    is_ending,
    is_left_over,
    may_be_taken_back,
    waits_for_executor,
)
from services.kubernetes.processor.by_hand import (
    BY_HAND,
    began_by_hand,
    charge_by_hand,
    end_by_hand,
    unstarted,
)
from services.kubernetes.processor.by_kueue import admitting, evicting, has_not_run, is_let_run
from services.kubernetes.processor.effects import (
    CreateCopy,
    CreateRecord,
    DeleteJob,
    DeleteRecord,
    JobEffect,
    NotifyUser,
    PatchJob,
    PatchRecord,
    PatchStatus,
    RefuseJob,
)
from services.kubernetes.processor.release import RELEASED, give_back
from services.kubernetes.processor.seen import SeenJob
from shared.domain.hostlist import expand
from shared.kubernetes.claims import AfterStop, StopRequest
from shared.kubernetes.effects import LookAgain, PublishFact
from shared.kubernetes.facts import RunEnd
from shared.kubernetes.names import JOB_ID
from shared.kubernetes.pods import RunPod, all_ready_us, why_not_ready
from shared.kubernetes.texts import shown
from shared.kueue.workloads import KueueWorkload

_OUTCOMES = {
    JobOutcome.JOB_OUTCOME_COMPLETED: "completed",
    JobOutcome.JOB_OUTCOME_FAILED: "failed",
    JobOutcome.JOB_OUTCOME_TIMED_OUT: "timed out",
    JobOutcome.JOB_OUTCOME_CANCELLED: "cancelled",
}
_SECOND_US = 1_000_000
# Pods of which nobody has heard yet, though their Job is over, are heard of within this time.
_SETTLE_US = 5 * _SECOND_US


def reconcile(
    seen: SeenJob, record: KubernetesRecord | None, terms: JobTerms, now_us: int
) -> Sequence[JobEffect]:
    """Return what to do about a Job and its record."""
    if record is None:
        return _take(seen.job, terms) if seen.job else ()
    if record.outcome:
        return _release(seen, record, terms, now_us)
    if record.claim.is_live:
        return _Running(seen, record, terms, now_us).wanted()
    if record.released_at_us:
        return _released(seen.job, record, terms, now_us)
    return _waiting(seen.job, record, terms, now_us)


def stray(copy: KubernetesJob, record: KubernetesRecord | None) -> Sequence[JobEffect]:
    """Return what to do about a Job that is a copy, with the record that it runs for (None: there
    is none): one without a claim is deleted, and one that only says so is refused."""
    if record is not None and _is_run_of(copy, record):
        return ()
    if is_left_over(copy):
        return [DeleteJob(copy)]
    if copy.run_end and not copy.is_taken:
        return ()
    if not (copy.is_taken or said_of(copy)):
        return _refuse(copy, "metadata.labels[coplace.io/copy-of]: must not be set")
    if copy.is_taken and copy.is_deleted:
        return [PatchJob(copy, bodies.releasing(copy), "let go")]
    return [DeleteJob(copy)]


def _is_run_of(copy: KubernetesJob, record: KubernetesRecord) -> bool:
    claim = record.claim
    return (
        record.run_key == copy.key
        and claim.run_uid in ("", copy.uid)
        and (claim.is_live or bool(record.outcome))
    )


def _take(job: KubernetesJob, terms: JobTerms) -> Sequence[JobEffect]:
    """Into the queue, if it can be understood; else its user reads why."""
    if job.is_deleted or job.run_end:
        return [PatchJob(job, bodies.releasing(job), "let go")] if job.is_taken else ()
    try:
        require_job_controller(job, terms)
        asked = submission_of(job, terms)
    except RejectedError as error:
        return _refuse(job, str(error))
    conditions = first_conditions(job, asked)
    return [CreateRecord(job.id, record_body(job, asked, terms.queue, conditions))]


def _refuse(job: KubernetesJob, why: str) -> Sequence[JobEffect]:
    """Jobs of the queue have no pods without a grant, also those that never get one."""
    if job.is_suspended or job.run_end or job.is_deleted:
        return [RefuseJob(job, why)]
    patch = PatchJob(job, bodies.suspending(job), "suspended: it is not understood")
    return [patch, RefuseJob(job, why)]


def _waiting(
    job: KubernetesJob | None, record: KubernetesRecord, terms: JobTerms, now_us: int
) -> Sequence[JobEffect]:
    told = PublishFact(submission(record, terms))
    if job is None:  # its finalizer was taken
        return [told, *_close(record, terms, cancelled_end(now_us), now_us)]
    if end := _end_without_grant(job, terms.queue, now_us):
        # Somebody may have started it by hand, and it was short.
        since_us = _since_us(job, record) if job.run_end and not job.is_deleted else 0
        return [told, *_close(record, terms, end, now_us, since_us)]
    if (began := began_by_hand(job, record, now_us)) or not (job.is_taken and job.is_suspended):
        is_ready = job.is_suspended and not (job.started_at_us or record.by_hand)
        # Placement decides while it is taken.
        first = [told] if is_ready else []
        return [*first, _taking(job, record), *began, *_assumed(job, terms)]
    if job.started_at_us:
        return unstarted(job)
    if job.is_managed and (body := mirrored(job, None)):
        return [told, PatchStatus(job, body)]
    if record.by_hand is not None:
        return [told, *charge_by_hand(record, terms, job.suspended_at_us, now_us)]
    try:
        require_unchanged(job, record.submitted)
    except RejectedError as error:
        user = NotifyUser(job, "Cancelled", str(error), is_warning=True)
        return [told, *_close(record, terms, cancelled_end(now_us), now_us), user]
    return [told]


def _released(
    job: KubernetesJob | None, record: KubernetesRecord, terms: JobTerms, now_us: int
) -> Sequence[JobEffect]:
    """Give a Job back to Kubernetes that waits. To Coplace it was cancelled then: what Kubernetes
    starts is not charged."""
    if wanted := give_back(job, record, terms.queue, now_us):
        return wanted
    told, end_us = PublishFact(submission(record, terms)), record.released_at_us
    if record.by_hand is not None:
        return [told, *charge_by_hand(record, terms, end_us, now_us)]
    ended = finish(record, terms, cancelled_end(end_us), now_us)
    patch = PatchRecord(record, records.closing(record, RELEASED), RELEASED)
    return [told, PublishFact(ended), patch]


def _end_without_grant(job: KubernetesJob, queue: str, now_us: int) -> RunEnd | None:
    """Return how a Job that waits is over; None where it goes on."""
    if job.is_deleted:
        return cancelled_end(job.deleted_at_us)
    if job.run_end:
        return job.run_end
    return cancelled_end(now_us) if job.labels.get(QUEUE_NAME) != queue else None


def _since_us(job: KubernetesJob, record: KubernetesRecord) -> int:
    return record.by_hand.at_us if record.by_hand else job.started_at_us


def _taking(job: KubernetesJob, record: KubernetesRecord) -> JobEffect:
    words = "taken into the queue" if not job.is_taken else "suspended: it has no grant"
    asked = record.submitted
    informs = {JOB_ID: record.job_id, WALLTIME_S: f"{asked.walltime_s:g}", PROBLEM: None}
    return PatchJob(job, bodies.taking(job), words, record, informs)


def _assumed(job: KubernetesJob, terms: JobTerms) -> Sequence[JobEffect]:
    """Have the user of a Job that is taken into the queue read what counts for it."""
    words = () if job.is_taken else assumptions(job, terms)
    return [NotifyUser(job, "Planned", "; ".join(words))] if words else ()


def _is_awaited(copy: KubernetesJob, workload: KueueWorkload | None) -> bool:
    """Return whether somebody else lets a copy run, and has not yet."""
    if said_of(copy) is not None:  # its executor follows the Kueue there
        return waits_for_executor(copy)
    return has_not_run(copy, workload)


@dataclass(frozen=True, slots=True)
class _Running:
    """One look at a Job whose claim is live."""

    seen: SeenJob
    record: KubernetesRecord
    terms: JobTerms
    now_us: int

    def wanted(self) -> Sequence[JobEffect]:
        """Return what to do about it."""
        if not self.record.claim.has_begun:
            return self._begin()
        stop, run = self.record.stop, self.seen.run
        if stop is not None and stop.then is AfterStop.FORGET and run and not run.run_end:
            return self._go_on()
        return [PublishFact(start(self.record, self.terms)), *self._go_on()]

    def _begin(self) -> Sequence[JobEffect]:
        """It is claimed, and is not known to have begun."""
        job, run, record = self.seen.job, self.seen.run, self.record
        if run is not None and record.runs_as_copy and _is_awaited(run, self.seen.workload):
            return self._await(run)
        if run is not None and (record.runs_as_copy or bodies.carries(run, record)):
            return [self._begun(run)]
        if record.stop is not None:
            return self._give_back(record.stop)
        if record.released_at_us:
            return self._decline("the Job was released to Kubernetes")
        if job is None or job.is_deleted:
            return self._decline("the Job was deleted")
        if not job.is_suspended:
            return self._decline(BY_HAND)
        return [self._copy(job)] if record.runs_as_copy else self._start(job)

    def _await(self, run: KubernetesJob) -> Sequence[JobEffect]:
        """Somebody else lets it run."""
        record, of_executor = self.record, waits_for_executor(run)
        if record.stop is None:
            wait = awaiting if of_executor else admitting
            return wait(run, self.seen, record, self.terms, self.now_us, self._decline)
        if of_executor and not may_be_taken_back(run):
            return asking_end(run, record, record.stop.reason)
        if is_let_run(self.seen.workload):
            return evicting(self.seen.workload)  # what becomes of that is awaited
        return _release_copy(run, record)

    def _begun(self, run: KubernetesJob) -> PatchRecord:
        """Since when it runs, as far as is known: the controller's word, or this look."""
        told_us = run.started_at_us
        at_us = told_us if 0 < told_us < self.now_us else self.now_us
        began = self.record.claim.began(run.uid, at_us)
        return PatchRecord(self.record, records.answering(self.record, began), "has begun")

    def _start(self, job: KubernetesJob) -> Sequence[JobEffect]:
        claim = self.record.claim
        informs = {CLAIM: f"grant {claim.grant} started", STOP: None}
        body, words = bodies.starting(job, self.record), f"started grant {claim.grant}"
        return [PatchJob(job, body, words, self.record, informs, self._decline)]

    def _copy(self, job: KubernetesJob) -> JobEffect:
        record = self.record
        kueue_queue = self.terms.kueue_queues.get(record.claim.cluster, "")
        body = bodies.copy(job, record, self.terms.queue, kueue_queue)
        return CreateCopy(record.run_key, body, record, self._decline)

    def _decline(self, why: str) -> Sequence[JobEffect]:
        """Keep that it cannot begin, so that nobody starts it any more."""
        asked = StopRequest(AfterStop.DECLINE, why, self.now_us)
        body = records.stopping(self.record, asked)
        return [PatchRecord(self.record, body, f"gives its grant back: {why}")]

    def _give_back(self, stop: StopRequest) -> Sequence[JobEffect]:
        """First change the Job: a stalled process that would still start it as it was is refused
        then."""
        job, record, claim = self.seen.job, self.record, self.record.claim
        told: list[JobEffect] = []
        if job is not None and not job.is_suspended and not record.released_at_us:
            told += [PatchJob(job, bodies.suspending(job), f"suspended: {BY_HAND}", record)]
        elif job is not None:
            informs = {CLAIM: f"grant {claim.grant} was given back"}
            words = "noted that it does not start"
            told += [PatchJob(job, bodies.update(job), words, record, informs)]
        if stop.then is AfterStop.FORGET:
            body = records.claiming(record, claim.over())
            return [*told, PatchRecord(record, body, "waits again")]
        kept = claim.declining(claim.grant, claim.attempt)
        of = (record.job_id, claim.attempt, claim.grant)
        declined = decline_event(self.terms.site, *of, shown(stop.reason), self.now_us)
        told += [PublishFact(declined)]
        if job is not None:
            words = f"grant {claim.grant} on {claim.cluster}: {stop.reason}"
            told += [NotifyUser(job, "Declined", words)]
        body = records.claiming(record, kept)
        if stop.then is AfterStop.CANCEL:
            body = records.closing(record, f"cancelled: {stop.reason}", kept)
        return [*told, PatchRecord(record, body, f"declined grant {claim.grant}")]

    def _go_on(self) -> Sequence[JobEffect]:
        """It has begun: it runs, ends or has ended."""
        job, run, record = self.seen.job, self.seen.run, self.record
        if run is None:  # its finalizer was taken, and it was deleted
            return self._close(cancelled_end(self._removed_us))
        if run.run_end:
            return self._unheard(run.run_end) or self._close(run.run_end)
        if run.is_deleted:  # Kubernetes ends the pods once the Job is let go
            return self._close(cancelled_end(run.deleted_at_us))
        if record.stop is not None:
            return self._stop(run, record.stop)
        if stop := self._why_stop(run):
            body = records.stopping(record, stop)
            told: list[JobEffect] = [PatchRecord(record, body, f"stops: {stop.reason}")]
            return [*told, NotifyUser(job, "Stopped", stop.reason)] if job else told
        if job is not None and job.is_managed and (status := mirrored(job, run)):
            return [PatchStatus(job, status)]
        left_us = self._ready_by_us(run) - self.now_us
        later = [LookAgain(left_us / _SECOND_US)] if left_us > 0 else []
        return [*self._set_back(run), *later]

    @property
    def _removed_us(self) -> int:
        """Return when a run ended that is not there any more. A released one may have been deleted
        while nobody looked; its limit has ended it by then."""
        claim = self.record.claim
        limit_us = claim.at_us + round(claim.walltime_s * _SECOND_US)
        return min(self.now_us, limit_us) if self.record.released_at_us else self.now_us

    def _unheard(self, end: RunEnd) -> Sequence[JobEffect]:
        """Of some pods nobody has heard yet how they ended: that is awaited for a moment."""
        pods, left_us = self.seen.pods, end.at_us + _SETTLE_US - self.now_us
        is_heard = len(pods) >= self._pods and all(each.is_over for each in pods)
        if is_heard or left_us <= 0:
            return ()
        return [LookAgain(left_us / _SECOND_US)]

    @property
    def _pods(self) -> int:
        """How many it has at a time."""
        return sum(self.record.claim.units)

    def _ready_by_us(self, run: KubernetesJob) -> int:
        """Return by when its pods have to be ready; 0: they are, or may take any time."""
        wanted = min(self._pods, run.pods)
        is_ready = all_ready_us(self.seen.pods, wanted) or run.pods_begun >= wanted
        most_us = 0 if is_ready else round(self.terms.ready_within_s * _SECOND_US)
        return self.record.claim.at_us + most_us if most_us else 0

    def _close(self, end: RunEnd) -> Sequence[JobEffect]:
        return _close(self.record, self.terms, end, self.now_us, pods=self.seen.pods)

    def _why_stop(self, run: KubernetesJob) -> StopRequest | None:
        job, disruption = self.seen.job, self.seen.disruption
        if job is None or job.is_deleted:
            return StopRequest(AfterStop.CANCEL, "the Job was deleted", self.now_us)
        if run.is_suspended:
            return StopRequest(AfterStop.REQUEUE, "suspended in Kubernetes", self.now_us)
        if disruption is not None:
            own = {name for each in self.record.claim.nodes for name in expand(each)}
            reason = disruption.reason
            failed = tuple(name for name in disruption.failed_nodes if name in own)
            return StopRequest(AfterStop.REQUEUE, reason, self.now_us, failed)
        if 0 < self._ready_by_us(run) <= self.now_us:
            why = why_not_ready(self.seen.pods)
            reason = shown(f"not ready within {self.terms.ready_within_s:g} s: {why}")
            return StopRequest(AfterStop.REQUEUE, reason, self.now_us)
        return None

    def _set_back(self, run: KubernetesJob) -> Sequence[JobEffect]:
        """A run has what was granted to it, and its Job stays in the queue until its end."""
        record, told = self.record, list[JobEffect]()
        for job in {each.id: each for each in (self.seen.job, run) if each is not None}.values():
            is_kept = not record.released_at_us
            if is_kept and (body := bodies.keeping(job, self.terms.queue)):
                told.append(PatchJob(job, body, "set back to the queue", record))
            elif job is run:
                if body := bodies.limiting(run, record.claim):
                    told.append(PatchJob(run, body, "set back to what was granted", record))
            elif not job.is_suspended:
                body = bodies.suspending(job)
                told.append(PatchJob(job, body, "suspended: it runs elsewhere", record))
        return told

    def _stop(self, run: KubernetesJob, stop: StopRequest) -> Sequence[JobEffect]:
        record = self.record
        if evicted := evicting(self.seen.workload):
            return evicted
        if is_ending(run):
            return asking_end(run, record, stop.reason)
        if not run.is_suspended:
            body, informs = bodies.suspending(run), {STOP: stop.reason}
            return [PatchJob(run, body, "suspended: it has to end", record, informs)]
        if not run.is_quiet:
            return unstarted(run)
        waits = PatchRecord(record, records.claiming(record, record.claim.over()), "waits again")
        match stop.then:
            case AfterStop.FORGET:
                return [waits]
            case AfterStop.REQUEUE | AfterStop.DECLINE:
                # What ran is charged. The requeue goes first, so that the job never counts as over.
                end, pods = self._end_of(run, stop), self.seen.pods
                ended = finish(record, self.terms, end, self.now_us, pods=pods)
                again = requeue(record, self.terms, stop)
                return [PublishFact(again), PublishFact(ended), waits]
        return self._close(self._end_of(run, stop))

    def _end_of(self, run: KubernetesJob, stop: StopRequest) -> RunEnd:
        return cancelled_end(max(stop.at_us, run.suspended_at_us))


def _close(
    record: KubernetesRecord,
    terms: JobTerms,
    end: RunEnd,
    now_us: int,
    since_us: int = 0,
    pods: Sequence[RunPod] = (),
) -> Sequence[JobEffect]:
    outcome = _OUTCOMES[end.outcome]
    body = records.closing(record, outcome, is_charged=bool(since_us))
    patch = PatchRecord(record, body, outcome)
    return [PublishFact(finish(record, terms, end, now_us, since_us, pods)), patch]


def _release(
    seen: SeenJob, record: KubernetesRecord, terms: JobTerms, now_us: int
) -> Sequence[JobEffect]:
    """Let the Job go, then its copy, then its record."""
    if record.by_hand is not None:
        return end_by_hand(seen.job, record, terms, now_us)
    job, run, told = seen.job, seen.run, list[JobEffect]()
    if job is not None and job.is_managed and not job.is_deleted:
        copied = run if record.runs_as_copy else None
        if body := concluded(job, copied, record.outcome, now_us):
            return [PatchStatus(job, body)]
    if job is not None and job.is_taken:
        informs = {OUTCOME: record.outcome, STOP: None}
        told += [PatchJob(job, bodies.releasing(job), "let go", record, informs)]
    if run is not None and record.runs_as_copy:
        told += _release_copy(run, record)
    if job is not None and not record.released_at_us and _runs_on(job, terms.queue):
        told += [PatchJob(job, bodies.suspending(job), "suspended: it has ended", record)]
        told += began_by_hand(job, record, now_us)
    return [*told, DeleteRecord(record)] if job is None else told


def _release_copy(copy: KubernetesJob, record: KubernetesRecord) -> Sequence[JobEffect]:
    """One that was ended by Coplace goes, so that nobody lets it run again. An assignment goes
    after each end."""
    if is_left_over(copy) or not (copy.run_end or copy.is_deleted):
        return [DeleteJob(copy)]
    if not copy.is_taken:
        return ()
    return [PatchJob(copy, bodies.releasing(copy), "let the copy go", record)]


def _runs_on(job: KubernetesJob, queue: str) -> bool:
    """Return whether somebody lets a Job run that was cancelled; outside the queue he may."""
    is_running = not job.is_suspended and not job.run_end and not job.is_deleted
    return is_running and job.labels.get(QUEUE_NAME) == queue
