"""Workloads that Kueue starts by its own rules, since Coplace is silent."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from services.kueue.model.bodies import let_go_updates
from services.kueue.model.facts import answers, finished_end, hold_word, submission
from services.kueue.model.records import LetGo, WorkloadRecord
from services.kueue.processor.answers import refuse
from services.kueue.processor.effects import AnswerCheck, KeepRecord, Nominate, WorkloadEffect
from services.kueue.processor.ends import close, unquiet_us
from services.kueue.processor.seen import SECOND_US, Moment, SeenWorkload
from shared.domain.folding import fold
from shared.kubernetes.effects import LookAgain, PublishFact
from shared.kubernetes.pods import all_ready_us, begun_us, ended_us, units_by_node
from shared.kueue.workloads import CheckNames, CheckState, KueueWorkload

_BY_ITSELF: Final = "Coplace: Kueue starts it by its own rules"


def answers_of_let_go(seen: SeenWorkload, record: WorkloadRecord) -> Sequence[WorkloadEffect]:
    """Return the answers to Kueue of a Workload that it may start by its own rules."""
    workload, checks = seen.workload, seen.around.checks
    if not workload.may_start:
        return ()
    if own := checks.pending_of(workload):
        uid = workload.id.uid
        is_sent = bool(checks.dispatched_of(workload))
        updates = [] if is_sent else let_go_updates(workload, record, uid)
        return [AnswerCheck(workload, own, CheckState.READY, _BY_ITSELF, updates)]
    if checks.awaits_nomination(workload):
        return [Nominate(workload, list(checks.clusters_of(workload)))]
    return ()


def answers_of_copy(
    copy: KueueWorkload, root: KueueWorkload, record: WorkloadRecord, checks: CheckNames
) -> Sequence[WorkloadEffect]:
    """Return the answer to Kueue of a copy of a Workload that was let go. One copy starts: which
    one is kept first."""
    let_go, own = record.let_go, checks.pending_of(copy)
    if let_go is None or not own or not copy.may_start:
        return ()
    if not let_go.cluster:
        kept = replace(record, let_go=replace(let_go, cluster=copy.server))
        return [KeepRecord(root, kept, f"let go to {copy.server}")]
    if let_go.cluster != copy.server:
        return ()
    updates = let_go_updates(copy, record, root.id.uid)
    return [AnswerCheck(copy, own, CheckState.READY, _BY_ITSELF, updates)]


@dataclass(frozen=True, slots=True)
class LetGoWorkload:
    """Kueue starts it by its own rules, since Coplace was silent; its pods were not ready yet."""

    seen: SeenWorkload
    record: WorkloadRecord
    let_go: LetGo
    moment: Moment

    def wanted(self) -> Sequence[WorkloadEffect]:
        """Return what to do about it."""
        workload, record, terms = self.seen.workload, self.record, self.moment.terms
        told = [submission(terms.site, record.submitted), hold_word(record, terms)]
        told += answers(record, workload, terms, self.moment.now_us)
        return [*map(PublishFact, told), *self._next()]

    def _next(self) -> Sequence[WorkloadEffect]:
        workload, record = self.seen.workload, self.record
        has_quota = record.is_let_go(workload.reservation) and not workload.is_over
        if began := self._began(is_over=not has_quota):
            return [began]
        if not has_quota and (left_us := unquiet_us(self.seen, record, self.moment)):
            return [LookAgain(left_us / SECOND_US)]
        if workload.is_over:
            end = finished_end(workload, ended_us(self.seen.pods))
            return close(self.seen, record, self.moment, end)
        if not has_quota:
            kept = replace(record, let_go=None)
            return [KeepRecord(workload, kept, "Kueue took its quota: it is Coplace's again")]
        if record.stop is not None:
            return refuse(self.seen, f"Coplace: {record.stop.reason}")
        return answers_of_let_go(self.seen, record)

    def _began(self, *, is_over: bool) -> KeepRecord | None:
        """All of its pods are ready, or had been: it runs, without a grant, at the highest
        clock."""
        workload, pods = self.seen.workload, self.seen.pods
        count = self.record.submitted.nodes
        at_us = begun_us(pods, count) if is_over else all_ready_us(pods, count)
        first = sorted(pods, key=lambda each: each.ready_us or each.started_us)[:count]
        units = units_by_node(first)
        if not at_us or not units or not units.keys() <= self.seen.around.hostnames.keys():
            return None
        names = sorted(units)
        claim = replace(
            self.record.claim,
            grant=0,
            is_live=True,
            cluster=self.seen.around.cluster,
            freq_ghz=self.moment.terms.top_ghz.get(self.seen.around.cluster, 0.0),
            walltime_s=self.record.submitted.walltime_s,
            at_us=at_us,
            nodes=tuple(fold(names)),
            node_units=tuple(units[name] for name in names),
            run_uid=workload.id.uid,
        )
        kept = replace(self.record, claim=claim, reservation=self.let_go.reservation)
        return KeepRecord(workload, kept, "has begun, without a grant")
