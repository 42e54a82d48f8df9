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
from shared.slurm.answers import text

HELD_BY_USER: Final = "held by its user, who lets it in with scontrol release"
# What nobody but a user or an operator changes, by Slurm's fields.
_TERMS: Final = (
    *("account", "cpus", "excluded_nodes", "features", "licenses", "max_nodes", "memory_per_cpu"),
    *("memory_per_node", "minimum_cpus_per_node", "partition", "qos", "required_nodes"),
    *("resv_name", "tasks", "time_limit", "tres_per_job", "tres_per_node", "tres_per_task"),
)


class _WaitingTerms(NamedTuple):
    """A job that waits, as it was at the first look at it, and what holds it since."""

    terms: Mapping[str, Any]
    priority: int
    held: str = ""


class WaitingChanges:
    """Compares jobs that wait from look to look. `held_by_user` are those that are held for that by
    what a process before said."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._known: Mapping[str, _WaitingTerms] = {}
        self._next: dict[str, _WaitingTerms] = {}
        self.held_by_user: frozenset[str] = frozenset()

    def events(self, waiting: Mapping[str, SlurmJob], at_us: int) -> list[Envelope]:
        """Return what to publish of jobs that wait, by their ids."""
        self._next = {}
        return [event for job_id, job in waiting.items() for event in self._of(job_id, job, at_us)]

    def confirm(self) -> None:
        """Remember what was published."""
        self._known, self.held_by_user = self._next, frozenset()

    def _of(self, job_id: str, job: SlurmJob, at_us: int) -> Iterator[Envelope]:
        first = self._known.get(job_id)
        if first is None:
            held = HELD_BY_USER if job_id in self.held_by_user else ""
            first = _WaitingTerms(_terms(job), job.priority, held)
        changed = () if job.was_released else _changed(first.terms, _terms(job))
        held = _why_held(job, changed)
        if held and held != first.held:
            yield self._fact(JobHeld(job_id=job_id, reason=held, held_at_us=at_us), at_us)
        elif first.held and not held:
            yield self._fact(JobReleased(job_id=job_id, released_at_us=at_us), at_us)
        if job.priority != first.priority:
            order = JobPrioritized(job_id=job_id, priority=job.priority, reason="nice in Slurm")
            order.prioritized_at_us = at_us
            yield self._fact(order, at_us)
        self._next[job_id] = first._replace(held=held, priority=job.priority)

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
        return f"changed in Slurm: {names}. Change it back, or cancel it and submit it anew"
    return ""
