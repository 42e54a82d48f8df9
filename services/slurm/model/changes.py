"""What users and operators change on jobs that wait in Slurm: pure.

A job whose terms were changed is submitted with its new ones, as of that moment. One of which that
can't be followed is held with what was changed, until somebody changes it back. Holds and nice
values are orders, which follow.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

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
from shared.domain.array_tasks import as_task
from shared.slurm.answers import text

CHANGED: Final = "changed in Slurm"
_CHANGED_BEFORE: Final = f"{CHANGED} before this process began: coplace release lets it in"
HELD_BY_USER: Final = "held by its user, who lets it in with scontrol release"
# What nobody but a user or an operator changes, by Slurm's fields.
_TERMS: Final = (
    *("account", "cpus", "excluded_nodes", "features", "licenses", "max_nodes", "memory_per_cpu"),
    *("memory_per_node", "minimum_cpus_per_node", "partition", "qos", "required_nodes"),
    *("resv_name", "tasks", "time_limit", "tres_per_job", "tres_per_node", "tres_per_task"),
)
# Of these, what is asked for first while the job waits is a change too.
_BEGUN: Final = ("features", "licenses")
_NOTHING: Final[Mapping[str, JobSubmitted]] = {}


class _WaitingTerms(NamedTuple):
    """A job that waits, as it was at the first look at it or followed since `changed_at_us`, since
    when its user holds it, and what was `changed` that is not followed; without terms it is as a
    decision or a return to Slurm left it."""

    terms: Mapping[str, Any] | None
    priority: int
    held_at_us: int = 0
    changed: str = ""
    changed_at_us: int = 0


class WaitingChanges:
    """Compares jobs that wait from look to look. `held_by_user` are those that are held for that by
    what a process before said, and `held_changed` those that it held for what was changed: what
    they were before is not known any more, so that only a release in Coplace lets them in."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._known: Mapping[str, _WaitingTerms] = {}
        self._next: dict[str, _WaitingTerms] = {}
        self.held_by_user: frozenset[str] = frozenset()
        self.held_changed: frozenset[str] = frozenset()

    def held_at_us(self, job_id: str) -> int:
        """Return when it was published that the user of a job holds it, or of its array; 0: it was
        not, or he does not."""
        named = as_task(job_id)
        found = self._known.get(job_id) or self._known.get(named[0] if named else "")
        return found.held_at_us if found is not None else 0

    def changed_at_us(self, job_id: str) -> int:
        """Return when it was published that the terms of a job are others; 0: it was not."""
        found = self._known.get(job_id)
        return found.changed_at_us if found is not None else 0

    def knows(self, job_id: str) -> bool:
        """Return whether a job waited at the look before."""
        return job_id in self._known

    def events(
        self,
        waiting: Mapping[str, SlurmJob],
        at_us: int,
        asked: Mapping[str, JobSubmitted] = _NOTHING,
    ) -> list[Envelope]:
        """Return what to publish of jobs that wait, by their ids; `asked` is how those would be
        submitted now of which changes can be followed."""
        self._next = {}
        return [
            event
            for job_id, job in waiting.items()
            for event in self._of(job_id, job, at_us, asked.get(job_id))
        ]

    def confirm(self) -> None:
        """Remember what was published."""
        self._known = self._next
        self.held_by_user = self.held_changed = frozenset()

    def _of(
        self, job_id: str, job: SlurmJob, at_us: int, asked: JobSubmitted | None
    ) -> Iterator[Envelope]:
        first = self._known.get(job_id)
        if first is None:
            first = self._at_first(job_id, job, at_us)
        terms = None if job.was_released or job.is_given_back else _terms(job)
        by_user = HELD_BY_USER if job.is_held_by_user else ""
        changed = _what_changed(first.terms, terms) if first.terms and terms else ""
        if first.changed == _CHANGED_BEFORE:
            changed = _CHANGED_BEFORE
        elif changed and asked is not None:
            yield self._anew(asked, at_us)
            first, changed = first._replace(terms=terms, changed_at_us=at_us), ""
        held_before = HELD_BY_USER if first.held_at_us else ""
        since_us = at_us if job_id in self._known else _since_us(job, at_us)
        yield from self._held(job_id, HOLDER_USER, held_before, by_user, since_us)
        yield from self._held(job_id, HOLDER_MANAGER, first.changed, changed, at_us)
        if job.priority != first.priority:
            order = JobPrioritized(job_id=job_id, priority=job.priority, reason="nice in Slurm")
            order.prioritized_at_us = at_us
            yield self._fact(order, at_us)
        if first.terms is None or terms is None:
            first = first._replace(terms=terms)
        self._next[job_id] = first._replace(
            priority=job.priority,
            held_at_us=(first.held_at_us or at_us) if by_user else 0,
            changed=changed,
        )

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

    def _at_first(self, job_id: str, job: SlurmJob, at_us: int) -> _WaitingTerms:
        held_at_us = at_us if job_id in self.held_by_user else 0
        changed = _CHANGED_BEFORE if job_id in self.held_changed else ""
        return _WaitingTerms(_terms(job), job.priority, held_at_us, changed)

    def _fact(self, order: JobHeld | JobReleased | JobPrioritized, at_us: int) -> Envelope:
        key = f"{order.job_id}/slurm/{at_us}"
        of_manager = isinstance(order, JobHeld) and order.holder == HOLDER_MANAGER
        of_manager |= isinstance(order, JobReleased) and HOLDER_MANAGER in order.holders
        return fact(self._source, order, f"{key}/changed" if of_manager else key, at_us)


def _since_us(job: SlurmJob, at_us: int) -> int:
    """Return when its user held a job that this process has not seen before, a moment behind its
    submission: what was said of it since, as a release in Coplace, is newer."""
    return min(job.held_at_us + 1, at_us) if job.held_at_us else at_us


def _terms(job: SlurmJob) -> Mapping[str, Any]:
    if not job.parts:
        return {name: job.fields.get(name) for name in _TERMS}
    return {
        f"{name} of its part {number}": part.fields.get(name)
        for number, part in enumerate(job.parts)
        for name in _TERMS
    }


def _what_changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What is filled in later, as the account where the accounting database was away, is no
    change."""
    said = [name for name in before if before[name] not in ("", None)]
    begun = [name for name in before if name.startswith(_BEGUN) and not text(before[name])]
    names = [name for name in said if now.get(name) != before[name]]
    names += [name for name in begun if text(now.get(name))]
    if not names:
        return ""
    return f"{CHANGED}: {', '.join(names)}. Change it back, or cancel it and submit it anew"
