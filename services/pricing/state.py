"""What pricing remembers of each attempt of a job, as rows of its state."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted
from coplace.v1.pricing_pb2 import ChargeMade

from services.pricing.runs import CoRunTime, KeptRequeue, KeptRun, run_of_finish, time_together
from shared.domain.job import JobState
from shared.domain.plausible_power import most_energy_j
from shared.models.shutters import Interference
from shared.pricing.charge import AttemptEnd, charged_micro_su
from shared.pricing.model import CoRun
from shared.streams.state.rows import RowCodec
from shared.streams.state.state import State

AttemptKey = tuple[str, int]


class KeptPosting(NamedTuple):
    """What a charge puts on an account, 0.000001 SU."""

    account: str
    micro_su: int


@dataclass(slots=True)
class CoRunInterval:
    """One interval that an attempt ran beside a co-runner, by the event that measured it.

    `co_runners` are the jobs that were beside it, of which one is named. `co_runner_account` is
    empty while nobody said whose that is, and beside several."""

    job_id: str
    attempt: int
    event_id: str
    co_runner_job_id: str
    began_at_us: int
    ended_at_us: int
    slowdown_ratio: float
    shutters_used: int
    shutters_dropped: int
    co_runners: int
    co_runner_account: str = ""

    @property
    def is_nameless(self) -> bool:
        """Return whether nobody said so far whose its co-runner is; beside several nobody ever
        does, since shutters show only what all of them cost."""
        return self.co_runners == 1 and not self.co_runner_account


@dataclass(slots=True)
class Attempt:
    """One attempt on its way to its price, and until it is forgotten.

    `submitted` is what pricing needs of its submission, `traceparent` the trace of the event
    that finished it. `revision` is the last that was charged, 0 before the first. What is due at
    the first round that ends at or after `charge_due_us` and `forget_due_us` is not due where these
    are 0; while it `is_open` the next round's end decides on both. `reserved_micro_su` is of its
    account, while it runs; `charged` is the charge in force, its own first and then what is put on
    co-runners. `tariff` is the one by which it was charged last or was asked to be charged again;
    empty: the one in force when it started. `ran` is where it ran, and `requeues` are reports
    that it was requeued while that was not known. `intervals`, by event, are rows of their own.
    """

    job_id: str
    attempt: int
    state: JobState = JobState.UNKNOWN
    submitted: JobSubmitted | None = None
    finished: JobFinished | None = None
    traceparent: str = ""
    revision: int = 0
    charge_due_us: int = 0
    forget_due_us: int = 0
    is_open: bool = False
    reserved_micro_su: int = 0
    charged: tuple[KeptPosting, ...] = ()
    tariff: str = ""
    tariff_version: int = 0
    node_failed: bool = False
    requeued: bool = False
    ran: KeptRun | None = None
    requeues: tuple[KeptRequeue, ...] = ()
    intervals: dict[str, CoRunInterval] = field(default_factory=dict)

    @property
    def key(self) -> AttemptKey:
        """Return job and attempt, by which charges name it."""
        return self.job_id, self.attempt

    @property
    def account(self) -> str:
        """Return whose it is by its submission; empty where that is not known."""
        return self.submitted.account if self.submitted else ""

    @property
    def is_settled(self) -> bool:
        """Return whether it was published, or will be at the round's end, when it is forgotten."""
        return self.is_open or bool(self.forget_due_us)

    def believe(self) -> bool:
        """Take in what the holder of the run said of its end; return whether that changed it."""
        if self.ran is None or not self.requeues:
            return False
        before = self.requeued, self.node_failed
        for requeue in filter(self.ran.holds, self.requeues):
            self.requeued = True
            self.node_failed |= self.ran.has_nodes(requeue.failed_nodes)
            self.ran = self.ran.ended_by(requeue)
        self.requeues = ()
        return (self.requeued, self.node_failed) != before

    def co_runs(
        self, intervals: Iterable[CoRunInterval], *, with_accounts: bool
    ) -> Iterator[CoRun]:
        """Yield some of its intervals in the model's terms."""
        for found in intervals:
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
        """Take the charge as the one in force."""
        self.charged = tuple(KeptPosting(*each) for each in charged_micro_su(charge))
        self.tariff, self.tariff_version = charge.tariff, charge.tariff_version

    @property
    def is_charged(self) -> bool:
        """Return whether it was charged, and is not about to be charged again."""
        return bool(self.revision) and not (self.is_open or self.charge_due_us)


# The fields of the version before, in their order: it did not know where attempts ran.
_ATTEMPTS_BEFORE: Final = (
    *("job_id", "attempt", "state", "submitted", "finished", "traceparent", "revision"),
    *("charge_due_us", "forget_due_us", "is_open", "reserved_micro_su", "charged", "tariff"),
    *("tariff_version", "node_failed", "requeued"),
)
_ATTEMPTS: Final = RowCodec(
    Attempt,
    version=2,
    previous=RowCodec(Attempt, only=_ATTEMPTS_BEFORE).decode,
    without=("intervals",),
)


class Attempts:
    """The attempts of one unit."""

    def __init__(self, state: State) -> None:
        self._attempts = state.table("attempt", _ATTEMPTS)
        self._intervals = state.table("interval", CoRunInterval)
        # What a node was predicted to draw for an attempt whose energy is not believed, W.
        self._predicted_w = state.table("predicted-power", float)
        self._of_jobs: dict[str, set[int]] = defaultdict(set)
        self._nameless: dict[str, set[AttemptKey]] = defaultdict(set)
        self._beside: dict[str, set[AttemptKey]] = defaultdict(set)
        for attempt in self._attempts.values():
            if attempt.ran is None and attempt.finished is not None:  # of an earlier release
                attempt.ran = run_of_finish(attempt.finished, None)
            self._of_jobs[attempt.job_id].add(attempt.attempt)
        for interval in self._intervals.values():
            key = interval.job_id, interval.attempt
            self._attempts[_key_of(*key)].intervals[interval.event_id] = interval
            self._beside[interval.co_runner_job_id].add(key)
            if interval.is_nameless:
                self._nameless[interval.co_runner_job_id].add(key)

    def __iter__(self) -> Iterator[Attempt]:
        return self._attempts.values()

    def knows(self, job_id: str) -> bool:
        """Return whether an attempt of the job was submitted, and is not forgotten."""
        return any(a.state is not JobState.UNKNOWN for a in self.of_job(job_id))

    def of_job(self, job_id: str) -> list[Attempt]:
        """Return what is remembered of a job, by attempt."""
        numbers = sorted(self._of_jobs.get(job_id, ()))
        return [self._attempts[_key_of(job_id, number)] for number in numbers]

    def beside(self, job_id: str) -> list[Attempt]:
        """Return the attempts that somebody says ran beside a job."""
        return [self.get(key) for key in sorted(self._beside.get(job_id, ()))]

    def together(self, attempt: Attempt) -> list[CoRunInterval]:
        """Return the intervals of an attempt, as far as both jobs were on a node in them by what
        their resource managers say: an agent alone is not believed."""
        found = ((each, self._time_together(attempt, each)) for each in attempt.intervals.values())
        return [replace(each, **time._asdict()) for each, time in found if time is not None]

    def _time_together(self, attempt: Attempt, interval: CoRunInterval) -> CoRunTime | None:
        measured = CoRunTime(interval.began_at_us, interval.ended_at_us)
        others = (each.ran for each in self.of_job(interval.co_runner_job_id))
        return time_together(attempt.ran, others, measured)

    def get(self, key: AttemptKey) -> Attempt:
        """Return the attempt; a new one, that is not yet remembered, when nothing is known of
        it."""
        return self._attempts.get(_key_of(*key)) or Attempt(*key)

    def save(self, attempt: Attempt) -> None:
        """Remember the attempt, or that it changed."""
        self._attempts.put(_key_of(*attempt.key), attempt)
        self._of_jobs[attempt.job_id].add(attempt.attempt)

    def predict(self, attempt: Attempt, node_power_w: float) -> bool:
        """Remember what was predicted of a run; False where something is remembered already."""
        key = _key_of(*attempt.key)
        if key in self._predicted_w:
            return False
        self.save(attempt)
        self._predicted_w.put(key, node_power_w)
        return True

    def predicted_j(self, end: AttemptEnd, most_node_w: float) -> float:
        """Return the energy that was predicted of a run, J, as far as its nodes can draw it; 0
        where what was reported counts."""
        node_w = self._predicted_w.get(_key_of(end.finished.job_id, end.finished.attempt)) or 0.0
        return most_energy_j(
            min(node_w, most_node_w), end.finished.nodes, end.usage.runtime_us / 1e6
        )

    def add_interval(self, attempt: Attempt, interval: CoRunInterval) -> None:
        """Remember one more interval of the attempt, and whose its co-runner is where one alone was
        beside it and is known."""
        if interval.co_runners == 1:
            interval.co_runner_account = self._account_of(interval.co_runner_job_id)
        if interval.is_nameless:
            self._nameless[interval.co_runner_job_id].add(attempt.key)
        self._beside[interval.co_runner_job_id].add(attempt.key)
        attempt.intervals[interval.event_id] = interval
        self._intervals.put(_key_of(*attempt.key, interval.event_id), interval)

    def name_account(self, co_runner_job_id: str) -> list[Attempt]:
        """Note whose a job is in the intervals that were published before it; the attempts of
        these."""
        account = self._account_of(co_runner_job_id)
        if not account:
            return []
        keys = sorted(self._nameless.pop(co_runner_job_id, ()))
        attempts = [self.get(key) for key in keys]
        for attempt in attempts:
            for interval in attempt.intervals.values():
                if interval.is_nameless and interval.co_runner_job_id == co_runner_job_id:
                    interval.co_runner_account = account
                    self._intervals.changed(_key_of(*attempt.key, interval.event_id))
        return attempts

    def submission_of(self, job_id: str) -> JobSubmitted | None:
        """Return what is kept of the job's submission; None where nobody submitted it so far."""
        return next(filter(None, (each.submitted for each in self.of_job(job_id))), None)

    def _account_of(self, job_id: str) -> str:
        """Empty for a job of which nothing is known."""
        submitted = self.submission_of(job_id)
        return submitted.account if submitted else ""

    def forget(self, attempt: Attempt) -> None:
        """Drop all that is known of the attempt."""
        self._attempts.drop(_key_of(*attempt.key))
        if _key_of(*attempt.key) in self._predicted_w:
            self._predicted_w.drop(_key_of(*attempt.key))
        self._of_jobs[attempt.job_id].discard(attempt.attempt)
        if not self._of_jobs[attempt.job_id]:
            del self._of_jobs[attempt.job_id]
        for interval in attempt.intervals.values():
            self._beside[interval.co_runner_job_id].discard(attempt.key)
            if not self._beside[interval.co_runner_job_id]:
                del self._beside[interval.co_runner_job_id]
            self._nameless[interval.co_runner_job_id].discard(attempt.key)
            if not self._nameless[interval.co_runner_job_id]:
                del self._nameless[interval.co_runner_job_id]
            self._intervals.drop(_key_of(*attempt.key, interval.event_id))


def _key_of(job_id: str, *rest: object) -> str:
    """The key of a row: no id has lines."""
    return "\n".join((job_id, *map(str, rest)))


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
