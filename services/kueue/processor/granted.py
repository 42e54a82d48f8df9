"""Workloads that are claimed: they are being admitted, run, or have ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JOB_OUTCOME_TIMED_OUT, JobOutcome

from services.kueue.model.bodies import pod_set_updates
from services.kueue.model.facts import finished_end, hold_word, start
from services.kueue.model.records import PastRun, WorkloadRecord
from services.kueue.processor.answers import answered, asked_anew, refuse
from services.kueue.processor.effects import (
    AnswerCheck,
    KeepRecord,
    Nominate,
    NoteRecalled,
    WorkloadEffect,
)
from services.kueue.processor.ends import close, unquiet_us
from services.kueue.processor.let_go import answers_of_let_go
from services.kueue.processor.seen import SECOND_US, Moment, SeenWorkload
from shared.domain.folding import fold
from shared.domain.hostlist import expand
from shared.kubernetes.claims import AfterStop, GrantClaim, StopRequest
from shared.kubernetes.effects import LookAgain, PublishFact
from shared.kubernetes.facts import RunEnd
from shared.kubernetes.pods import all_ready_us, begun_us, ended_us, units_by_node
from shared.kubernetes.texts import shown
from shared.kueue.workloads import CheckState, KueueWorkload


def answers_of_grant(
    seen: SeenWorkload, record: WorkloadRecord, moment: Moment
) -> Sequence[WorkloadEffect]:
    """Return the answers to Kueue of a Workload that was granted."""
    workload = seen.workload
    if not workload.may_start or workload.reservation != record.reservation:
        return ()
    return GrantedWorkload(seen, record, moment).answers()


@dataclass(frozen=True, slots=True)
class GrantedWorkload:
    """It is claimed: it is being admitted, runs, or has ended."""

    seen: SeenWorkload
    record: WorkloadRecord
    moment: Moment

    @property
    def claim(self) -> GrantClaim:
        """Return the words on its grants."""
        return self.record.claim

    def wanted(self) -> Sequence[WorkloadEffect]:
        """Return what to do about it."""
        workload, record, terms = self.seen.workload, self.record, self.moment.terms
        told: list[WorkloadEffect] = []
        if record.hold.at_us:
            told.append(PublishFact(hold_word(record, terms)))
        if self.claim.has_begun:
            told.append(PublishFact(start(record, terms)))
        elif began := self._began():
            return [*told, began]
        if workload.is_over:
            return [*told, *self._end()]
        if workload.reservation != record.reservation:
            return [*told, *self._set_back()]
        if workload.eviction is not None or not workload.is_active:
            return told  # Kueue ends its pods, then takes its quota
        return [*told, *self._go_on()]

    def _began(self) -> KeepRecord | None:
        """All of its pods are ready, or had been."""
        at_us = all_ready_us(self.seen.pods, self.seen.pods_of(self.record))
        return self._keep_begun(at_us) if at_us and not self.seen.over_us else None

    def _keep_begun(self, at_us: int) -> KeepRecord:
        claim = self._with_nodes()
        began = replace(claim, run_uid=self.seen.workload.id.uid, at_us=at_us)
        kept = replace(self.record, claim=began)
        return KeepRecord(self.seen.workload, kept, "has begun")

    def _with_nodes(self) -> GrantClaim:
        """Where its pods are, if Coplace knows all of these nodes; else as was decided."""
        units, claim = self.seen_units(), self.claim
        decided = [name for each in claim.nodes for name in expand(each)]
        is_known = units.keys() <= self.seen.around.hostnames.keys() and units
        if not is_known or dict(zip(decided, claim.units, strict=True)) == units:
            return claim
        names = sorted(units)
        counts = tuple(units[name] for name in names)
        return replace(claim, nodes=tuple(fold(names)), node_units=counts)

    def seen_units(self) -> Mapping[str, int]:
        """Return how many of its pods are on each node: of as many as it has."""
        first = sorted(self.seen.pods, key=lambda each: each.ready_us or each.started_us)
        return units_by_node(first[: self.seen.pods_of(self.record)])

    def _go_on(self) -> Sequence[WorkloadEffect]:
        stop = self.record.stop
        return self.answers() if stop is None else self._stop(stop)

    def answers(self) -> Sequence[WorkloadEffect]:
        """Return the answers to Kueue."""
        workload, around = self.seen.workload, self.seen.around
        if self.record.let_go is not None:
            return answers_of_let_go(self.seen, self.record)
        if own := around.checks.pending_of(workload):
            return [self._ready(workload, own)]
        if around.checks.awaits_nomination(workload):
            return [Nominate(workload, [self.claim.cluster])]
        copy = self.seen.copy
        if copy is not None and copy.may_start and (own := around.copy_checks.pending_of(copy)):
            return [self._ready(copy, own)]
        return ()

    def _ready(self, workload: KueueWorkload, own: Sequence[str]) -> AnswerCheck:
        """Pods are where MultiKueue has the copy; what is said at the manager does not reach
        them."""
        claim, around, updates = self.claim, self.seen.around, list[Mapping[str, object]]()
        if not around.checks.dispatched_of(self.seen.workload) or workload is self.seen.copy:
            updates += pod_set_updates(
                workload,
                self.record,
                self.seen.workload.id.uid,
                selector=around.selector,
                hostnames=around.hostnames,
                flavors=around.flavors,
            )
        message = f"Coplace: grant {claim.grant} on {claim.cluster} at {claim.freq_ghz:g} GHz"
        return AnswerCheck(workload, own, CheckState.READY, message, updates)

    def _stop(self, stop: StopRequest) -> Sequence[WorkloadEffect]:
        """Have Kueue evict it; one that is to be cancelled it admits no more."""
        workload, around, copy = self.seen.workload, self.seen.around, self.seen.copy
        if stop.then is AfterStop.DECLINE:
            return self._recall(stop)
        if stop.then is AfterStop.CANCEL:
            return refuse(self.seen, f"Coplace: {stop.reason}")
        message = f"Coplace: {stop.reason}"
        if own := around.checks.own_of(workload):
            return answered(workload, own, CheckState.RETRY, message)
        if copy is not None and (own := around.copy_checks.own_of(copy)) and copy.may_start:
            return answered(copy, own, CheckState.RETRY, message)
        return [Nominate(workload, [])] if workload.nominated else ()

    def _recall(self, stop: StopRequest) -> Sequence[WorkloadEffect]:
        """It was sent to a cluster and did not start there: without its check it cannot any
        more. What was answered at the manager is asked anew: it waits with its quota."""
        if self.seen.workload.nominated:
            return [Nominate(self.seen.workload, [])]
        if anew := asked_anew(self.seen):
            return anew
        if self.seen.workload.recalled != str(self.claim.grant):
            return [NoteRecalled(self.seen.workload, self.claim.grant)]
        return self._decline(stop.reason)

    def _decline(self, why: str) -> Sequence[WorkloadEffect]:
        """Its grant did not lead to a run: that is kept first, and published then. Coplace may not
        start it again before it has quota."""
        claim, workload = self.claim, self.seen.workload
        stop = self.record.stop
        is_cancelled = stop is not None and stop.then is AfterStop.CANCEL
        kept = replace(self.record, claim=claim.declining(claim.grant, claim.attempt))
        kept = replace(kept, past=PastRun(claim, why), stop=stop if is_cancelled else None)
        if not self.seen.around.checks.asks(workload):
            kept = kept.held(workload.reservation, self.moment.now_us)
        return [KeepRecord(workload, kept, f"declined grant {claim.grant}: {why}")]

    def _set_back(self) -> Sequence[WorkloadEffect]:
        """Kueue has taken the quota that it was granted with: what ran is charged."""
        if left_us := self._unquiet_us():
            return [LookAgain(left_us / SECOND_US)]
        eviction, stop = self.seen.workload.last_eviction, self.record.stop
        reason = f"{eviction.reason}: {eviction.message}" if eviction else "Kueue took its quota"
        reason = stop.reason if stop else reason
        if not self.claim.has_begun:
            return [began] if (began := self._began_late()) else self._never_ran(reason, stop)
        if eviction is not None and eviction.is_time_out:
            return self._close(JOB_OUTCOME_TIMED_OUT)
        if stop is not None and stop.then is AfterStop.CANCEL:
            return self._close(JOB_OUTCOME_CANCELLED)
        return self._requeue(reason, stop)

    def _never_ran(self, reason: str, stop: StopRequest | None) -> Sequence[WorkloadEffect]:
        if stop is not None and stop.then is AfterStop.FORGET:
            return self._requeue(reason, stop)
        return self._decline(reason)

    def _requeue(self, reason: str, stop: StopRequest | None) -> Sequence[WorkloadEffect]:
        """It waits again: that is kept first, and published then. Coplace may not start it before
        it has quota."""
        workload, claim = self.seen.workload, self.claim
        kept = replace(self.record, claim=claim.over(), stop=None, past=None, let_go=None)
        if stop is None or stop.then is not AfterStop.FORGET:
            kept = replace(kept, past=PastRun(claim, reason, self._ended_us()))
        if not self.seen.around.checks.asks(workload):
            kept = kept.held(workload.reservation, self.moment.now_us)
        return [KeepRecord(workload, kept, f"waits again: {shown(reason)}")]

    def _ended_us(self) -> int:
        eviction = self.seen.workload.last_eviction
        return ended_us(self.seen.pods) or (eviction.at_us if eviction else 0)

    def _close(self, outcome: JobOutcome.ValueType) -> Sequence[WorkloadEffect]:
        return close(self.seen, self.record, self.moment, RunEnd(outcome, self._ended_us()))

    def _end(self) -> Sequence[WorkloadEffect]:
        """It has ended, or was deleted: its last pods are waited for."""
        if left_us := self._unquiet_us():
            return [LookAgain(left_us / SECOND_US)]
        end = finished_end(self.seen.workload, ended_us(self.seen.pods))
        if self.claim.has_begun:
            return close(self.seen, self.record, self.moment, end)
        if began := self._began_late():
            return [began]
        return self._decline("its Workload ended before it ran")

    def _unquiet_us(self) -> int:
        return unquiet_us(self.seen, self.record, self.moment)

    def _began_late(self) -> KeepRecord | None:
        """A run that is over began when the last of its pods did. Where no pod of it was seen, it
        began when it was admitted: some kinds do not hand labels on."""
        workload, pods = self.seen.workload, self.seen.pods
        at_us = begun_us(pods, self.seen.pods_of(self.record))
        if not pods and workload.is_over:
            at_us = workload.admitted_at_us
        return self._keep_begun(at_us) if at_us else None
