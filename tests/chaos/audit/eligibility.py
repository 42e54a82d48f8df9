"""No job starts before it may, nor so late that it would run past its deadline: by what placement
had taken in at the end of the round that decided."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_CORR,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_SINGLETON,
    JOB_OUTCOME_COMPLETED,
    Dependency,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobRequeued,
    JobSeized,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import VERDICT_REJECTED, VERDICT_START, PlacementDecided

from shared.catalogue.event import Event
from tests.chaos.audit.arrays import array_of, tasks_of
from tests.chaos.audit.evidence import Evidence, is_hostile

_STARTED, _COMPLETED, _FAILED = "started", "completed", "failed"
# What meets a condition: a job that is cancelled or rejected has failed.
_MEETS: Final = {
    DEPENDENCY_CONDITION_AFTER: (_STARTED, _COMPLETED, _FAILED),
    DEPENDENCY_CONDITION_AFTER_ANY: (_COMPLETED, _FAILED),
    DEPENDENCY_CONDITION_AFTER_OK: (_COMPLETED,),
    DEPENDENCY_CONDITION_AFTER_CORR: (_COMPLETED,),
    DEPENDENCY_CONDITION_AFTER_NOT_OK: (_FAILED,),
}


@dataclass(slots=True)
class _Happened:
    """What was taken in of jobs: their submissions, when each thing happened to them first, and
    whose start is decided and was not answered."""

    submitted: dict[str, JobSubmitted] = field(default_factory=dict)
    first_us: defaultdict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    open_starts: set[str] = field(default_factory=set)
    had_a_start: set[str] = field(default_factory=set)
    latest_us: int = 0

    def read(self, event: Event) -> None:
        """Fold an event."""
        match event.payload:
            case RoundEnded() as ended if "/forged/" not in event.id:
                # By a clock that was ahead a delay was over that is not yet by the right one.
                self.latest_us = max(self.latest_us, ended.ended_at_us)
            case JobSubmitted() as told:
                self.submitted.setdefault(told.job_id, told)
                self.open_starts -= {told.job_id} if told.attempt > 1 else set()
            case JobStarted() as told:
                self.note(told.job_id, _STARTED, told.started_at_us)
            case JobFinished() as told:
                is_ok = told.outcome == JOB_OUTCOME_COMPLETED
                self.note(told.job_id, _COMPLETED if is_ok else _FAILED, told.ended_at_us)
                if told.started_at_us:
                    self.note(told.job_id, _STARTED, told.started_at_us)
                self.open_starts.discard(told.job_id)
            case JobCancelled() as told:
                self.note(told.job_id, _FAILED, told.cancelled_at_us)
            case JobDeclined() | JobRequeued() | JobSeized() as told:
                self.open_starts.discard(told.job_id)

    def note(self, job_id: str, what: str, at_us: int) -> None:
        """Note that something happened to a job, the first time."""
        known = self.first_us[job_id]
        known[what] = min(at_us, known.get(what, at_us))

    def job_of(self, decided: PlacementDecided) -> JobSubmitted | None:
        """What was submitted as the job of a decision: of a task its array."""
        return self.submitted.get(decided.array_job_id or decided.job_id)

    def is_met(self, job: JobSubmitted, dependency: Dependency, start: PlacementDecided) -> bool:
        """Whether a dependency can be met at the end of a round that starts the job."""
        if dependency.condition == DEPENDENCY_CONDITION_SINGLETON:
            return True
        other = self.submitted.get(dependency.job_id)
        if other is None or other.account != job.account:
            return False
        delay_us = round(dependency.delay_s * 1e6)
        return any(
            not delay_us or at_us + delay_us <= self.latest_us
            for at_us in self._met_us(other, dependency, start)
        )

    def _met_us(
        self, other: JobSubmitted, dependency: Dependency, start: PlacementDecided
    ) -> list[int]:
        """When it may have been met; empty where it is not."""
        condition, meets = dependency.condition, _MEETS[dependency.condition]
        if not other.array:
            return self._times_us(other.job_id, "", meets)
        tasks = tasks_of(other)
        own = f"{other.job_id}_{start.array_index}"
        if condition == DEPENDENCY_CONDITION_AFTER_CORR and start.array_job_id and own in tasks:
            tasks = [own]
        if condition == DEPENDENCY_CONDITION_AFTER_NOT_OK:
            # All have ended, and one of them failed.
            meets = _COMPLETED, _FAILED
            if not any(self._times_us(task, other.job_id, (_FAILED,)) for task in tasks):
                return []
        met = [self._times_us(task, other.job_id, meets) for task in tasks]
        return [max(min(times_us) for times_us in met)] if all(met) else []

    def _times_us(self, job_id: str, array_id: str, meets: Collection[str]) -> list[int]:
        """When any of this happened first to a job, or to a task, which fails with its array."""
        known = self.first_us[job_id]
        failed_us = self.first_us[array_id].get(_FAILED) if array_id else None
        if failed_us is not None and _COMPLETED not in known:
            known = {_FAILED: failed_us, **known}
        return [known[what] for what in meets if what in known]


def no_job_starts_before_it_may(evidence: Evidence) -> Iterator[str]:
    """Not before its begin, nor before what it waits for and the delays after that; nor so late
    that its limit ends behind its deadline."""
    happened = _Happened()
    for barrier in evidence.ends_of_rounds(happened.read):
        decisions = evidence.by_round.get(barrier.round, [])
        for decided in decisions:
            if decided.verdict == VERDICT_REJECTED:
                happened.note(decided.job_id, _FAILED, decided.decided_at_us)
        for decided in decisions:
            job = happened.job_of(decided)
            if decided.verdict != VERDICT_START or job is None or is_hostile(decided.job_id):
                continue
            yield from _too_early_or_late(job, decided)
            # What was met stays met, also for the attempts behind the first.
            if decided.job_id not in happened.had_a_start:
                happened.had_a_start.add(decided.job_id)
                yield from _unmet(happened, job, decided)


def no_singleton_starts_beside_a_job_of_its_name(evidence: Evidence) -> Iterator[str]:
    """No job of its user and name has been started before and not been heard of since. In its own
    round others may start behind it that are no singletons."""
    happened = _Happened()
    for barrier in evidence.ends_of_rounds(happened.read):
        plain: set[str] = set()
        for decided in evidence.by_round.get(barrier.round, []):
            job = happened.job_of(decided)
            if decided.verdict != VERDICT_START or job is None or is_hostile(decided.job_id):
                continue
            is_singleton = [d.condition for d in job.depends_on] == [DEPENDENCY_CONDITION_SINGLETON]
            others = happened.open_starts - plain if is_singleton else ()
            for other in sorted(others):
                named = happened.submitted.get(other) or happened.submitted[array_of(other)]
                if named.job_id != job.job_id and _name(named) == _name(job):
                    yield f"{decided.job_id} in round {decided.round} while {other} may run"
            plain |= {decided.job_id} if not is_singleton else set()
            happened.open_starts.add(decided.job_id)


def _too_early_or_late(job: JobSubmitted, decided: PlacementDecided) -> Iterator[str]:
    at_us, of = decided.decided_at_us, f"{decided.job_id} in round {decided.round}"
    if at_us < job.begin_at_us:
        yield f"{of} starts {job.begin_at_us - at_us} us before its begin"
    late_us = at_us + decided.walltime_s * 1e6 - job.deadline_at_us
    if job.deadline_at_us and late_us > 1:  # of rounding
        yield f"{of} ends {late_us:.0f} us behind its deadline"


def _unmet(happened: _Happened, job: JobSubmitted, decided: PlacementDecided) -> Iterator[str]:
    unmet = [d for d in job.depends_on if not happened.is_met(job, d, decided)]
    is_enough = job.depends_on_any and len(unmet) < len(job.depends_on)
    if unmet and not is_enough:
        of = f"{decided.job_id} in round {decided.round}"
        yield f"{of} starts though {len(unmet)} of {len(job.depends_on)} dependencies are not met"


def _name(job: JobSubmitted) -> tuple[str, str, str]:
    return job.account, job.user, job.job_name
