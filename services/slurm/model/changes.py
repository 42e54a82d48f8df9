"""What users and operators change on jobs that wait in Slurm: pure.

A submission has one content under one id, so that a job whose terms were changed is held with what
was changed, until somebody changes it back. Holds and nice values are orders, which follow.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobHeld, JobPrioritized, JobReleased

from coplace_client.facts import fact
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


class _WaitingTerms(NamedTuple):
    """A job that waits, as it was at the first look at it, and what holds it since when; without
    terms it is as a decision or a return to Slurm left it."""

    terms: Mapping[str, Any] | None
    priority: int
    held: str = ""
    held_at_us: int = 0


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
        return found.held_at_us if found is not None and found.held == HELD_BY_USER else 0

    def events(self, waiting: Mapping[str, SlurmJob], at_us: int) -> list[Envelope]:
        """Return what to publish of jobs that wait, by their ids."""
        self._next = {}
        return [event for job_id, job in waiting.items() for event in self._of(job_id, job, at_us)]

    def confirm(self) -> None:
        """Remember what was published."""
        self._known = self._next
        self.held_by_user = self.held_changed = frozenset()

    def _of(self, job_id: str, job: SlurmJob, at_us: int) -> Iterator[Envelope]:
        first = self._known.get(job_id)
        if first is None:
            first = self._at_first(job_id, job, at_us)
        terms = None if job.was_released or job.is_given_back else _terms(job)
        changed = _changed(first.terms, terms) if first.terms and terms else ()
        held = _why_held(job, changed)
        if first.held == _CHANGED_BEFORE and not job.is_held_by_user:
            held = _CHANGED_BEFORE
        if held and held != first.held:
            yield self._fact(JobHeld(job_id=job_id, reason=held, held_at_us=at_us), at_us)
            first = first._replace(held_at_us=at_us)
        elif first.held and not held:
            yield self._fact(JobReleased(job_id=job_id, released_at_us=at_us), at_us)
        if job.priority != first.priority:
            order = JobPrioritized(job_id=job_id, priority=job.priority, reason="nice in Slurm")
            order.prioritized_at_us = at_us
            yield self._fact(order, at_us)
        if first.terms is None or terms is None:
            first = first._replace(terms=terms)
        self._next[job_id] = first._replace(held=held, priority=job.priority)

    def _at_first(self, job_id: str, job: SlurmJob, at_us: int) -> _WaitingTerms:
        held = HELD_BY_USER if job_id in self.held_by_user else ""
        if job_id in self.held_changed:
            held = _CHANGED_BEFORE
        return _WaitingTerms(_terms(job), job.priority, held, at_us if held else 0)

    def _fact(self, order: JobHeld | JobReleased | JobPrioritized, at_us: int) -> Envelope:
        return fact(self._source, order, f"{order.job_id}/slurm/{at_us}", at_us)


def _terms(job: SlurmJob) -> Mapping[str, Any]:
    return {name: job.fields.get(name) for name in _TERMS}


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterable[str]:
    """What is filled in later, as the account where the accounting database was away, is no
    change."""
    return [
        name for name in _TERMS if now[name] != before[name] and before[name] not in ("", None)
    ] + [name for name in ("features", "licenses") if not text(before[name]) and text(now[name])]


def _why_held(job: SlurmJob, changed: Iterable[str]) -> str:
    if job.is_held_by_user:
        return HELD_BY_USER
    if names := ", ".join(changed):
        return f"{CHANGED}: {names}. Change it back, or cancel it and submit it anew"
    return ""
