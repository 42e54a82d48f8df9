"""What pricing remembers of each attempt of a job, and its form in the changelog."""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.pricing_state_pb2 import (
    CoRunInterval,
    PostedSurcharge,
    PricedAttempt,
    PricingState,
)

from services.pricing.charge import charged_micro_su
from services.pricing.model import CoRun
from shared.domain.job import JobState
from shared.models.shutters import Interference

AttemptKey = tuple[str, int]


@dataclass(slots=True)
class Attempt:
    """One attempt: its facts, and its intervals beside co-runners by the event of each."""

    facts: PricedAttempt
    intervals: dict[str, CoRunInterval] = field(default_factory=dict)

    @property
    def key(self) -> AttemptKey:
        """Return job and attempt, by which charges name it."""
        return self.facts.job_id, self.facts.attempt

    @property
    def state(self) -> JobState:
        """Return its state in the transition table."""
        return JobState(self.facts.state)

    @property
    def is_settled(self) -> bool:
        """Return whether it is known, or will be at the round's end, when it is forgotten."""
        return self.facts.is_open or bool(self.facts.forget_due_us)

    def co_runs(self, *, with_accounts: bool) -> Iterator[CoRun]:
        """Yield its intervals in the model's terms."""
        for found in self.intervals.values():
            measured = Interference(
                found.slowdown_ratio, found.shutters_used, found.shutters_dropped
            )
            times_us = found.began_at_us, found.ended_at_us
            account = found.co_runner_account if with_accounts else ""
            yield CoRun(found.co_runner_job_id, *times_us, measured, account)

    def accounts(self) -> Mapping[str, str]:
        """Return the accounts of its co-runners, where all intervals beside one agree."""
        told: dict[str, set[str]] = defaultdict(set)
        for found in self.intervals.values():
            told[found.co_runner_job_id].add(found.co_runner_account)
        return {name: accounts.pop() for name, accounts in told.items() if len(accounts) == 1}

    def hold_to(self, charge: ChargeMade) -> None:
        """Set the charge that is in force."""
        facts, [own, *put_on] = self.facts, charged_micro_su(charge)
        facts.charged_account, facts.charged_micro_su = own
        facts.tariff, facts.tariff_version = charge.tariff, charge.tariff_version
        del facts.surcharges[:]
        facts.surcharges.extend(
            PostedSurcharge(account=account, micro_su=micro_su) for account, micro_su in put_on
        )

    @property
    def is_charged(self) -> bool:
        """Return whether it was charged, and is not about to be charged again."""
        facts = self.facts
        return bool(facts.revision) and not (facts.is_open or facts.charge_due_us)


class Attempts:
    """The attempts of one unit, and what changed since `changes` was last asked."""

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        self._attempts: dict[AttemptKey, Attempt] = {}
        self._of_jobs: dict[str, set[int]] = defaultdict(set)
        self._changes: dict[str, bytes | None] = {}
        self._saved: set[AttemptKey] = set()
        self._nameless: dict[str, set[AttemptKey]] = defaultdict(set)
        for value in restored.values():
            self._restore(PricingState.FromString(value))
        for job_id, number in self._attempts:
            self._of_jobs[job_id].add(number)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self._attempts.values())

    def knows(self, job_id: str) -> bool:
        """Return whether an attempt of the job was submitted, and is not forgotten."""
        return any(a.state is not JobState.UNKNOWN for a in self.of_job(job_id))

    def of_job(self, job_id: str) -> list[Attempt]:
        """Return what is remembered of a job, by attempt."""
        return [self._attempts[job_id, n] for n in sorted(self._of_jobs.get(job_id, ()))]

    def knows_after(self, key: AttemptKey) -> bool:
        """Return whether a later attempt of the job was submitted."""
        job_id, number = key
        return any(
            later.facts.attempt > number and later.state is not JobState.UNKNOWN
            for later in self.of_job(job_id)
        )

    def get(self, key: AttemptKey) -> Attempt:
        """Return the attempt; a new one, that is not yet remembered, when nothing is known of
        it."""
        return self._attempts.get(key) or _unknown(key)

    def save(self, attempt: Attempt) -> None:
        """Remember the attempt, with its facts as they will be when `changes` is asked: they change
        several times a round, and are written once."""
        key = job_id, number = attempt.key
        self._attempts[key] = attempt
        self._of_jobs[job_id].add(number)
        self._saved.add(key)

    def add_interval(self, attempt: Attempt, interval: CoRunInterval) -> None:
        """Remember one more interval of the attempt, and whose its co-runner is where one alone was
        beside it and is known."""
        if interval.co_runners == 1:
            interval.co_runner_account = self._account_of(interval.co_runner_job_id)
        attempt.intervals[interval.event_id] = interval
        self._save_interval(attempt, interval)

    def name_account(self, co_runner_job_id: str) -> list[Attempt]:
        """Note whose a job is in the intervals that were published before it; the attempts of
        these."""
        account = self._account_of(co_runner_job_id)
        if not account:
            return []
        keys = sorted(self._nameless.pop(co_runner_job_id, ()))
        attempts = [self._attempts[key] for key in keys if key in self._attempts]
        for attempt in attempts:
            for interval in attempt.intervals.values():
                if _is_nameless(interval) and interval.co_runner_job_id == co_runner_job_id:
                    interval.co_runner_account = account
                    self._save_interval(attempt, interval)
        return attempts

    def _account_of(self, job_id: str) -> str:
        """Empty for a job of which nothing is known."""
        told = (attempt.facts.submitted.account for attempt in self.of_job(job_id))
        return next(filter(None, told), "")

    def _save_interval(self, attempt: Attempt, interval: CoRunInterval) -> None:
        if _is_nameless(interval):
            self._nameless[interval.co_runner_job_id].add(attempt.key)
        state = PricingState(interval=interval)
        self._changes[_interval_key(attempt.key, interval.event_id)] = state.SerializeToString()

    def forget(self, attempt: Attempt) -> None:
        """Drop all that is known of the attempt."""
        job_id, number = attempt.key
        del self._attempts[attempt.key]
        self._saved.discard(attempt.key)
        self._of_jobs[job_id].discard(number)
        if not self._of_jobs[job_id]:
            del self._of_jobs[job_id]
        self._changes[_facts_key(attempt.key)] = None
        for event_id, interval in attempt.intervals.items():
            self._nameless[interval.co_runner_job_id].discard(attempt.key)
            if not self._nameless[interval.co_runner_job_id]:
                del self._nameless[interval.co_runner_job_id]
            self._changes[_interval_key(attempt.key, event_id)] = None

    def changes(self) -> Mapping[str, bytes | None]:
        """Return what changed since the last call, by changelog key."""
        for key in sorted(self._saved):
            state = PricingState(attempt=self._attempts[key].facts)
            self._changes[_facts_key(key)] = state.SerializeToString()
        self._saved.clear()
        changes, self._changes = self._changes, {}
        return changes

    def _restore(self, state: PricingState) -> None:
        if not (state.HasField("attempt") or state.HasField("interval")):
            return
        found = state.attempt if state.HasField("attempt") else state.interval
        key = (found.job_id, found.attempt)
        attempt = self._attempts.setdefault(key, _unknown(key))
        if isinstance(found, PricedAttempt):
            attempt.facts.CopyFrom(found)
        else:
            attempt.intervals[found.event_id] = found
            if _is_nameless(found):
                self._nameless[found.co_runner_job_id].add(key)


def _unknown(key: AttemptKey) -> Attempt:
    job_id, number = key
    return Attempt(PricedAttempt(job_id=job_id, attempt=number, state=JobState.UNKNOWN))


def _is_nameless(interval: CoRunInterval) -> bool:
    """Whether nobody said so far whose its co-runner is; beside several nobody ever does, since
    shutters show only what all of them cost."""
    return interval.co_runners == 1 and not interval.co_runner_account


def _facts_key(key: AttemptKey) -> str:
    return "\n".join(("attempt", key[0], str(key[1])))


def _interval_key(key: AttemptKey, event_id: str) -> str:
    return "\n".join(("interval", key[0], str(key[1]), event_id))


class Agenda:
    """Attempts by the time at which something is due; what was put off stays in and is skipped."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, AttemptKey]] = []

    def add(self, due_us: int, key: AttemptKey) -> None:
        """Note that something is due for `key` at `due_us`; 0 means that nothing is."""
        if due_us:
            heapq.heappush(self._heap, (due_us, key))

    def take(self, now_us: int) -> Iterator[tuple[int, AttemptKey]]:
        """Remove and return what is due at `now_us`."""
        while self._heap and self._heap[0][0] <= now_us:
            yield heapq.heappop(self._heap)
