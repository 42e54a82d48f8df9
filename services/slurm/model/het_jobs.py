"""Heterogeneous jobs of Slurm as one job each while they wait (ADR 0160): pure.

Slurm shows each part as a job, and starts all at the same moment. Until then they are one job here,
the gang, with the number of the first part: it is placed, held and released as a whole. What runs
are the parts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from coplace_client.errors import RejectedError
from services.slurm.model.jobs import SlurmJob
from shared.domain.array_tasks import parse_tasks
from shared.slurm.answers import number, text

# Of which a gang has one: what its first part says.
_OF_ALL: Final = {
    "account": "account (--account)",
    "qos": "QOS (--qos)",
    "reservation": "reservation (--reservation)",
    "resv_name": "reservation (--reservation)",
}
_BOOTS: Final = "CONFIGURING"


def with_gangs(shown: Sequence[SlurmJob]) -> list[SlurmJob]:
    """Return jobs with each heterogeneous one that waits, or whose nodes boot, in the place of its
    parts."""
    by_number = _by_number(shown)
    if not by_number:
        return list(shown)
    gangs = {name: _gang(parts) for name, parts in by_number.items() if _waits(name, parts)}
    found: list[SlurmJob] = []
    for job in shown:
        if job.het_number not in gangs:
            found.append(job)
        elif job.job_id == job.het_number:
            found.append(gangs[job.het_number])
    return found


def as_a_whole(shown: Iterable[SlurmJob]) -> Iterator[SlurmJob]:
    """Yield the heterogeneous jobs that these are parts of, also those whose parts run."""
    for name, parts in _by_number(shown).items():
        if parts[0].job_id == name:
            yield _gang(parts)


def each_part(jobs: Iterable[SlurmJob]) -> Iterator[SlurmJob]:
    """Yield jobs, and behind a gang its parts."""
    for job in jobs:
        yield job
        yield from job.parts


def missing_parts(parts: Sequence[SlurmJob]) -> int:
    """Return how many parts of a heterogeneous job Slurm has beside these."""
    try:
        known = max(len(parse_tasks(text(each.fields.get("het_job_id_set")))) for each in parts)
    except (RejectedError, ValueError):
        return 0
    return max(known - len(parts), 0)


def lacks_parts(shown: Iterable[SlurmJob]) -> bool:
    """Return whether Slurm has parts of heterogeneous jobs that are not shown here."""
    groups = _by_number(each for each in each_part(shown) if not each.parts)
    return any(map(missing_parts, groups.values()))


def why_not_one(gang: SlurmJob) -> str:
    """Return why a gang cannot be one job for placement, in words; empty where it can: what is of
    the whole job, its parts have to agree on."""
    first, *others = gang.parts
    for name, what in _OF_ALL.items():
        if any(text(each.fields.get(name)) != text(first.fields.get(name)) for each in others):
            return f"parts with another {what}"
    awaited = text(first.fields.get("dependency"))
    if any(text(each.fields.get("dependency")) not in ("", awaited) for each in others):
        return "parts with other dependencies (--dependency)"
    return ""


def _by_number(shown: Iterable[SlurmJob]) -> Mapping[int, list[SlurmJob]]:
    """Return the parts of each heterogeneous job, in their order."""
    found = defaultdict[int, list[SlurmJob]](list)
    for job in shown:
        if job.is_part:
            found[job.het_number].append(job)
    for parts in found.values():
        parts.sort(key=lambda part: part.asked("het_job_offset"))
    return found


def _waits(name: int, parts: Sequence[SlurmJob]) -> bool:
    """Return whether a heterogeneous job has not started: its first part decides, and a part whose
    nodes boot is waited for."""
    first = parts[0]
    is_shown = first.job_id == name
    boots = first.has_nodes and any(part.is_configuring for part in parts)
    return is_shown and (first.is_pending or boots)


def _gang(parts: Sequence[SlurmJob]) -> SlurmJob:
    first = parts[0]
    fields: dict[str, Any] = {
        **first.fields,
        "het_job_id": 0,
        "het_job_offset": None,
        "resize_time": 0,
        "eligible_time": _last(parts, "eligible_time"),
        "deadline": _earliest(parts, "deadline"),
        "licenses": ",".join(filter(None, (text(each.fields.get("licenses")) for each in parts))),
    }
    if first.has_nodes and any(part.is_configuring for part in parts):
        fields["job_state"] = _BOOTS
    return SlurmJob(fields, tuple(parts))


def _last(parts: Iterable[SlurmJob], name: str) -> Any:
    return max((each.fields.get(name) for each in parts), key=_number)


def _earliest(parts: Iterable[SlurmJob], name: str) -> Any:
    """Return the earliest of times of which 0 is none."""
    times = [each.fields.get(name) for each in parts]
    return min(times, key=lambda time: _number(time) or float("inf"))


def _number(value: Any) -> int:
    return number(value) or 0
