"""Jobs that one user gave one name, in their order: what a singleton waits for."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from shared.domain.array_tasks import as_task
from shared.domain.job import Job
from shared.domain.natural_order import NaturalKey, natural
from shared.placement.state.job_record import JobRecord


class SharedName(NamedTuple):
    """What jobs have in common that a singleton waits for. The account is part of it, since no job
    sees those of another account."""

    account: str
    user: str
    job_name: str


class NamedJob(NamedTuple):
    """A job that waits, in its place among those of one name: by the sequence of its resource
    manager, else by arrival."""

    sequence: NaturalKey
    arrival: int
    job_id: str


class NameState(NamedTuple):
    """The name of a job that has not ended, and its place among those that wait: without one where
    it started. A task that waits again has started with its array."""

    name: SharedName
    place: NamedJob | None
    waits_again: bool = False


class SameNames:
    """Which jobs of each name wait, in order, and which hold nodes or may start at any moment; and
    which tasks wait again."""

    def __init__(self, get: Callable[[str], JobRecord | None]) -> None:
        self._get = get
        self._waiting: dict[SharedName, list[NamedJob]] = defaultdict(list)
        self._started: dict[SharedName, set[str]] = defaultdict(set)
        self._again: dict[SharedName, set[str]] = defaultdict(set)
        self._known: dict[str, NameState] = {}

    def note(self, job_ids: Iterable[str]) -> set[str]:
        """Note what became of these jobs; return the ids of the singletons that may wait for
        another job now."""
        affected: set[str] = set()
        for job_id in job_ids:
            job, before = self._get(job_id), self._known.get(job_id)
            now = _situation(job) if job is not None else None
            if now != before:
                self._leave(job_id, before)
                affected |= self._enter(job_id, now)
                names = {known.name for known in (before, now) if known is not None}
                for name in names:
                    affected.update(self._first(name), self._again.get(name, ()))
        return affected

    def awaited(self, job: JobRecord) -> str | None:
        """Return the job before this one that a singleton waits for: the one right before it that
        waits, else one that has started; None where it may start. A task that waits again is behind
        none that waits."""
        name, array_id = name_of(job.job), job.job.array_id
        waiting = self._waiting.get(name, [])
        at = 0 if array_id else bisect_left(waiting, _place(job))
        if at:
            return waiting[at - 1].job_id
        own = array_id or job.job.job_id
        others = self._started.get(name, set()) - {own}
        # Tasks of one array do not wait for each other.
        if array_id or job.progress is not None:
            others = {each for each in others if not _is_task_of(each, own)}
        return min(others, default=None)

    def _enter(self, job_id: str, now: NameState | None) -> set[str]:
        """Add a job; return the one right behind it, which has another one before it now."""
        if now is None:
            return set()
        self._known[job_id] = now
        name, place, waits_again = now
        if place is None:
            (self._again if waits_again else self._started)[name].add(job_id)
            return set()
        waiting = self._waiting[name]
        insort(waiting, place)
        at = bisect_left(waiting, place)
        return {each.job_id for each in waiting[at : at + 2]}

    def _leave(self, job_id: str, before: NameState | None) -> None:
        if before is None:
            return
        del self._known[job_id]
        name, place, waits_again = before
        if place is None:
            (self._again if waits_again else self._started)[name].discard(job_id)
        else:
            del self._waiting[name][bisect_left(self._waiting[name], place)]
        for table in (self._started, self._waiting, self._again):
            if not table[name]:
                del table[name]

    def _first(self, name: SharedName) -> list[str]:
        """Return the first job of a name that waits."""
        return [place.job_id for place in self._waiting.get(name, ())[:1]]


def name_of(job: Job) -> SharedName:
    """Return what the other jobs have in common that a singleton waits for."""
    return SharedName(job.account, job.user, job.job_name)


def _situation(job: JobRecord) -> NameState | None:
    """Return None where a job has no name or no start of it is expected. The place of a task that
    waits again is that of its array."""
    if job.ended or not job.job.job_name:
        return None
    waits_again = bool(job.job.array_id) and job.waits
    place = _place(job) if job.waits and not waits_again else None
    return NameState(name_of(job.job), place, waits_again)


def _is_task_of(job_id: str, array_id: str) -> bool:
    named = as_task(job_id)
    return named is not None and named[0] == array_id


def _place(job: JobRecord) -> NamedJob:
    return NamedJob(natural(job.job.sequence), job.arrival, job.job.job_id)
