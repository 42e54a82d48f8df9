"""Charges each finished attempt of a job when its shutters are in. No clock, no I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from coplace.v1.jobs_pb2 import (
    JobActionDone,
    JobActionRefused,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobHeld,
    JobReleased,
    JobRequeueAsked,
    JobRequeued,
    JobResumed,
    JobSeized,
    JobStarted,
    JobSubmitted,
    JobSuspended,
)
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.pricing_state_pb2 import CoRunInterval
from coplace.v1.telemetry_pb2 import ShuttersMeasured

from services.pricing.charge import charge_message, usage_of
from services.pricing.explanation import co_run_of
from services.pricing.model import evidence
from services.pricing.state import Agenda, Attempt, AttemptKey, Attempts
from shared.domain.checks import require_count, require_text
from shared.domain.errors import RejectedError
from shared.domain.job import JobFact, JobState, next_state
from shared.messaging.event import Event, Publish
from shared.messaging.stage import AlreadyAppliedError, EarlyError, Round

# What costs nothing: the finish tells what came of it.
_COST_NOTHING: Final = (
    JobStarted,
    JobDeclined,
    JobCancelled,
    JobHeld,
    JobReleased,
    JobActionDone,
    JobActionRefused,
    JobSuspended,
    JobResumed,
    JobRequeueAsked,
)
CHARGES: Final = "prices.charges"
SOURCE: Final = "pricing"


@dataclass(frozen=True, slots=True)
class PriceRule:
    """What is charged and when. `grace_us` 0 charges in the round that brings the finish."""

    rate_su_per_core_s: Decimal
    grace_us: int
    remember_us: int


class PricingProcessor:
    """Folds the facts and shutters of the jobs of one unit into charges."""

    def __init__(self, tariff: PriceRule, restored: Mapping[str, bytes]) -> None:
        self._tariff = tariff
        self._attempts = Attempts(restored)
        self._open: set[AttemptKey] = set()
        self._to_charge = Agenda()
        self._to_forget = Agenda()
        for attempt in self._attempts:
            self._schedule(attempt)

    def handle(self, event: Event) -> Iterable[Publish]:
        """Apply one fact. Raises RejectedError for bad input, AlreadyAppliedError for a copy."""
        match event.payload:
            case JobSubmitted() as fact:
                self._advance(_key(fact.job_id, fact.attempt), JobFact.SUBMITTED)
            case JobFinished() as fact:
                self._finish(fact, event.traceparent)
            case JobRequeued() as fact:
                self._follow(fact.job_id, fact.attempt)
            case JobSeized() as fact:
                self._follow(fact.job_id, fact.attempt + 1)
            case ShuttersMeasured() as measured:
                self._measure(measured, event.id)
            case _ if isinstance(event.payload, _COST_NOTHING):
                pass
            case other:
                raise RejectedError("ce_type", f"{other.DESCRIPTOR.full_name} tells no price")
        return ()

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Charge what is due, in the order of job ids, and forget what nobody asks for."""
        for key in sorted(self._open):
            self._settle(self._attempts.get(key), ended)
        self._open.clear()
        due = {
            key
            for due_us, key in self._to_charge.take(ended.ended_at_us)
            if self._attempts.get(key).facts.charge_due_us == due_us
        }
        charges = [self._charge(self._attempts.get(key), ended) for key in sorted(due)]
        for _, (job_id, _) in self._to_forget.take(ended.ended_at_us):
            self._forget(job_id, ended.ended_at_us)
        return charges

    def changes(self) -> Mapping[str, bytes | None]:
        """State that changed since the last call."""
        return self._attempts.changes()

    def _advance(self, key: AttemptKey, fact: JobFact) -> Attempt:
        attempt = self._attempts.get(key)
        state = next_state(attempt.state, fact)
        if state is attempt.state:
            raise AlreadyAppliedError
        attempt.facts.state = state
        attempt.facts.forget_due_us = 0
        self._save(attempt)
        return attempt

    def _finish(self, finished: JobFinished, traceparent: str) -> None:
        """A finish carries all that a price needs but that somebody submitted the job; whether its
        attempt was announced does not matter."""
        for field in ("user", "account", "cluster"):
            require_text(field, getattr(finished, field))
        usage_of(finished)
        key = _key(finished.job_id, finished.attempt)
        self._require_submitted(finished.job_id)
        if self._attempts.get(key).state is JobState.UNKNOWN:
            self._advance(key, JobFact.SUBMITTED)
        attempt = self._advance(key, JobFact.FINISHED)
        attempt.facts.finished.CopyFrom(finished)
        attempt.facts.traceparent = traceparent
        self._reopen(attempt)

    def _follow(self, job_id: str, number: int) -> None:
        """An attempt follows the one before, which may never say how it ended."""
        key = _key(job_id, number)
        self._require_submitted(job_id)
        before = self._attempts.get((job_id, number - 1))
        is_left = before.state is JobState.SUBMITTED and not before.is_settled
        if self._attempts.get(key).state is JobState.UNKNOWN:
            self._advance(key, JobFact.SUBMITTED)
        elif not is_left:
            raise AlreadyAppliedError
        if is_left:
            self._reopen(before)

    def _require_submitted(self, job_id: str) -> None:
        if not self._attempts.knows(job_id):
            raise EarlyError("job_id", f"{job_id[:80]!r} was never submitted: submit it first")

    def _measure(self, measured: ShuttersMeasured, event_id: str) -> None:
        attempt = self._attempts.get(_key(measured.job_id, measured.attempt))
        if event_id in attempt.intervals:
            raise AlreadyAppliedError
        self._attempts.add_interval(attempt, _interval(measured, event_id))
        if attempt.state in (JobState.UNKNOWN, JobState.FINISHED):
            self._reopen(attempt)

    def _reopen(self, attempt: Attempt) -> None:
        attempt.facts.is_open = True
        self._save(attempt)

    def _save(self, attempt: Attempt) -> None:
        self._attempts.save(attempt)
        self._schedule(attempt)

    def _schedule(self, attempt: Attempt) -> None:
        if attempt.facts.is_open:
            self._open.add(attempt.key)
        self._to_charge.add(attempt.facts.charge_due_us, attempt.key)
        self._to_forget.add(attempt.facts.forget_due_us, attempt.key)

    def _settle(self, attempt: Attempt, ended: Round) -> None:
        """A finished attempt is charged after the grace; one that may never finish is forgotten."""
        attempt.facts.is_open = False
        if attempt.state is JobState.FINISHED:
            attempt.facts.charge_due_us = ended.ended_at_us + self._tariff.grace_us
        else:
            attempt.facts.forget_due_us = ended.ended_at_us + self._tariff.remember_us
        self._save(attempt)

    def _forget(self, job_id: str, now_us: int) -> None:
        """Of a job everything is forgotten at once: a copy of the end of an early attempt is known
        for as long as a later one may end."""
        attempts = self._attempts.of_job(job_id)
        if all(0 < attempt.facts.forget_due_us <= now_us for attempt in attempts):
            for attempt in attempts:
                self._attempts.forget(attempt)

    def _charge(self, attempt: Attempt, ended: Round) -> Publish:
        facts = attempt.facts
        facts.revision += 1
        facts.charge_due_us = 0
        facts.forget_due_us = ended.ended_at_us + self._tariff.remember_us
        self._save(attempt)
        rows = evidence(attempt.co_runs(), usage_of(facts.finished))
        charge = charge_message(
            facts.finished,
            facts.revision,
            self._tariff.rate_su_per_core_s,
            rows,
            ended.ended_at_us,
        )
        subject = f"{facts.job_id}/{facts.attempt}/{facts.revision}"
        event_id = f"{SOURCE}/{charge.DESCRIPTOR.full_name}/{subject}"
        return Publish(
            CHARGES,
            Event(event_id, SOURCE, ended.ended_at_us, facts.job_id, charge, facts.traceparent),
        )


def _key(job_id: str, attempt: int) -> AttemptKey:
    require_text("job_id", job_id)
    require_count("attempt", attempt)
    return job_id, attempt


def _interval(measured: ShuttersMeasured, event_id: str) -> CoRunInterval:
    """The measurement reduced to what a price needs. Raises RejectedError."""
    found = co_run_of(measured)
    return CoRunInterval(
        job_id=measured.job_id,
        attempt=measured.attempt,
        event_id=event_id,
        co_runner_job_id=found.co_runner_job_id,
        began_at_us=found.began_at_us,
        ended_at_us=found.ended_at_us,
        slowdown_ratio=found.interference.slowdown_ratio,
        shutters_used=found.interference.shutters_used,
        shutters_dropped=found.interference.shutters_dropped,
    )


def mended(
    restored: Mapping[str, bytes], tariff: PriceRule, now_us: int
) -> Mapping[str, bytes | None]:
    """The attempts of which something was put off into a future that a wrong clock made, with what
    is due as soon as it may be after `now_us`."""
    attempts = Attempts(restored)
    for attempt in attempts:
        facts = attempt.facts
        charge_us = min(facts.charge_due_us, now_us + tariff.grace_us)
        forget_us = min(facts.forget_due_us, now_us + tariff.remember_us)
        if (charge_us, forget_us) != (facts.charge_due_us, facts.forget_due_us):
            facts.charge_due_us, facts.forget_due_us = charge_us, forget_us
            attempts.save(attempt)
    return attempts.changes()


def recalled(restored: Mapping[str, bytes], told: Iterable[Event]) -> Mapping[str, bytes | None]:
    """The attempts whose charges in the ledger are ahead of their state, with the revisions that
    were given away: what is charged again follows on them, since accounts and billing let the
    highest revision count."""
    attempts = Attempts(restored)
    for event in told:
        charge = event.payload
        if event.source != SOURCE or not isinstance(charge, ChargeMade):
            continue
        attempt = attempts.get((charge.job_id, charge.attempt))
        if charge.revision > attempt.facts.revision:
            attempt.facts.revision = charge.revision
            attempt.facts.is_open = True
            attempts.save(attempt)
    return attempts.changes()
