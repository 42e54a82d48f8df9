"""Jobs that wait for other jobs."""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable
from math import inf

from shared.domain.array_tasks import as_task
from shared.domain.job import JobState
from shared.placement.decide.awaited_conditions import AwaitedConditions
from shared.placement.decide.pending_reason import PendingReason, WaitsInCircle, is_lasting
from shared.placement.decide.same_names import SameNames
from shared.placement.decide.start_times import StartTimes
from shared.placement.state.job_record import JobRecord


class Dependencies:
    """Which job waits for which. Jobs that wait for each other, and those behind them, never
    start."""

    def __init__(self, get: Callable[[str], JobRecord | None], times: StartTimes) -> None:
        self._get, self._times = get, times
        self._same_names = SameNames(get)
        self._conditions = AwaitedConditions(get, times, self._same_names)
        self._awaited: dict[str, frozenset[str]] = {}
        self._dependents: dict[str, set[str]] = defaultdict(set)
        self._stuck: frozenset[str] = frozenset()
        self._may_be_stuck = False

    def dependents(self, job_ids: Iterable[str]) -> set[str]:
        """Return the ids of the jobs that wait for one of these."""
        empty: set[str] = set()
        return set().union(*(self._dependents.get(job_id, empty) for job_id in job_ids))

    def note(self, job_ids: Collection[str]) -> set[str]:
        """Note what became of jobs that others of the same name wait for; return the ids of the
        singletons that may wait for another one now."""
        affected = self._same_names.note(job_ids) | self.dependents(job_ids)
        return {job_id for job_id in affected if self._is_singleton(job_id)}

    def settle(self, job: JobRecord) -> bool:
        """Drop what a job need not wait for any more, and note when delays end, and which tasks of
        an array may start; True when that was something."""
        before = after = job.life.awaits
        met_before = dict(job.progress.met) if job.progress is not None else {}
        if job.waits:
            after = tuple(
                each for d in before if (each := self._conditions.settled(job, d)) is not None
            )
            is_enough = job.job.depends_on_any and len(after) < len(before)
            after = () if is_enough else after
        elif job.life.state not in (JobState.GRANTED, JobState.SPLIT):  # else it may wait again
            after = tuple(d for d in before if d.is_singleton)
        job.life.awaits = after
        self._watch(job.job.job_id, self._watched(job) if job.waits else frozenset())
        has_met = job.progress is not None and job.progress.met != met_before
        return after != before or has_met

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
        """Return what keeps the job waiting, the hopeless before the rest; None when all is met, or
        one where that is enough."""
        if not job.life.awaits:
            return None
        unmet = (self._conditions.unmet(job, dependency) for dependency in job.life.awaits)
        found: list[PendingReason] = [each for each in unmet if each is not None]
        is_any = job.job.depends_on_any
        if is_any and len(found) < len(job.life.awaits):
            return None
        job_id = job.job.job_id
        if job_id in self._stuck:
            stuck = self._awaited[job_id] & self._stuck
            circle = min(each for each in stuck if self._sees(job_id, each))
            found.append(WaitsInCircle(circle))
            return max(found, key=is_lasting)
        if not found:
            return min(self._conditions.unmet_together(job), key=is_lasting, default=None)
        return (min if is_any else max)(found, key=is_lasting, default=None)

    def has_met(self, job: JobRecord) -> bool:
        """Return whether a condition is met that all of a job waits for, tasks and all: none of
        those of tasks on tasks."""
        whole = (each for each in job.life.awaits if not each.is_of_tasks)
        return any(self._conditions.unmet(job, each) is None for each in whole)

    def due_s(self, job: JobRecord) -> float:
        """Return when the next delay ends that a job waits for; infinite without any."""
        if not job.life.awaits:
            return inf
        due_s = (d.due_s for d in job.life.awaits if d.due_s is not None)
        return min((each for each in due_s if each > self._times.now_s), default=inf)

    def _is_singleton(self, job_id: str) -> bool:
        job = self._get(job_id)
        return job is not None and any(each.is_singleton for each in job.life.awaits)

    def _watched(self, job: JobRecord) -> frozenset[str]:
        """Return the jobs that a waiting job waits for: not those that it outwaits a delay of."""
        named = {d.job_id for d in job.life.awaits if not d.is_singleton and d.due_s is None}
        # A task that is no job of its own changes with its array.
        left = (as_task(each) for each in named if self._get(each) is None)
        named |= {task[0] for task in left if task is not None}
        if any(d.is_singleton for d in job.life.awaits):
            awaited = self._same_names.awaited(job)
            named |= {awaited} if awaited is not None else set()
        return frozenset(named)

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

    def _in_circles(self) -> set[str]:
        """Return what is left when all that may still be met is taken away, again and again
        (Kahn)."""
        open_ends = {job_id: self._open_ends(job_id) for job_id in self._awaited}
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

    def _open_ends(self, job_id: str) -> int:
        """Return how many of the jobs that a job waits for must come free of others first."""
        awaited, job = self._awaited[job_id], self._get(job_id)
        count = sum(other in self._awaited and self._sees(job_id, other) for other in awaited)
        if job is None or not job.job.depends_on_any:
            return count
        is_open = any(self._conditions.unmet(job, each) is None for each in job.life.awaits)
        has_time = any(each.due_s is not None for each in job.life.awaits)
        return 0 if is_open or has_time else int(count == len(awaited))

    def _sees(self, job_id: str, other: str) -> bool:
        job, awaited = self._get(job_id), self._get(other)
        return job is not None and awaited is not None and job.may_see(awaited)
