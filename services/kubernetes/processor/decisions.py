"""What follows from a decision on a Job: the same whenever it is read again."""

from collections.abc import Sequence
from dataclasses import dataclass

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

from coplace_client.errors import RejectedError
from coplace_client.facts import action_refused, decline_event
from services.kubernetes.model import records
from services.kubernetes.model.facts import require_unchanged
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.processor.effects import JobEffect, NotifyUser, PatchRecord
from shared.kubernetes.claims import AfterStop, GrantClaim, StopRequest
from shared.kubernetes.effects import PublishFact
from shared.kubernetes.texts import shown

_GONE = "the Job is not there any more"
_ENDED = "the Job has ended"
_UNKNOWN = "the Job is not in Coplace's queue"


def obeying(
    decision: PlacementDecided,
    job: KubernetesJob | None,
    record: KubernetesRecord | None,
    site: str,
    now_us: int,
) -> Sequence[JobEffect]:
    """Return what to do about a decision on a Job (None: its API server does not have it any more,
    or never had it) with its record (None: it never was in the queue, or its end was published and
    it was deleted).

    All that follows is kept in the record. What it asks of the Job is done by `reconcile`, so that
    no Job holds up the decisions on others.
    """
    if record is None:
        return _without_record(decision, job, site, now_us)
    obeyed = _Obeyed(decision, job, record, site, now_us)
    match decision.verdict:
        case x if x == VERDICT_START:
            return obeyed.start()
        case x if x == VERDICT_WITHDRAWN:
            return obeyed.withdraw()
        case x if x in (VERDICT_CANCELLED, VERDICT_REJECTED):
            return obeyed.drop()
        case x if x == VERDICT_ACTION:
            return obeyed.act()
    return ()


def _without_record(
    decision: PlacementDecided, job: KubernetesJob | None, site: str, now_us: int
) -> Sequence[JobEffect]:
    """Nothing ever starts without its record, so that no word has to be kept."""
    if decision.verdict == VERDICT_ACTION or not decision.grant:
        return ()
    why = _GONE if job is None else _UNKNOWN
    return [_declined(decision, site, why, now_us)]


def _declined(decision: PlacementDecided, site: str, why: str, now_us: int) -> JobEffect:
    words = (decision.job_id, decision.attempt, decision.grant)
    return PublishFact(decline_event(site, *words, shown(why), now_us))


@dataclass(frozen=True, slots=True)
class _Obeyed:
    """One decision on a Job that is in the queue."""

    decision: PlacementDecided
    job: KubernetesJob | None
    record: KubernetesRecord
    site: str
    now_us: int

    @property
    def claim(self) -> GrantClaim:
        """Return the words on its grants."""
        return self.record.claim

    def start(self) -> Sequence[JobEffect]:
        """Claim the grant, or decline it."""
        decision, claim = self.decision, self.claim
        if claim.has_answered(decision.grant):
            return self._said_before()
        if why_not := self._why_not():
            return self._decline(why_not)
        started = GrantClaim(
            grant=decision.grant,
            attempt=decision.attempt,
            is_live=True,
            declined=claim.declined,
            cluster=decision.cluster,
            freq_ghz=decision.freq_ghz,
            at_us=self.now_us,
            nodes=tuple(decision.node_names),
            node_units=tuple(decision.node_units),
            walltime_s=decision.walltime_s,
        )
        try:
            started.check()
        except RejectedError as error:
            return self._decline(str(error))
        words = f"claimed grant {decision.grant} for {decision.cluster}"
        return [PatchRecord(self.record, records.claiming(self.record, started), words)]

    def _why_not(self) -> str:
        """Why a job cannot start; empty where it can."""
        job = self.job
        if job is None:
            return _GONE
        if self.record.outcome or job.run_end:
            return _ENDED
        if self.record.released_at_us:
            return "the Job was released to Kubernetes"
        if job.is_deleted:
            return "the Job was deleted"
        if self.claim.is_live:
            return f"the run under grant {self.claim.grant} has not ended yet"
        return self._why_not_now(job)

    def _why_not_now(self, job: KubernetesJob) -> str:
        decision = self.decision
        if not job.is_suspended or job.started_at_us or self.record.by_hand:
            return "the Job is not suspended"
        if not decision.node_names:
            return "the decision names no nodes"
        if 0 < decision.start_by_us < self.now_us:
            return "too late"
        try:
            require_unchanged(job, self.record.submitted)
        except RejectedError as error:
            return str(error)
        return ""

    def _said_before(self) -> Sequence[JobEffect]:
        """The first answer to a grant is final; that it was declined may not have been
        published."""
        if not self.decision.grant or self.claim.declined != self.decision.grant:
            return ()
        return [_declined(self.decision, self.site, "declined before", self.now_us)]

    def _decline(self, why: str) -> Sequence[JobEffect]:
        """Keep the answer first, then publish it."""
        decision, record = self.decision, self.record
        kept = self.claim.declining(decision.grant, decision.attempt)
        words = f"declined grant {decision.grant}"
        told = [
            PatchRecord(record, records.answering(record, kept), words),
            _declined(decision, self.site, why, self.now_us),
        ]
        return [*told, *self._tell("Declined", f"grant {decision.grant}: {why}")]

    def _tell(self, reason: str, message: str, *, is_warning: bool = False) -> Sequence[JobEffect]:
        return [NotifyUser(self.job, reason, message, is_warning)] if self.job else []

    def withdraw(self) -> Sequence[JobEffect]:
        """A start that took place has crossed the question, and counts unless it is void."""
        claim, decision = self.claim, self.decision
        if not claim.has_answered(decision.grant):
            return self._decline("as asked")
        if claim.grant == decision.grant and claim.is_live:
            return self._stop(AfterStop.FORGET) if decision.is_void else ()
        return self._said_before()

    def drop(self) -> Sequence[JobEffect]:
        """It is not to start any more, or to end."""
        record, claim, decision = self.record, self.claim, self.decision
        if claim.is_live and not record.outcome:
            return self._stop(AfterStop.CANCEL)
        if record.outcome:
            return self._said_before()
        word = "rejected" if decision.verdict == VERDICT_REJECTED else "cancelled"
        kept, told = None, list(self._said_before())
        if decision.grant and not claim.has_answered(decision.grant):
            kept = claim.declining(decision.grant, decision.attempt)
            told = [_declined(decision, self.site, word, self.now_us)]
        outcome = f"{word}: {decision.reason}"
        patch = PatchRecord(record, records.closing(record, outcome, kept), word)
        user = self._tell(word.capitalize(), decision.reason, is_warning=True)
        return [patch, *told, *user]

    def act(self) -> Sequence[JobEffect]:
        """Do what running jobs can have done here, or refuse it."""
        claim, decision = self.claim, self.decision
        if not claim.is_live or claim.grant != decision.grant or self.record.outcome:
            return ()
        if decision.action.kind == ACTION_KIND_END:
            return self._stop(AfterStop.CANCEL)
        if decision.action.kind == ACTION_KIND_REQUEUE:
            return self._stop(AfterStop.REQUEUE)
        why = "a pod keeps its clock, and one that is suspended is lost"
        return [PublishFact(action_refused(self.site, decision, why, self.now_us))]

    def _stop(self, then: AfterStop) -> Sequence[JobEffect]:
        """Unless it stops already; who cancels goes before who would have it again."""
        stop, reason = self.record.stop, self.decision.reason
        if stop is not None and not then.goes_before(stop.then):
            return ()
        asked = records.stopping(self.record, StopRequest(then, reason, self.now_us))
        patch = PatchRecord(self.record, asked, f"stops, to {then}")
        return [patch, *self._tell("Stopped", reason)]
