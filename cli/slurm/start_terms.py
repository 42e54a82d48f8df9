"""What Slurm says of when a job may start, as `squeue --json` has it, as Coplace takes it: pure.

What is not understood holds the job, until Slurm shows no dependency of it any more.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_SINGLETON,
    Dependency,
    JobReleased,
    JobSubmitted,
)

from cli.slurm.jobs import SlurmJob, number
from coplace_client.errors import RejectedError
from coplace_client.facts import fact
from shared.catalogue.contents.check import check_contents
from shared.catalogue.payloads.domain_types import dependencies_of, job_of
from shared.domain.printable import printable
from shared.slurm.facts import OUTCOMES, Site, identify

# Begins each reason that a job is held for, so that a later process knows its own.
MARK: Final = "Slurm: "
_MOST_SHOWN: Final = 200
_MOST_REASON: Final = 256
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
_SINGLETON: Final = re.compile(r"singleton(?:\(\w+\))?")
_AFTER: Final = re.compile(r"([a-z]+)((?::\d+(?:_(?:\d+|\*))?(?:\+\d+)?(?:\(\w+\))?)+)")
_JOB: Final = re.compile(r":(\d+)(?:_(\d+|\*))?(?:\+(\d+))?(?:\(\w+\))?")
_WHEN: Final = ("begin_at_us", "deadline_at_us", "depends_on", "depends_on_any")


class NotUnderstoodError(ValueError):
    """Something that Slurm says has no equal in Coplace; says what."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A job of a look, as dependencies name it: the task is None where it is none of an array."""

    job: SlurmJob
    array: int
    task: int | None


class ShownJobs:
    """The jobs of one look at Slurm, by what dependencies call them."""

    def __init__(self, jobs: Iterable[SlurmJob], site: Site) -> None:
        self._site = site
        self._by_number: dict[int, _Shown] = {}
        self._tasks: dict[tuple[int, int], _Shown] = {}
        self._arrays: set[int] = set()
        self._accounts: dict[tuple[str, str], set[str]] = {}
        for job in jobs:
            self._add(job)

    def put_terms(self, job: SlurmJob, submitted: JobSubmitted) -> None:
        """Write when a job that waits may start into its submission: held for what is not
        understood."""
        try:
            begin_s = _time_s(job, "eligible_time")
            if begin_s > job.submit_s:
                submitted.begin_at_us = begin_s * _SECOND_US
            submitted.deadline_at_us = _time_s(job, "deadline") * _SECOND_US
            submitted.depends_on.extend(self._dependencies(job))
            submitted.depends_on_any = "?" in shown_dependency(job)
            check_contents(submitted)
            job_of(submitted), dependencies_of(submitted)
        except (NotUnderstoodError, RejectedError) as error:
            for name in _WHEN:
                submitted.ClearField(name)
            submitted.held_because = printable(f"{MARK}{error}", _MOST_REASON)

    def _add(self, job: SlurmJob) -> None:
        array = number(job.fields.get("array_job_id")) or 0
        task = number(job.fields.get("array_task_id")) if array else None
        shown = _Shown(job, array, task)
        if array:
            self._arrays.add(array)
        if task is not None:
            self._tasks[array, task] = shown
        if job.job_id and not array:
            self._by_number[job.job_id] = shown
        if job.state not in OUTCOMES:
            same_name = str(job.fields.get("user_name")), str(job.fields.get("name"))
            self._accounts.setdefault(same_name, set()).add(self._account(job))

    def _account(self, job: SlurmJob) -> str:
        return job.message().text("account") or self._site.default_account

    def _dependencies(self, job: SlurmJob) -> Iterator[Dependency]:
        shown = shown_dependency(job)
        for item in re.split("[,?]", shown) if shown else ():
            found = _AFTER.fullmatch(item)
            if _SINGLETON.fullmatch(item):
                self._require_one_account(job)
                yield Dependency(condition=DEPENDENCY_CONDITION_SINGLETON)
            elif found is not None and found[1] in _CONDITIONS:
                for number_, task, minutes in _JOB.findall(found[2]):
                    delay_s = int(minutes or 0) * _MINUTE_S
                    awaited = self._awaited(job, item, found[1], int(number_), task)
                    condition = _CONDITIONS[found[1]]
                    yield Dependency(job_id=awaited, condition=condition, delay_s=delay_s)
            else:
                raise NotUnderstoodError(f"dependency {item[:_MOST_SHOWN]!r} is not understood")

    def _awaited(self, job: SlurmJob, item: str, kind: str, number_: int, task: str) -> str:
        """Return the id of the job that a dependency names."""
        if kind == "aftercorr" and task == "*":
            own = number(job.fields.get("array_task_id"))
            task = "*" if own is None else str(own)
        if task == "*" or (not task and number_ in self._arrays):
            raise NotUnderstoodError(f"dependency {item!r} is of all tasks of an array")
        of_task = self._tasks.get((number_, int(task))) if task else None
        found = of_task if task else self._by_number.get(number_)
        if found is None:
            raise NotUnderstoodError(f"dependency {item!r} is of a job that Slurm does not show")
        if self._account(found.job) != self._account(job):
            raise NotUnderstoodError(f"dependency {item!r} is of a job of another account")
        return identify(found.job.message(), self._site)

    def _require_one_account(self, job: SlurmJob) -> None:
        """Placement sees the jobs of one account: to Slurm a singleton waits for all of a user."""
        same_name = str(job.fields.get("user_name")), str(job.fields.get("name"))
        if len(self._accounts.get(same_name, ())) > 1:
            raise NotUnderstoodError("singleton waits for jobs of other accounts too")


def _time_s(job: SlurmJob, field: str) -> int:
    """Return a time that Slurm shows; 0 where it shows none."""
    value = job.fields.get(field)
    if not value or (isinstance(value, Mapping) and not value.get("set", True)):
        return 0
    time_s = number(value)
    if time_s is None or not 0 <= time_s <= _LATEST_S:
        raise NotUnderstoodError(f"{field} {str(value)[:_MOST_SHOWN]!r} is no time")
    return time_s


def shown_dependency(job: SlurmJob) -> str:
    """Return the dependencies that Slurm shows: those that are not met."""
    shown = job.fields.get("dependency")
    return shown if isinstance(shown, str) else ""


def release(submitted: JobSubmitted, site: Site) -> Envelope:
    """Return the event that lets a job in that was held for what was not understood. It is as old
    as the submission, so that whatever somebody asked since is newer."""
    at_us = submitted.submitted_at_us + 1
    payload = JobReleased(job_id=submitted.job_id, released_at_us=at_us)
    return fact(site.name, payload, f"{submitted.job_id}/dependency", at_us)
