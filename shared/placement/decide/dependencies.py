"""Jobs that wait for other jobs."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable

from shared.domain.job import Condition, Dependency, JobState
from shared.placement.decide.pending_reason import (
    PendingReason,
    Unmet,
    WaitsForJob,
    WaitsInCircle,
    is_lasting,
)
from shared.placement.state.job_record import JobRecord


class Dependencies:
    """Which job waits for which. Jobs that wait for each other, and those behind them, never
    start."""

    def __init__(self, get: Callable[[str], JobRecord | None]) -> None:
        self._get = get
        self._awaited: dict[str, frozenset[str]] = {}
        self._dependents: dict[str, set[str]] = defaultdict(set)
        self._stuck: frozenset[str] = frozenset()
        self._may_be_stuck = False

    def dependents(self, job_ids: Iterable[str]) -> set[str]:
        """Return the ids of the jobs that wait for one of these."""
        empty: set[str] = set()
        return set().union(*(self._dependents.get(job_id, empty) for job_id in job_ids))

    def settle(self, job: JobRecord) -> bool:
        """Drop what a job need not wait for any more; True when that was something."""
        before = job.life.awaits
        job.life.awaits = tuple(d for d in before if job.waits and self._unmet(job, d) is not None)
        self._watch(job.job.job_id, frozenset(d.job_id for d in job.life.awaits))
        return job.life.awaits != before

    def find_stuck(self) -> set[str]:
        """Look for jobs that wait in a circle; returns the ids of those that were in none before or
        are in none now, and of those that wait for them."""
        if not self._may_be_stuck:
            return set()
        self._may_be_stuck = False
        before, self._stuck = self._stuck, frozenset(self._in_circles())
        news = before ^ self._stuck
        return self.dependents(news) | news

    def pending_reason(self, job: JobRecord) -> PendingReason | None:
        """Return what keeps the job waiting, the hopeless before the rest; None when all is met."""
        unmet = (self._unmet(job, dependency) for dependency in job.life.awaits)
        found: list[PendingReason] = [each for each in unmet if each is not None]
        if job.job.job_id in self._stuck:
            seen = (each for each in self._awaited[job.job.job_id] & self._stuck)
            circle = min(each for each in seen if self._sees(job.job.job_id, each))
            found.append(WaitsInCircle(circle))
        return max(found, key=is_lasting, default=None)

    def _watch(self, job_id: str, awaited: frozenset[str]) -> None:
        before = self._awaited.pop(job_id, frozenset())
        if awaited:
            self._awaited[job_id] = awaited
        for other in awaited:
            self._dependents[other].add(job_id)
        for other in before - awaited:
            self._dependents[other].discard(job_id)
            if not self._dependents[other]:
                del self._dependents[other]
        # A circle closes only at a job that others wait for already, and grows behind itself.
        closes = bool(awaited) and job_id in self._dependents
        self._may_be_stuck |= closes or not self._stuck.isdisjoint({job_id, *awaited})

    def _unmet(self, job: JobRecord, dependency: Dependency) -> PendingReason | None:
        job_id, condition = dependency.job_id, dependency.condition
        awaited = self._get(job_id)
        if awaited is None or not job.may_see(awaited):
            return WaitsForJob(job_id, condition, Unmet.NOT_ELIGIBLE)
        if not awaited.ended:
            return WaitsForJob(job_id, condition, Unmet.NOT_ENDED)
        if condition is Condition.AFTER_ANY or awaited.life.completed:
            return None
        is_rejected = awaited.life.state is JobState.REJECTED
        return WaitsForJob(job_id, condition, Unmet.REJECTED if is_rejected else Unmet.FAILED)

    def _in_circles(self) -> set[str]:
        """Return what is left when all that may still be met is taken away, again and again
        (Kahn)."""
        open_ends = {
            job_id: sum(other in self._awaited and self._sees(job_id, other) for other in awaited)
            for job_id, awaited in self._awaited.items()
        }
        free = deque(job_id for job_id, count in open_ends.items() if not count)
        while free:
            job_id = free.popleft()
            del open_ends[job_id]
            for dependent in self._dependents.get(job_id, ()):
                if dependent not in open_ends or not self._sees(dependent, job_id):
                    continue
                open_ends[dependent] -= 1
                if not open_ends[dependent]:
                    free.append(dependent)
        return set(open_ends)

    def _sees(self, job_id: str, other: str) -> bool:
        job, awaited = self._get(job_id), self._get(other)
        return job is not None and awaited is not None and job.may_see(awaited)
