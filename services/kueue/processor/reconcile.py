"""Effects of the state of a Workload: from the objects of the API servers and its record alone, so
that a restart goes on where it was.

Kueue owns the order and the quotas: Coplace may start a Workload only while Kueue has quota for it,
and what Kueue takes its quota is requeued. Of each list of effects one at most changes the
Workload."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JOB_OUTCOME_TIMED_OUT, JobOutcome

from coplace_client.errors import RejectedError
from services.kueue.model.bodies import let_go_updates, pod_set_updates
from services.kueue.model.facts import (
    KueueTerms,
    answers,
    finish,
    finished_end,
    hold_word,
    start,
    submission,
    submission_of,
)
from services.kueue.model.records import LetGo, PastRun, WorkloadRecord
from services.kueue.model.retries import retry_s
from services.kueue.processor.effects import (
    AnswerCheck,
    Deactivate,
    DropRecord,
    KeepRecord,
    Nominate,
    NoteRecalled,
    NotifyOwner,
    WorkloadEffect,
)
from shared.domain.folding import fold
from shared.domain.hostlist import expand
from shared.kubernetes.claims import AfterStop, GrantClaim, StopRequest
from shared.kubernetes.effects import LookAgain, PublishFact
from shared.kubernetes.explained_wait import ExplainedWait
from shared.kubernetes.facts import RunEnd
from shared.kubernetes.pods import RunPod, all_ready_us, begun_us, ended_us, units_by_node
from shared.kubernetes.texts import shown
from shared.kueue.workloads import CheckNames, CheckState, KueueWorkload

_SECOND_US: Final = 1_000_000
# A start that was decided before the hold was known has come by then.
_CROSSING_US: Final = 1 * _SECOND_US
# Pods of a Workload that is over end within this time, or their end is not waited for.
LAST_PODS_US: Final = 120 * _SECOND_US
# Pods of which nobody has heard yet, though their Workload is over, are heard of within this time.
_SETTLE_US: Final = 5 * _SECOND_US
_BY_ITSELF: Final = "Coplace: Kueue starts it by its own rules"
WORDS_EVERY_S: Final = 60.0
"""How often users read anew why a Workload waits that keeps its quota."""
_OUTCOMES: Final = {
    JobOutcome.JOB_OUTCOME_COMPLETED: "completed",
    JobOutcome.JOB_OUTCOME_FAILED: "failed",
    JobOutcome.JOB_OUTCOME_TIMED_OUT: "timed out",
    JobOutcome.JOB_OUTCOME_CANCELLED: "cancelled",
}


class Surroundings(NamedTuple):
    """What is around a Workload: the checks of its API server and of that where its copy is, the
    labels of the nodes of its cluster and of each flavor there, and the nodes that the cluster
    declared, by name, with the label by which pods ask for each. `cluster` is where it runs,
    or would if it stayed."""

    checks: CheckNames = CheckNames()
    copy_checks: CheckNames = CheckNames()
    selector: Mapping[str, str] = {}
    flavors: Mapping[str, Mapping[str, str]] = {}
    hostnames: Mapping[str, str] = {}
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class SeenWorkload:
    """A Workload, its copy on the cluster where it was granted, and the pods of its newest grant.
    `asked_us` is since when it was seen to wait for Coplace, `over_us` since when it was seen not
    to run any more; 0: not. `is_known` says that this process has submitted it, and `explained` is
    set where that was asked for."""

    workload: KueueWorkload
    copy: KueueWorkload | None = None
    pods: Sequence[RunPod] = ()
    around: Surroundings = field(default_factory=Surroundings)
    asked_us: int = 0
    over_us: int = 0
    is_known: bool = False
    explained: ExplainedWait | None = None

    def pods_of(self, record: WorkloadRecord) -> int:
        """Return how many pods a run of it has at a time: of a Workload that was deleted before it
        was seen, as many as were submitted."""
        return self.workload.pods or record.submitted.nodes


@dataclass(frozen=True, slots=True)
class WaitLimit:
    """For how long a Workload may keep its quota while it waits for a start, us."""

    waits_us: int = 5 * _SECOND_US


@dataclass(frozen=True, slots=True)
class Moment:
    """What holds for all Workloads now."""

    terms: KueueTerms
    now_us: int
    patience: WaitLimit = field(default_factory=WaitLimit)


def reconcile(
    seen: SeenWorkload, record: WorkloadRecord | None, moment: Moment
) -> Sequence[WorkloadEffect]:
    """Return what to do about a Workload."""
    if record is None:
        return _Unknown(seen, moment).wanted()
    if record.outcome:
        return _closed(seen, record)
    if record.claim.is_live:
        return _Granted(seen, record, moment).wanted()
    if record.let_go is not None:
        return _LetGoWorkload(seen, record, record.let_go, moment).wanted()
    return _WaitingWorkload(seen, record, moment).wanted()


def overdue(seen: SeenWorkload, moment: Moment) -> bool:
    """Return whether a Workload has kept its quota for as long as it may without a start."""
    return 0 < seen.asked_us <= moment.now_us - moment.patience.waits_us


def new_record(seen: SeenWorkload, moment: Moment) -> WorkloadRecord:
    """Return the record of a Workload that has none. Raises RejectedError for one that Coplace
    cannot take."""
    clusters = list(seen.around.checks.clusters_of(seen.workload))
    return WorkloadRecord(submission_of(seen.workload, clusters, moment.terms))


@dataclass(frozen=True, slots=True)
class _Unknown:
    """It has no record: it was submitted a moment ago at most."""

    seen: SeenWorkload
    moment: Moment

    def wanted(self) -> Sequence[WorkloadEffect]:
        """Return what to do about it."""
        workload, checks = self.seen.workload, self.seen.around.checks
        if passes := _let_pass(self.seen):
            return passes
        if not checks.asks(workload) and not self.seen.is_known:
            return ()
        try:
            record = new_record(self.seen, self.moment)
        except RejectedError as error:
            return _refuse(self.seen, f"Coplace cannot take it: {error}")
        told = PublishFact(submission(self.moment.terms.site, record.submitted))
        if workload.is_over:
            end = finished_end(workload, 0)
            event = finish(record, workload, self.moment.terms, end, self.moment.now_us)
            return [told, PublishFact(event)]
        if not checks.asks(workload):
            return [told, _keep_held(self.seen, record, self.moment)]
        if overdue(self.seen, self.moment):
            return [told, *_put_off(self.seen, record, self.moment)]
        return [told, _look_when_overdue(self.seen, self.moment)]


@dataclass(frozen=True, slots=True)
class _WaitingWorkload:
    """Nothing of it runs."""

    seen: SeenWorkload
    record: WorkloadRecord
    moment: Moment

    def wanted(self) -> Sequence[WorkloadEffect]:
        workload, record = self.seen.workload, self.record
        told = [PublishFact(submission(self.moment.terms.site, record.submitted))]
        if record.hold.at_us:
            told.append(PublishFact(hold_word(record, self.moment.terms)))
        answered = answers(record, workload, self.moment.terms, self.moment.now_us)
        told += [PublishFact(each) for each in answered]
        if workload.is_over:
            end = finished_end(workload, 0)
            return [*told, *_close(self.seen, record, self.moment, end)]
        if record.stop is not None:
            outcome = shown(f"cancelled: {record.stop.reason}")
            kept = replace(record, outcome=outcome, stop=None)
            return [*told, KeepRecord(workload, kept, outcome)]
        return [*told, *self._next()]

    def _next(self) -> Sequence[WorkloadEffect]:
        workload, record, now_us = self.seen.workload, self.record, self.moment.now_us
        if passes := _let_pass(self.seen):
            return passes
        if anew := _asked_anew(self.seen):
            return anew
        if not self.seen.around.checks.asks(workload):
            is_said = record.hold.is_held
            return () if is_said else [_keep_held(self.seen, record, self.moment)]
        if not record.hold.is_held:
            return self._wait()
        if record.hold.reservation != workload.reservation:
            released = record.released(workload.reservation, now_us)
            return [KeepRecord(workload, released, "has quota: may start")]
        return self._give_quota_back()

    def _wait(self) -> Sequence[WorkloadEffect]:
        if overdue(self.seen, self.moment):
            return _put_off(self.seen, self.record, self.moment)
        return [_look_when_overdue(self.seen, self.moment)]

    def _give_quota_back(self) -> Sequence[WorkloadEffect]:
        hold, checks = self.record.hold, self.seen.around.checks
        left_us = hold.at_us + _CROSSING_US - self.moment.now_us
        if left_us > 0:
            return [LookAgain(left_us / _SECOND_US)]
        workload, explained = self.seen.workload, self.record.explained
        delay_s = retry_s(explained, self.moment.now_us, hold.tried)
        own = checks.own_of(workload)
        state = CheckState.RETRY
        return [AnswerCheck(workload, own, state, explained.words, requeue_s=delay_s)]


def _look_when_overdue(seen: SeenWorkload, moment: Moment) -> LookAgain:
    left_us = seen.asked_us + moment.patience.waits_us - moment.now_us
    return LookAgain(max(left_us, 0) / _SECOND_US)


def _keep_held(seen: SeenWorkload, record: WorkloadRecord, moment: Moment) -> KeepRecord:
    held = record.held(seen.workload.reservation, moment.now_us)
    return KeepRecord(seen.workload, held, "has no quota: may not start")


def _put_off(
    seen: SeenWorkload, record: WorkloadRecord, moment: Moment
) -> Sequence[WorkloadEffect]:
    """It does not start now: give its quota back where Coplace has a check on it, else say why it
    waits."""
    workload, explained = seen.workload, seen.explained or ExplainedWait()
    if seen.around.checks.own_of(workload):
        held = record.put_off(workload.reservation, moment.now_us, explained)
        return [KeepRecord(workload, held, f"put off: {explained.words}")]
    return _say(seen, record)


def _say(seen: SeenWorkload, record: WorkloadRecord) -> Sequence[WorkloadEffect]:
    """Report why it waits, changes alone."""
    explained = seen.explained
    if explained is None or explained == record.explained:
        return [LookAgain(WORDS_EVERY_S)]
    kept = replace(record, explained=explained)
    user = NotifyOwner(seen.workload, "Waiting", explained.words)
    return [user, KeepRecord(seen.workload, kept, f"waits: {explained.words}")]


def _let_pass(seen: SeenWorkload) -> Sequence[WorkloadEffect]:
    """Nothing of it has to be placed, or it runs since before Coplace answers its check."""
    workload, checks = seen.workload, seen.around.checks
    why = _why_passes(seen)
    if not why or not workload.may_start:
        return ()
    pending, clusters = checks.pending_of(workload), list(checks.clusters_of(workload))
    if pending:
        return [AnswerCheck(workload, pending, CheckState.READY, f"Coplace: {why}")]
    if clusters and checks.awaits_nomination(workload):
        return [Nominate(workload, clusters)]
    return ()


def _why_passes(seen: SeenWorkload) -> str:
    """Return why it starts without a word of Coplace; empty where it may not."""
    if seen.workload.is_admitted:
        return "it was admitted before"
    if not seen.workload.pods:
        return "it has no pods"
    if not seen.around.checks.clusters_of(seen.workload):
        return "Kueue sends it to no cluster that Coplace knows"
    return ""


def _asked_anew(seen: SeenWorkload) -> Sequence[WorkloadEffect]:
    """Its check was answered for a grant that does not count any more: with that answer it would
    wait for no other."""
    workload = seen.workload
    if not workload.may_start or _why_passes(seen):
        return ()
    own, states = seen.around.checks.own_of(workload), workload.checks
    answered = [name for name in own if states[name] == CheckState.READY]
    return _answered(workload, answered, CheckState.PENDING, "Coplace: it waits for another grant")


def _refuse(seen: SeenWorkload, why: str) -> Sequence[WorkloadEffect]:
    """It is not to be admitted: by the check where there is one, so that its user reads why."""
    workload, checks = seen.workload, seen.around.checks
    if not workload.may_start:
        return ()
    if own := checks.own_of(workload):
        return _answered(workload, own, CheckState.REJECTED, why)
    user = NotifyOwner(workload, "Rejected", why, is_warning=True)
    return [user, Deactivate(workload)]


def _answered(
    workload: KueueWorkload, names: Sequence[str], state: CheckState, message: str
) -> Sequence[WorkloadEffect]:
    """Answer checks, once."""
    is_said = all(workload.checks[name] == state for name in names)
    return () if is_said else [AnswerCheck(workload, names, state, message)]


def stray(copy: KueueWorkload, checks: CheckNames) -> Sequence[WorkloadEffect]:
    """Return what to do about the copy of a Workload that Coplace granted no cluster, or another
    one: MultiKueue is to send it elsewhere."""
    own = checks.pending_of(copy)
    if not own or not copy.may_start or copy.is_admitted:
        return ()
    message = "Coplace: its manager has no grant for this cluster"
    return [AnswerCheck(copy, own, CheckState.RETRY, message)]


def _closed(seen: SeenWorkload, record: WorkloadRecord) -> Sequence[WorkloadEffect]:
    """Let it go. One that is activated again is submitted anew, or stays as it is."""
    workload = seen.workload
    if workload.is_over:
        return [DropRecord(workload, record, record.outcome)]
    if seen.around.checks.asks(workload):
        return _refuse(seen, f"Coplace: {record.outcome}: submit it anew")
    return ()


def _close(
    seen: SeenWorkload, record: WorkloadRecord, moment: Moment, end: RunEnd
) -> Sequence[WorkloadEffect]:
    outcome = _OUTCOMES[end.outcome]
    if record.stop is not None and record.stop.then is AfterStop.CANCEL:
        outcome = f"cancelled: {record.stop.reason}"
    event = finish(record, seen.workload, moment.terms, end, moment.now_us)
    if seen.workload.is_over:
        return [PublishFact(event), DropRecord(seen.workload, record, outcome)]
    kept = replace(record, outcome=outcome, stop=None)
    return [PublishFact(event), KeepRecord(seen.workload, kept, outcome)]


def _unquiet_us(seen: SeenWorkload, record: WorkloadRecord, moment: Moment) -> int:
    """Return for how long the last pods of a run are waited for, and its copy on another cluster;
    0: nothing of it runs any more, or nobody says what became of that."""
    pods, over_us = seen.pods, seen.over_us or moment.now_us
    waits_us = 0
    if len(pods) < seen.pods_of(record):
        waits_us = _SETTLE_US
    if seen.copy is not None or not all(each.is_over for each in pods):
        waits_us = LAST_PODS_US
    return max(0, over_us + waits_us - moment.now_us)


def answers_of_grant(
    seen: SeenWorkload, record: WorkloadRecord, moment: Moment
) -> Sequence[WorkloadEffect]:
    """Return the answers to Kueue of a Workload that was granted."""
    workload = seen.workload
    if not workload.may_start or workload.reservation != record.reservation:
        return ()
    return _Granted(seen, record, moment).answers()


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
class _LetGoWorkload:
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
        if not has_quota and (left_us := _unquiet_us(self.seen, record, self.moment)):
            return [LookAgain(left_us / _SECOND_US)]
        if workload.is_over:
            end = finished_end(workload, ended_us(self.seen.pods))
            return _close(self.seen, record, self.moment, end)
        if not has_quota:
            kept = replace(record, let_go=None)
            return [KeepRecord(workload, kept, "Kueue took its quota: it is Coplace's again")]
        if record.stop is not None:
            return _refuse(self.seen, f"Coplace: {record.stop.reason}")
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


@dataclass(frozen=True, slots=True)
class _Granted:
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
            return _refuse(self.seen, f"Coplace: {stop.reason}")
        message = f"Coplace: {stop.reason}"
        if own := around.checks.own_of(workload):
            return _answered(workload, own, CheckState.RETRY, message)
        if copy is not None and (own := around.copy_checks.own_of(copy)) and copy.may_start:
            return _answered(copy, own, CheckState.RETRY, message)
        return [Nominate(workload, [])] if workload.nominated else ()

    def _recall(self, stop: StopRequest) -> Sequence[WorkloadEffect]:
        """It was sent to a cluster and did not start there: without its check it cannot any
        more. What was answered at the manager is asked anew: it waits with its quota."""
        if self.seen.workload.nominated:
            return [Nominate(self.seen.workload, [])]
        if anew := _asked_anew(self.seen):
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
            return [LookAgain(left_us / _SECOND_US)]
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
        return _close(self.seen, self.record, self.moment, RunEnd(outcome, self._ended_us()))

    def _end(self) -> Sequence[WorkloadEffect]:
        """It has ended, or was deleted: its last pods are waited for."""
        if left_us := self._unquiet_us():
            return [LookAgain(left_us / _SECOND_US)]
        end = finished_end(self.seen.workload, ended_us(self.seen.pods))
        if self.claim.has_begun:
            return _close(self.seen, self.record, self.moment, end)
        if began := self._began_late():
            return [began]
        return self._decline("its Workload ended before it ran")

    def _unquiet_us(self) -> int:
        return _unquiet_us(self.seen, self.record, self.moment)

    def _began_late(self) -> KeepRecord | None:
        """A run that is over began when the last of its pods did. Where no pod of it was seen, it
        began when it was admitted: some kinds do not hand labels on."""
        workload, pods = self.seen.workload, self.seen.pods
        at_us = begun_us(pods, self.seen.pods_of(self.record))
        if not pods and workload.is_over:
            at_us = workload.admitted_at_us
        return self._keep_begun(at_us) if at_us else None
