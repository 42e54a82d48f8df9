"""What is asked for of a job that waits, and what of it somebody changed: pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from services.slurm.model.jobs import SlurmJob
from shared.slurm.answers import text

# What nobody but a user or an operator changes, by Slurm's fields.
_ASKED: Final = ("account", "features", "licenses", "partition", "qos", "reservation", "resv_name")
# The same, but where a start is being made, or was.
_SIZES: Final = (
    *("cpus", "max_nodes", "memory_per_cpu", "memory_per_node", "minimum_cpus_per_node", "tasks"),
    *("tres_per_job", "tres_per_node", "tres_per_task"),
)
# Of these, what is asked for first while the job waits is a change too: Slurm fills in the others.
_BEGUN: Final = (
    *("excluded_nodes", "features", "licenses", "required_nodes", "reservation", "resv_name"),
    "time_limit",
)
_BEGIN: Final = "eligible_time"
_DEPENDENCY: Final = "dependency"
_NOTHING: Final = ("", None)

Terms = Mapping[str, Any]
# Whether a job depends on other things now than it said before.
DependsOnOthers = Callable[[SlurmJob, str], bool]


def terms_of(job: SlurmJob) -> Terms:
    """Return what its user asks for; of a job that was released, or given back, without what Slurm
    makes of that."""
    if not job.parts:
        return _terms(job, _is_as_asked(job))
    is_as_asked = all(map(_is_as_asked, job.parts))
    of_parts = {
        f"{name} of its part {number}": value
        for number, part in enumerate(job.parts)
        for name, value in _terms(part, is_as_asked).items()
    }
    return {**of_parts, **when_of(job)}


def what_changed(
    job: SlurmJob, before: Terms, now: Terms, at_s: float, depends_on_others: DependsOnOthers
) -> list[str]:
    """Return which terms of a job somebody changed. Slurm itself fills in some later, says since
    when a job may begin, and takes out what a job need not wait for any more."""
    names = [name for name in before if name in now and _is_other(name, before[name], now[name])]
    if max(before.get(_BEGIN, 0), at_s) != max(now.get(_BEGIN, 0), at_s):
        names.append(_BEGIN)
    awaited = before.get(_DEPENDENCY, "")
    if awaited != now.get(_DEPENDENCY, "") and depends_on_others(job, awaited):
        names.append(_DEPENDENCY)
    return names


def _is_other(name: str, before: Any, now: Any) -> bool:
    if before == now or name in (_BEGIN, _DEPENDENCY):
        return False
    return before not in _NOTHING or name.startswith(_BEGUN)


def _is_as_asked(job: SlurmJob) -> bool:
    return not (job.has_decided_terms or job.is_given_back)


def _terms(job: SlurmJob, is_as_asked: bool) -> Terms:
    found = {name: job.fields.get(name) for name in _ASKED}
    found |= {
        "excluded_nodes": job.excluded,
        "required_nodes": job.wanted,
        "time_limit": job.asked_limit_min,
    }
    if job.is_array:
        found["array_max_tasks"] = job.most_tasks
    if is_as_asked:
        found |= {name: job.fields.get(name) for name in _SIZES}
    return found if job.is_part else {**found, **when_of(job)}


def when_of(job: SlurmJob) -> Terms:
    """Return when its user lets it start."""
    return {
        _BEGIN: job.asked(_BEGIN),
        "deadline": job.asked("deadline"),
        _DEPENDENCY: text(job.fields.get(_DEPENDENCY)),
    }
