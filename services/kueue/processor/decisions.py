"""What follows from a decision on a Workload: the same whenever it is read again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from coplace_client.facts import action_refused, cancelled, decline_event
from services.kueue.model.records import WorkloadRecord
from services.kueue.processor.effects import KeepRecord, NotifyOwner, WorkloadEffect
from services.kueue.processor.seen import Moment, SeenWorkload, new_record
from shared.kubernetes.claims import AfterStop, GrantClaim, StopRequest
from shared.kubernetes.effects import PublishFact
from shared.kubernetes.texts import shown

_GONE = "the Workload has ended or was deleted"


def obeying(
    decision: PlacementDecided,
    seen: SeenWorkload | None,
    record: WorkloadRecord | None,
    moment: Moment,
) -> Sequence[WorkloadEffect]:
    """Return what to do about a decision on a Workload (None: its API server does not have it any
    more). All that follows is kept in its record; the rest is done by `reconcile`."""
    if seen is None or (record is None and seen.workload.is_over):
        return _without_workload(decision, moment)
    if record is None:
        try:
            record = new_record(seen, moment)
        except RejectedError as error:
            return _without_workload(decision, moment, str(error))
    obeyed = _DecidedWorkload(decision, seen, record, moment)
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


def _without_workload(
    decision: PlacementDecided, moment: Moment, why: str = _GONE
) -> Sequence[WorkloadEffect]:
    """Nothing ever starts without its record. Who was stopped while it was deleted reports here
    that it is cancelled."""
    if decision.verdict == VERDICT_ACTION or not decision.grant:
        return ()
    site, now_us = moment.terms.site, moment.now_us
    told = [_declined(decision, moment, why)]
    if decision.verdict == VERDICT_START:
        told.append(PublishFact(cancelled(site, decision.job_id, shown(why), now_us)))
    return told


def _declined(decision: PlacementDecided, moment: Moment, why: str) -> PublishFact:
    words = (decision.job_id, decision.attempt, decision.grant)
    return PublishFact(decline_event(moment.terms.site, *words, shown(why), moment.now_us))


@dataclass(frozen=True, slots=True)
class _DecidedWorkload:
    """One decision on a Workload."""

    decision: PlacementDecided
    seen: SeenWorkload
    record: WorkloadRecord
    moment: Moment

    @property
    def claim(self) -> GrantClaim:
        """Return the words on its grants."""
        return self.record.claim

    def start(self) -> Sequence[WorkloadEffect]:
        """Claim the grant, or decline it."""
        decision, workload = self.decision, self.seen.workload
        if self.claim.has_answered(decision.grant):
            return self._said_before()
        if why_not := self._why_not():
            return self._decline(why_not)
        if not self.seen.around.checks.asks(workload):
            return self._leave()
        claimed = GrantClaim(
            grant=decision.grant,
            attempt=decision.attempt,
            is_live=True,
            declined=self.claim.declined,
            cluster=decision.cluster,
            freq_ghz=decision.freq_ghz,
            at_us=self.moment.now_us,
            nodes=tuple(decision.node_names),
            node_units=tuple(decision.node_units),
            walltime_s=decision.walltime_s,
        )
        try:
            claimed.check()
        except RejectedError as error:
            return self._decline(str(error))
        kept = self.record.released(workload.reservation, self.moment.now_us)
        kept = replace(kept, claim=claimed, reservation=workload.reservation, stop=None)
        kept = replace(kept, hold=replace(kept.hold, tried=0))
        words = f"claimed grant {decision.grant} for {decision.cluster}"
        return [KeepRecord(workload, kept, words)]

    def _why_not(self) -> str:
        """Why a Workload cannot start any more; empty where it can."""
        decision, workload = self.decision, self.seen.workload
        if self.record.outcome or workload.is_over:
            return self.record.outcome or "the Workload has ended or was deleted"
        if self.claim.is_live:
            return f"the run under grant {self.claim.grant} has not ended yet"
        if self.record.let_go is not None:
            return "Kueue starts it by its own rules: Coplace was silent"
        if self.record.ran_as(decision.attempt):
            return f"attempt {decision.attempt} ran without a grant"
        if not decision.node_names:
            return "the decision names no nodes"
        if decision.cluster not in self.seen.around.checks.clusters_of(workload):
            return f"Kueue sends it to no cluster {decision.cluster}"
        if 0 < decision.start_by_us < self.moment.now_us:
            return "too late"
        return ""

    def _leave(self) -> Sequence[WorkloadEffect]:
        """Kueue took its quota meanwhile. Coplace is notified that it may not start it, and asks
        then for its grant: who declines unasked too often is held."""
        if self.record.hold.is_held:
            return ()
        held = self.record.held(self.seen.workload.reservation, self.moment.now_us)
        return [KeepRecord(self.seen.workload, held, "has no quota: may not start")]

    def _said_before(self) -> Sequence[WorkloadEffect]:
        """The first answer to a grant is final; that it was declined may not have been
        published."""
        if not self.decision.grant or self.claim.declined != self.decision.grant:
            return ()
        return [_declined(self.decision, self.moment, "declined before")]

    def _decline(self, why: str) -> Sequence[WorkloadEffect]:
        """Keep the answer first, then publish it."""
        decision, record = self.decision, self.record
        kept = replace(record, claim=self.claim.declining(decision.grant, decision.attempt))
        words = f"declined grant {decision.grant}: {why}"
        told = KeepRecord(self.seen.workload, kept, words)
        return [told, _declined(decision, self.moment, why)]

    def withdraw(self) -> Sequence[WorkloadEffect]:
        """A start that took place has crossed the question, and counts unless it is void. One that
        was sent to a cluster and has not started there can be recalled."""
        claim, decision = self.claim, self.decision
        if not claim.has_answered(decision.grant):
            return self._decline("as asked")
        if claim.grant != decision.grant or not claim.is_live:
            return self._said_before()
        if decision.is_void:
            return self._stop(AfterStop.FORGET)
        return self._stop(AfterStop.DECLINE) if self._is_recallable() else ()

    def _is_recallable(self) -> bool:
        """Return whether nothing of it runs, and nothing will without the answer of Coplace."""
        workload, copy, around = self.seen.workload, self.seen.copy, self.seen.around
        if not around.checks.dispatched_of(workload) or workload.chosen_cluster:
            return False
        if copy is None or self.claim.has_begun:
            return False
        return bool(around.copy_checks.pending_of(copy)) and not copy.is_admitted

    def drop(self) -> Sequence[WorkloadEffect]:
        """It is not to start any more, or to end."""
        record, claim, decision = self.record, self.claim, self.decision
        if record.outcome:
            return self._said_before()
        if claim.is_live or record.let_go is not None:
            return self._stop(AfterStop.CANCEL)
        word = "rejected" if decision.verdict == VERDICT_REJECTED else "cancelled"
        kept, told = record, list(self._said_before())
        if decision.grant and not claim.has_answered(decision.grant):
            kept = replace(kept, claim=claim.declining(decision.grant, decision.attempt))
            told = [_declined(decision, self.moment, word)]
        outcome = shown(f"{word}: {decision.reason}")
        patch = KeepRecord(self.seen.workload, replace(kept, outcome=outcome), outcome)
        return [patch, *told]

    def act(self) -> Sequence[WorkloadEffect]:
        """Do what a running Workload can have done here, or refuse it."""
        claim, decision = self.claim, self.decision
        if not claim.is_live or claim.grant != decision.grant or self.record.outcome:
            return ()
        if decision.action.kind == ACTION_KIND_END:
            return self._stop(AfterStop.CANCEL)
        if decision.action.kind == ACTION_KIND_REQUEUE:
            return self._stop(AfterStop.REQUEUE)
        why = "a pod keeps its clock, and one that is suspended is lost"
        return [
            PublishFact(action_refused(self.moment.terms.site, decision, why, self.moment.now_us))
        ]

    def _stop(self, then: AfterStop) -> Sequence[WorkloadEffect]:
        """Unless it stops already; who cancels goes before who would have it again."""
        stop, reason = self.record.stop, self.decision.reason
        if stop is not None and not then.goes_before(stop.then):
            return ()
        asked = replace(self.record, stop=StopRequest(then, reason, self.moment.now_us))
        patch = KeepRecord(self.seen.workload, asked, f"stops, to {then}")
        return [patch, NotifyOwner(self.seen.workload, "Stopped", reason)]
