"""Effects of the state of a Workload: from the objects of the API servers and its record alone, so
that a restart goes on where it was.

Kueue owns the order and the quotas: Coplace may start a Workload only while Kueue has quota for it,
and what Kueue takes its quota is requeued. Of each list of effects one at most changes the
Workload."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from coplace_client.errors import RejectedError
from services.kueue.model.facts import answers, finish, finished_end, hold_word, submission
from services.kueue.model.records import WorkloadRecord
from services.kueue.model.retries import retry_s
from services.kueue.processor.answers import asked_anew, let_pass, refuse
from services.kueue.processor.effects import (
    AnswerCheck,
    DropRecord,
    KeepRecord,
    NotifyOwner,
    WorkloadEffect,
)
from services.kueue.processor.ends import close
from services.kueue.processor.granted import GrantedWorkload
from services.kueue.processor.let_go import LetGoWorkload
from services.kueue.processor.seen import SECOND_US, Moment, SeenWorkload, new_record, overdue
from shared.kubernetes.effects import LookAgain, PublishFact
from shared.kubernetes.explained_wait import ExplainedWait
from shared.kubernetes.texts import shown
from shared.kueue.workloads import CheckState

# A start that was decided before the hold was known has come by then.
_CROSSING_US: Final = SECOND_US
WORDS_EVERY_S: Final = 60.0
"""How often users read anew why a Workload waits that keeps its quota."""


def reconcile(
    seen: SeenWorkload, record: WorkloadRecord | None, moment: Moment
) -> Sequence[WorkloadEffect]:
    """Return what to do about a Workload."""
    if record is None:
        return _Unknown(seen, moment).wanted()
    if record.outcome:
        return _closed(seen, record)
    if record.claim.is_live:
        return GrantedWorkload(seen, record, moment).wanted()
    if record.let_go is not None:
        return LetGoWorkload(seen, record, record.let_go, moment).wanted()
    return _WaitingWorkload(seen, record, moment).wanted()


def _closed(seen: SeenWorkload, record: WorkloadRecord) -> Sequence[WorkloadEffect]:
    """Let it go. One that is activated again is submitted anew, or stays as it is."""
    workload = seen.workload
    if workload.is_over:
        return [DropRecord(workload, record, record.outcome)]
    if seen.around.checks.asks(workload):
        return refuse(seen, f"Coplace: {record.outcome}: submit it anew")
    return ()


@dataclass(frozen=True, slots=True)
class _Unknown:
    """It has no record: it was submitted a moment ago at most."""

    seen: SeenWorkload
    moment: Moment

    def wanted(self) -> Sequence[WorkloadEffect]:
        """Return what to do about it."""
        workload, checks = self.seen.workload, self.seen.around.checks
        if passes := let_pass(self.seen):
            return passes
        if not checks.asks(workload) and not self.seen.is_known:
            return ()
        try:
            record = new_record(self.seen, self.moment)
        except RejectedError as error:
            return refuse(self.seen, f"Coplace cannot take it: {error}")
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
            return [*told, *close(self.seen, record, self.moment, end)]
        if record.stop is not None:
            outcome = shown(f"cancelled: {record.stop.reason}")
            kept = replace(record, outcome=outcome, stop=None)
            return [*told, KeepRecord(workload, kept, outcome)]
        return [*told, *self._next()]

    def _next(self) -> Sequence[WorkloadEffect]:
        workload, record, now_us = self.seen.workload, self.record, self.moment.now_us
        if passes := let_pass(self.seen):
            return passes
        if anew := asked_anew(self.seen):
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
            return [LookAgain(left_us / SECOND_US)]
        workload, explained = self.seen.workload, self.record.explained
        delay_s = retry_s(explained, self.moment.now_us, hold.tried)
        own = checks.own_of(workload)
        state = CheckState.RETRY
        return [AnswerCheck(workload, own, state, explained.words, requeue_s=delay_s)]


def _look_when_overdue(seen: SeenWorkload, moment: Moment) -> LookAgain:
    left_us = seen.asked_us + moment.patience.waits_us - moment.now_us
    return LookAgain(max(left_us, 0) / SECOND_US)


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
