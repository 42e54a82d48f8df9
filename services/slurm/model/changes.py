"""What users and operators change on jobs that wait in Slurm: pure.

A job whose terms were changed is submitted with its new ones, as of that moment. One of which that
can't be followed is held with what was changed, until somebody changes it back. Holds and nice
values are orders, which follow.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final, NamedTuple

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    HOLDER_MANAGER,
    HOLDER_USER,
    Holder,
    JobHeld,
    JobPrioritized,
    JobReleased,
    JobSubmitted,
)

from coplace_client.facts import fact, job_fact
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.waiting_terms import (
    DependsOnOthers,
    Terms,
    terms_of,
    what_changed,
    when_of,
)
from shared.domain.array_tasks import as_task

CHANGED: Final = "changed in Slurm"
_CHANGED_BEFORE: Final = f"{CHANGED} before this process began: coplace release lets it in"
HELD_BY_USER: Final = "held by its user, who lets it in with scontrol release"
_NOTHING: Final[Mapping[str, JobSubmitted]] = {}


class WaitingTerms(NamedTuple):
    """A job that waits, by what was said of it: its terms, which are followed since
    `changed_at_us`, since when its user holds it, and what was `changed` that is not followed."""

    terms: Terms
    priority: int
    held_at_us: int = 0
    changed: str = ""
    changed_at_us: int = 0


class WaitingChanges:
    """Compares jobs that wait from look to look, the first with what a process before `kept`.

    `unrecorded` are those that were submitted and of which nothing was kept. Of these
    `held_by_user` are held for that by what was said before, and `held_changed` for what was
    changed: what they were before is not known any more, so that only a release in Coplace lets
    these in.
    """

    def __init__(self, source: str, kept: Mapping[str, WaitingTerms] | None = None) -> None:
        self._source = source
        self._known: Mapping[str, WaitingTerms] = kept or {}
        self._next: dict[str, WaitingTerms] = {}
        self._waiting: Mapping[str, SlurmJob] = {}
        # The jobs as they were then.
        self._shown: Mapping[str, SlurmJob] = {}
        # Arrays that this look submits with other terms.
        self._anew_now: set[str] = set()
        self._is_first = True
        self.unrecorded: Set[str] = frozenset()
        self.held_by_user: frozenset[str] = frozenset()
        self.held_changed: frozenset[str] = frozenset()

    @property
    def known(self) -> Mapping[str, WaitingTerms]:
        """Return what was said of jobs that wait, by their ids."""
        return self._known

    def held_at_us(self, job_id: str) -> int:
        """Return when it was published that the user of a job holds it, or of its array; 0: it was
        not, or he does not."""
        found = self._known.get(job_id) or self._of_array(job_id)
        return found.held_at_us if found is not None else 0

    def changed_at_us(self, job_id: str) -> int:
        """Return when it was published that the terms of a job are others, or those of its array;
        0: it was not."""
        both = self._known.get(job_id), self._of_array(job_id)
        return max((each.changed_at_us for each in both if each is not None), default=0)

    def is_followed(self, job_id: str) -> bool:
        """Return whether a job waited at the look before, and has what is said of it."""
        found = self._known.get(job_id)
        return found is not None and not found.changed and not self._is_first

    def knows(self, job_id: str) -> bool:
        """Return whether a job waited at the look before."""
        return job_id in self._known

    def events(
        self,
        waiting: Mapping[str, SlurmJob],
        at_us: int,
        asked: Mapping[str, JobSubmitted] = _NOTHING,
        depends_on_others: DependsOnOthers = lambda _job, _before: True,
    ) -> list[Envelope]:
        """Return what to publish of jobs that wait, by their ids; `asked` is how those would be
        submitted now of which changes can be followed."""
        self._next, self._waiting, self._anew_now = {}, waiting, set()
        # An array before its tasks: what is said of it anew is said of all that wait.
        arrays_first = sorted(waiting.items(), key=lambda each: each[1].is_task)
        return [
            event
            for job_id, job in arrays_first
            for event in self._of(job_id, job, at_us, asked.get(job_id), depends_on_others)
        ]

    def confirm(self) -> None:
        """Remember what was published."""
        self._known, self._shown, self._is_first = self._next, self._waiting, False
        self.held_by_user = self.held_changed = self.unrecorded = frozenset()

    def _of(
        self,
        job_id: str,
        job: SlurmJob,
        at_us: int,
        asked: JobSubmitted | None,
        depends_on_others: DependsOnOthers,
    ) -> Iterator[Envelope]:
        known = self._known.get(job_id) or self._as_array(job_id, job)
        is_of_changed = job.is_task and _array_of(job_id) in self._anew_now
        is_as_shown = known is not None and self._shown.get(job_id) == job
        if known is not None and is_as_shown and not (known.changed or is_of_changed):
            self._next[job_id] = known
            return
        first = known or self._at_first(job_id, job, at_us)
        terms, changed_at_us = terms_of(job), first.changed_at_us
        names = what_changed(job, first.terms, terms, at_us / 1e6, depends_on_others)
        changed = _in_words(names)
        if first.changed == _CHANGED_BEFORE:
            changed = _CHANGED_BEFORE
        is_unknown = known is None and self._is_unrecorded(job_id) and not job.has_decided_terms
        if asked is not None and (changed or is_unknown or is_of_changed):
            # Newer than what is said of its array at this look.
            changed, changed_at_us = "", at_us + job.is_task
            yield self._anew(asked, changed_at_us)
            self._anew_now.add(job_id)
        by_user = HELD_BY_USER if job.is_held_by_user else ""
        held_before = HELD_BY_USER if first.held_at_us else ""
        since_us = _since_us(job, at_us) if known is None or self._is_first else at_us
        yield from self._held(job_id, HOLDER_USER, held_before, by_user, since_us)
        yield from self._held(job_id, HOLDER_MANAGER, first.changed, changed, at_us)
        if job.priority != first.priority:
            order = JobPrioritized(job_id=job_id, priority=job.priority, reason="nice in Slurm")
            order.prioritized_at_us = at_us
            yield self._fact(order, at_us)
        held_at_us = (first.held_at_us or at_us) if by_user else 0
        as_before = first.terms if changed else terms
        self._next[job_id] = WaitingTerms(
            as_before, job.priority, held_at_us, changed, changed_at_us
        )

    def _as_array(self, job_id: str, job: SlurmJob) -> WaitingTerms | None:
        """Return a task as its array was: it is shown by itself once it is released, or changed.
        Slurm says in other words when it may start."""
        of = self._of_array(job_id)
        return of and of._replace(terms={**of.terms, **when_of(job)})

    def _is_unrecorded(self, job_id: str) -> bool:
        return not self.unrecorded.isdisjoint((job_id, _array_of(job_id)))

    def _of_array(self, job_id: str) -> WaitingTerms | None:
        return self._known.get(_array_of(job_id))

    def _anew(self, asked: JobSubmitted, at_us: int) -> Envelope:
        """Return the submission of a job with its new terms; holds of it are orders."""
        changed = JobSubmitted()
        changed.CopyFrom(asked)
        changed.ClearField("held_because")
        changed.ClearField("held_by")
        changed.changed_at_us = at_us
        return job_fact(self._source, changed, f"{asked.attempt}/changed-{at_us}", at_us)

    def _held(
        self, job_id: str, holder: Holder.ValueType, before: str, now: str, at_us: int
    ) -> Iterator[Envelope]:
        """Yield that somebody holds a job for another reason than before, or holds it no more."""
        if now and now != before:
            held = JobHeld(job_id=job_id, reason=now, held_at_us=at_us, holder=holder)
            yield self._fact(held, at_us)
        elif before and not now:
            released = JobReleased(job_id=job_id, released_at_us=at_us, holders=[holder])
            yield self._fact(released, at_us)

    def _at_first(self, job_id: str, job: SlurmJob, at_us: int) -> WaitingTerms:
        held_at_us = at_us if job_id in self.held_by_user else 0
        changed = _CHANGED_BEFORE if job_id in self.held_changed else ""
        return WaitingTerms(terms_of(job), job.priority, held_at_us, changed)

    def _fact(self, order: JobHeld | JobReleased | JobPrioritized, at_us: int) -> Envelope:
        key = f"{order.job_id}/slurm/{at_us}"
        of_manager = isinstance(order, JobHeld) and order.holder == HOLDER_MANAGER
        of_manager |= isinstance(order, JobReleased) and HOLDER_MANAGER in order.holders
        return fact(self._source, order, f"{key}/changed" if of_manager else key, at_us)


def _array_of(job_id: str) -> str:
    """Return the id of the array that a task is of; empty where a job is of none."""
    named = as_task(job_id)
    return named[0] if named else ""


def _since_us(job: SlurmJob, at_us: int) -> int:
    """Return when its user held a job that this process has not seen before, a moment behind its
    submission: what was said of it since, as a release in Coplace, is newer."""
    return min(job.held_at_us + 1, at_us) if job.held_at_us else at_us


def _in_words(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"{CHANGED}: {', '.join(names)}. Change it back, or cancel it and submit it anew"
