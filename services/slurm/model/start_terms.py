"""What Slurm says of when a job may start, as `squeue --json` has it, as Coplace takes it: pure.

What has no equal holds the job, until the states of all jobs that Slurm shows say that it is met:
Slurm itself does not look at what a held job depends on. What is not understood holds it for good.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_CORR,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_SINGLETON,
    HOLDER_MANAGER,
    Dependency,
    JobReleased,
    JobSubmitted,
)

from coplace_client.errors import RejectedError
from coplace_client.facts import fact
from services.slurm.model.facts import MOST_REASON
from services.slurm.model.jobs import SlurmJob
from shared.catalogue.contents.check import check_contents
from shared.catalogue.payloads.domain_types import dependencies_of, job_of
from shared.domain.array_tasks import as_task
from shared.domain.printable import printable
from shared.slurm.answers import number
from shared.slurm.facts import OUTCOMES, Site

# Begins each reason that a job is held for, so that a later process knows its own.
MARK: Final = "Slurm: "
_MOST_SHOWN: Final = 200
_SECOND_US: Final = 1_000_000
_MINUTE_S: Final = 60
# The end of the year 9999.
_LATEST_S: Final = 253_402_300_799
_CONDITIONS: Final = {
    "after": DEPENDENCY_CONDITION_AFTER,
    "afterany": DEPENDENCY_CONDITION_AFTER_ANY,
    "afterok": DEPENDENCY_CONDITION_AFTER_OK,
    "afternotok": DEPENDENCY_CONDITION_AFTER_NOT_OK,
    # Of the task of the same number, or of a job that is no array.
    "aftercorr": DEPENDENCY_CONDITION_AFTER_OK,
}
# When Slurm lets a job begin, and when it must have ended.
_TIMES: Final = ("eligible_time", "deadline")
_OF_START, _OF_TASK, _SINGLETON, _NOT_OK = "after", "aftercorr", "singleton", "afternotok"
# What is met by a job that ended so long ago that Slurm shows it no more.
_AFTER_PURGED: Final = frozenset({_OF_START, "afterany"})
_COMPLETED: Final = "COMPLETED"
_ONLY_ONE: Final = re.compile(r"singleton(?:\(\w+\))?")
_AFTER: Final = re.compile(
    r"([a-z]+)((?::\d{1,12}(?:_(?:\d{1,12}|\*))?(?:\+\d{1,12})?(?:\(\w+\))?)+)"
)
# How far something is that a job waits for, behind its number.
_STATE: Final = re.compile(r"\(\w+\)")
_JOB: Final = re.compile(r":(\d+)(?:_(\d+|\*))?(?:\+(\d+))?(?:\(\w+\))?")
_When = Literal["begin_at_us", "deadline_at_us", "depends_on", "depends_on_any"]
_PLANNED: Final[tuple[_When, ...]] = ("begin_at_us", "deadline_at_us")
_AWAITED: Final[tuple[_When, ...]] = ("depends_on", "depends_on_any")


class NotUnderstoodError(ValueError):
    """Something that Slurm says has no equal in Coplace; says what."""


class _Item(NamedTuple):
    """A job that a dependency names: a task of an array by its number, or "*" for all of them."""

    text: str
    kind: str
    number: int
    task: str
    delay_s: int


class _JobsByName(NamedTuple):
    """Jobs by what dependencies call them: their numbers, those of their arrays and of their tasks,
    the parts of heterogeneous jobs, which are one job while they wait, and users and names."""

    numbers: dict[int, SlurmJob]
    tasks: dict[tuple[int, int], SlurmJob]
    arrays: dict[int, list[SlurmJob]]
    parts: dict[int, list[SlurmJob]]
    same_name: dict[tuple[str, str], list[SlurmJob]]

    def add(self, job: SlurmJob) -> None:
        """Add a job."""
        for part in job.parts or ((job,) if job.is_part else ()):
            self.parts.setdefault(part.het_number, []).append(part)
            self.numbers[part.job_id] = part
        array = number(job.fields.get("array_job_id")) or 0
        task = number(job.fields.get("array_task_id")) if array else None
        if array:
            self.arrays.setdefault(array, []).append(job)
        if job.job_id and job.job_id != array:
            self.numbers[job.job_id] = job
        if task is not None:
            self.tasks[array, task] = job
        if job.state not in OUTCOMES:
            self.same_name.setdefault(_name(job), []).append(job)


class ShownJobs:
    """The jobs of one look at Slurm, by what dependencies call them."""

    def __init__(self, jobs: Iterable[SlurmJob], site: Site) -> None:
        self._site, self._jobs = site, jobs

    @cached_property
    def _by(self) -> "_JobsByName":
        found = _JobsByName({}, {}, {}, {}, {})
        for job in self._jobs:
            found.add(job)
        return found

    def put_terms(self, job: SlurmJob, submitted: JobSubmitted) -> None:
        """Write when a job that waits may start into its submission: held for what is not
        understood."""
        for names, put in ((_PLANNED, self._put_times), (_AWAITED, self._put_dependencies)):
            try:
                put(job, submitted)
                if any(getattr(submitted, name) for name in names):
                    check_contents(submitted)
                    job_of(submitted), dependencies_of(submitted)
            except (NotUnderstoodError, RejectedError) as error:
                for name in names:
                    submitted.ClearField(name)
                submitted.held_because = printable(f"{MARK}{error}", MOST_REASON)
                submitted.held_by = HOLDER_MANAGER
                return

    def is_met(self, job: SlurmJob, now_s: float) -> bool:
        """Return whether all that a job depends on has happened, or what is enough of it, as far as
        Slurm shows the jobs that it names, and its begin is over."""
        try:
            items, (begin_s, _) = (
                _items(shown_dependency(job)),
                [_time_s(job, field) for field in _TIMES],
            )
        except NotUnderstoodError:
            return False
        if now_s < begin_s:
            return False
        met = (self._has_happened(job, item, now_s) for item in items)
        return any(met) if _is_any(shown_dependency(job)) else all(met)

    def depends_on_others(self, job: SlurmJob, before: str) -> bool:
        """Return whether somebody changed what a job depends on since it said that. What has
        happened, and what Slurm shows no more, Slurm takes out by itself."""
        now = shown_dependency(job)
        if _STATE.sub("", before) == _STATE.sub("", now):
            return False
        try:
            known, found = (_awaited_once(said) for said in (before, now))
        except NotUnderstoodError:
            return True
        now_s = time.time()
        if _is_any(before) and any(self._has_happened(job, each, now_s) for each in known.values()):
            known = {}
        if len(known) > 1 and len(found) > 1 and _is_any(before) != _is_any(now):
            return True
        added = (each for name, each in found.items() if name not in known)
        left_out = (each for name, each in known.items() if name not in found)
        return any(not self._has_happened(job, each, now_s) for each in added) or any(
            self._is_awaited(job, each, now_s) for each in left_out
        )

    def _is_awaited(self, job: SlurmJob, item: _Item, now_s: float) -> bool:
        """Return whether Slurm shows what a job waits for, and it has not happened."""
        is_shown = item.kind == _SINGLETON or bool(self._named(job, item))
        return is_shown and not self._has_happened(job, item, now_s)

    def _put_times(self, job: SlurmJob, submitted: JobSubmitted) -> None:
        begin_s, deadline_s = (_time_s(job, field) for field in _TIMES)
        if begin_s > job.submit_s:
            submitted.begin_at_us = begin_s * _SECOND_US
        submitted.deadline_at_us = deadline_s * _SECOND_US

    def _put_dependencies(self, job: SlurmJob, submitted: JobSubmitted) -> None:
        submitted.depends_on.extend(self._dependencies(job))
        submitted.depends_on_any = _is_any(shown_dependency(job))

    def _account(self, job: SlurmJob) -> str:
        return job.message().text("account") or self._site.default_account

    def _dependencies(self, job: SlurmJob) -> Iterator[Dependency]:
        for item in _items(shown_dependency(job)):
            if item.kind == _SINGLETON:
                self._require_one_account(job)
                yield Dependency(condition=DEPENDENCY_CONDITION_SINGLETON)
            else:
                awaited, is_array = self._awaited(job, item)
                condition = _CONDITIONS[item.kind]
                if item.kind == _OF_TASK and is_array and job.is_array:
                    condition = DEPENDENCY_CONDITION_AFTER_CORR
                for each in awaited:
                    yield Dependency(job_id=each, condition=condition, delay_s=item.delay_s)

    def _awaited(self, job: SlurmJob, item: _Item) -> tuple[Sequence[str], bool]:
        """Return the ids of the jobs that a dependency names, and whether that is an array. Of a
        heterogeneous job these are its parts, all of which are waited for."""
        named = self._named(job, item)
        if named is None:
            raise NotUnderstoodError(
                f"dependency {item.text!r} is of a job that Slurm shows no more"
            )
        if self._account(named[0]) != self._account(job):
            raise NotUnderstoodError(f"dependency {item.text!r} is of a job of another account")
        if item.number in self._by.parts and len(named) > 1:
            if _is_any(shown_dependency(job)) or item.kind == _NOT_OK:
                problem = "is of a heterogeneous job, of which all parts count"
                raise NotUnderstoodError(f"dependency {item.text!r} {problem}")
            return [each.id_at(self._site) for each in named], False
        is_array = bool(item.number) and self._by.arrays.get(item.number) is named
        if not is_array:
            return [named[0].id_at(self._site)], False
        # Tasks that were requeued have another submit time, and are jobs of their own.
        first = min(named, key=lambda each: each.submit_s)
        first_id = first.id_at(self._site)
        task = None if first.is_array else as_task(first_id)
        return [task[0] if task else first_id], True

    def _named(self, job: SlurmJob, item: _Item) -> Sequence[SlurmJob] | None:
        """Return the jobs that a dependency names, None where Slurm does not show them."""
        own = number(job.fields.get("array_task_id"))
        is_all = item.task in ("", "*")
        if item.kind == _OF_TASK and is_all and own is not None:
            corresponding = self._by.tasks.get((item.number, own))
            return None if corresponding is None else [corresponding]
        if not is_all:
            task = self._by.tasks.get((item.number, int(item.task)))
            return None if task is None else [task]
        if item.number in self._by.parts:
            return self._by.parts[item.number]
        one = self._by.numbers.get(item.number)
        return [one] if one is not None else self._by.arrays.get(item.number)

    def _require_one_account(self, job: SlurmJob) -> None:
        """Placement sees the jobs of one account: to Slurm a singleton waits for all of a user."""
        if len({self._account(other) for other in self._by.same_name.get(_name(job), ())}) > 1:
            raise NotUnderstoodError("singleton waits for jobs of other accounts too")

    def _has_happened(self, job: SlurmJob, item: _Item, now_s: float) -> bool:
        if item.kind == _SINGLETON:
            others = self._by.same_name.get(_name(job), ())
            return not any(
                other.has_nodes or other.job_id < job.job_id
                for other in others
                if other.job_id != job.job_id
            )
        named = self._named(job, item)
        if not named:
            return item.kind in _AFTER_PURGED and not self._waits_in_array(item)
        if item.kind == _OF_START:
            return all(_started_by(other, now_s - item.delay_s) for other in named)
        is_ok = all(other.state == _COMPLETED for other in named)
        has_ended = all(other.state in OUTCOMES for other in named)
        return {"afterany": has_ended, "afternotok": has_ended and not is_ok}.get(item.kind, is_ok)

    def _waits_in_array(self, item: _Item) -> bool:
        """Return whether a job that is not shown by itself may be one of an array's tasks that wait
        together."""
        return any(other.is_pending for other in self._by.arrays.get(item.number, ()))


def _name(job: SlurmJob) -> tuple[str, str]:
    return str(job.fields.get("user_name")), str(job.fields.get("name"))


def _started_by(job: SlurmJob, time_s: float) -> bool:
    """Return whether a job had started by then, or was cancelled before it did."""
    return not job.is_pending and (number(job.fields.get("start_time")) or 0) <= time_s


def _is_any(said: str) -> bool:
    """Return whether one of the jobs that a dependency names is enough."""
    return "?" in said


def _awaited_once(said: str) -> Mapping[_Item, _Item]:
    """Return what a dependency says, by what does not change while it is not met. Raises
    NotUnderstoodError."""
    return {each._replace(text=""): each for each in _items(said)}


def _items(said: str) -> list[_Item]:
    """Return what a dependency says. Raises NotUnderstoodError."""
    found: list[_Item] = []
    for text in re.split("[,?]", said) if said else ():
        after = _AFTER.fullmatch(text)
        if _ONLY_ONE.fullmatch(text):
            found.append(_Item(text, _SINGLETON, 0, "", 0))
        elif after is not None and after[1] in _CONDITIONS:
            for number_, task, minutes in _JOB.findall(after[2]):
                delay_s = int(minutes or 0) * _MINUTE_S
                found.append(_Item(text, after[1], int(number_), task, delay_s))
        else:
            raise NotUnderstoodError(f"dependency {text[:_MOST_SHOWN]!r} has an unknown form")
    return found


def _time_s(job: SlurmJob, field: str) -> int:
    """Return a time that Slurm shows; 0 where it shows none."""
    value = job.fields.get(field)
    if not value or (isinstance(value, Mapping) and not value.get("set", True)):
        return 0
    time_s = number(value)
    if time_s is None or not 0 <= time_s <= _LATEST_S:
        raise NotUnderstoodError(f"{field} {str(value)[:_MOST_SHOWN]!r} is not a time")
    return time_s


def shown_dependency(job: SlurmJob) -> str:
    """Return the dependencies that Slurm shows: those that are not met."""
    shown = job.fields.get("dependency")
    return shown if isinstance(shown, str) else ""


def release(submitted: JobSubmitted, site: Site) -> Envelope:
    """Return the event that lets a job in that was held for what has no equal, and is met. It is as
    old as the submission, so that whatever somebody asked since is newer."""
    at_us = submitted.submitted_at_us + 1
    payload = JobReleased(job_id=submitted.job_id, released_at_us=at_us, holders=[HOLDER_MANAGER])
    return fact(site.name, payload, f"{submitted.job_id}/dependency", at_us)
