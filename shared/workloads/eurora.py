"""Instances of the Eurora supercomputer, by the rules of the simulator that their authors wrote.

A. Borghesi and others, PA-HPC-SIM, Apache-2.0. A node a line: `id cores gpus mics memory_kib
reserved`. A job a line: `job;executable;user;queue;submit__NODES__start;end;nodes;cores;memory;
walltime;...`, where NODES are the nodes that the job really used, `node;cores;gpus;mics;memory_kib`
each, joined by `#`: a unit of the job each. The scheduler sees the walltime; a job runs for
min(walltime, end - start).
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from math import ceil, inf
from pathlib import Path
from typing import Final, NamedTuple

from shared.domain.checks import require_count, require_positive
from shared.domain.cluster import NodeClass
from shared.domain.errors import RejectedError, UnusableError
from shared.domain.resources import Resources, resources_of
from shared.runtime.user_files import lines

GPU: Final = "gpu"
MIC: Final = "mic"
_KIB_A_GIB: Final = 1024 * 1024
# Of a job whose power nobody predicted: W a node, GPU and MIC.
_NODE_W, _GPU_W, _MIC_W = 40, 62, 115
_MOST_W_A_NODE: Final = 400
_MOST_JOBS: Final = 1_000_000
# How PBS calls the queue of a reservation in the logs; what is known of queues has its whole name.
_OF_RESERVATION: Final = "R"


class EuroraUnit(NamedTuple):
    """What each unit of a job has of a node."""

    cores: int
    memory_gib: float
    resources: Resources


@dataclass(frozen=True, slots=True)
class EuroraJob:
    """A job of `units` equal units. Times count from the first submission of its file; `power_w`
    is that of the whole job. Raises RejectedError for what no job is."""

    job_id: str
    queue: str
    submit_s: float
    units: int
    unit: EuroraUnit
    walltime_s: float
    runtime_s: float
    power_w: int

    def __post_init__(self) -> None:
        require_count("units", self.units)
        require_positive("walltime_s", self.walltime_s)
        require_count("cores", self.unit.cores)
        if not 0 <= self.runtime_s <= self.walltime_s:
            problem = f"must be from 0 to the walltime of {self.walltime_s} s"
            raise RejectedError("runtime_s", f"{problem}, got {self.runtime_s}")


@dataclass(frozen=True, slots=True)
class EuroraMachine:
    """Nodes of `cores_per_node` cores, those that are alike beside each other together."""

    cores_per_node: int
    node_classes: tuple[NodeClass, ...]

    @property
    def nodes(self) -> int:
        """All of them."""
        return sum(each.nodes for each in self.node_classes)


class _Line(NamedTuple):
    """A job as its line tells it, times in s since 1970."""

    job_id: str
    queue: str
    submit_s: float
    units: Sequence[EuroraUnit]
    start_s: float
    end_s: float
    walltime_s: float


def read_machine(path: Path) -> EuroraMachine:
    """The nodes of a file. Raises OSError, and UnusableError for what is no list of such nodes."""
    rows = [row for number, row in _numbered(path) if _is_node(path, number, row)]
    if [row[0] for row in rows] != [str(index) for index in range(len(rows))] or not rows:
        raise UnusableError(f"{path} must list nodes by number from 0")
    cores = {int(row[1]) for row in rows}
    if len(cores) > 1:
        raise UnusableError(f"{path} has nodes of {sorted(cores)} cores: one model has one number")
    classes = tuple(
        NodeClass(len(list(alike)), memory_gib, resources)
        for (memory_gib, resources), alike in groupby(rows, key=_kind)
    )
    return EuroraMachine(cores.pop(), classes)


def _numbered(path: Path) -> Iterable[tuple[int, list[str]]]:
    return ((n, line.split()) for n, line in enumerate(lines(path), 1) if line.strip())


def _is_node(path: Path, number: int, row: Sequence[str]) -> bool:
    if len(row) != 6 or not all(value.isdecimal() for value in row):
        raise UnusableError(f"{path}:{number}: must be id cores gpus mics memory reserved")
    return True


def _kind(row: Sequence[str]) -> tuple[float, Resources]:
    return int(row[4]) / _KIB_A_GIB, resources_of({GPU: int(row[2]), MIC: int(row[3])})


def read_power_predictions(path: Path) -> dict[str, float]:
    """Predicted power of jobs in W by id. Raises OSError, and UnusableError, which names the job,
    for what is no power."""
    return _column(path, "power_w", "power", "W")


def read_cpi(path: Path) -> dict[str, float]:
    """Clocks per instruction of jobs by id: a column `cpi` beside their power. Raises OSError, and
    UnusableError, which names the job, for what is none."""
    return _column(path, "cpi", "CPI", "clocks per instruction")


def read_power_deviations(path: Path) -> dict[str, float]:
    """By what share predicted powers may err, by id: a column `power_sd` beside them. Raises
    OSError, and UnusableError, which names the job, for what is none."""
    return _column(path, "power_sd", "deviation", "of its power")


def _column(path: Path, column: str, what: str, unit: str) -> dict[str, float]:
    try:
        found = {row["job_id"]: float(row[column]) for row in csv.DictReader(lines(path))}
    except (KeyError, TypeError, ValueError) as error:
        raise UnusableError(f"{path} must be a CSV of job_id and {column}: {error!r}") from error
    for job_id, value in found.items():
        if not 0 <= value < inf:
            raise UnusableError(f"{path}: job {job_id} has a {what} of {value} {unit}")
    return found


def read_queues(path: Path) -> dict[str, float]:
    """Expected waiting times of queues in s, `queue seconds` a line. Raises OSError or
    UnusableError."""
    found: dict[str, float] = {}
    for number, row in _numbered(path):
        if len(row) != 2 or not row[1].isdecimal() or not int(row[1]):
            raise UnusableError(f"{path}:{number}: must be a queue and whole seconds above 0")
        found[row[0]] = int(row[1])
    if not found:
        raise UnusableError(f"{path} must list queues with their expected waiting times")
    return found


def expected_waits_s(jobs: Iterable[EuroraJob], queues: Mapping[str, float]) -> tuple[float, ...]:
    """How long each job expects to wait, by its queue; `R` is the queue of a reservation. Raises
    UnusableError for a job of a queue that is not known."""
    return tuple(_expected_wait_s(job, queues) for job in jobs)


def _expected_wait_s(job: EuroraJob, queues: Mapping[str, float]) -> float:
    queue = job.queue
    if queue == _OF_RESERVATION and queue not in queues:
        queue = "reservation"
    if queue not in queues:
        raise UnusableError(f"job {job.job_id} is of queue {queue}, known are {sorted(queues)}")
    return queues[queue]


def read_jobs(path: Path, power_w: Mapping[str, float]) -> tuple[EuroraJob, ...]:
    """The jobs of a file in the order of their submission, those of one second as they stand there.

    Raises OSError, and UnusableError naming the line for one that cannot be played.
    """
    told = _told(path)
    first_s = min(job.submit_s for job in told)
    return tuple(_job(job, first_s, power_w) for job in sorted(told, key=lambda job: job.submit_s))


def read_first_submission_s(path: Path) -> float:
    """When the first job of a file was submitted, in s since 1970; its times are UTC. Raises as
    `read_jobs` does."""
    return min(job.submit_s for job in _told(path))


def _told(path: Path) -> list[_Line]:
    found = [
        _parsed(path, number, text) for number, text in enumerate(lines(path), 1) if text.strip()
    ]
    if not 0 < len(found) <= _MOST_JOBS:
        raise UnusableError(f"{path} must hold 1 to {_MOST_JOBS:,} jobs, has {len(found):,}")
    return found


def _parsed(path: Path, number: int, text: str) -> _Line:
    """A line, checked to be a job."""
    try:
        found = _line(text.strip())
        _job(found, found.submit_s, {})
    except (ValueError, RejectedError) as error:
        raise UnusableError(f"{path}:{number}: is no job of Eurora: {error}") from error
    return found


def _line(text: str) -> _Line:
    asked, used, ran = text.split("__")
    job_id, _executable, _user, queue, submit = asked.split(";")
    start, end, _nodes, _cores, _memory, walltime, *_ = ran.split(";")
    units = [_unit(each) for each in used.split("#") if each]
    if len(set(units)) != 1:
        raise ValueError(f"its units must be equal, got {len(set(units))} sorts")
    hours, minutes = walltime.split(":")
    return _Line(
        job_id=job_id,
        queue=queue,
        submit_s=_time_s(submit),
        units=units,
        start_s=_time_s(start),
        end_s=_time_s(end),
        walltime_s=3600 * int(hours) + 60 * int(minutes),
    )


def _unit(text: str) -> EuroraUnit:
    _node, cores, gpus, mics, memory_kib = map(int, text.split(";"))
    return EuroraUnit(cores, memory_kib / _KIB_A_GIB, resources_of({GPU: gpus, MIC: mics}))


def _time_s(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


def _job(told: _Line, first_s: float, power_w: Mapping[str, float]) -> EuroraJob:
    return EuroraJob(
        job_id=told.job_id,
        queue=told.queue,
        submit_s=told.submit_s - first_s,
        units=len(told.units),
        unit=told.units[0],
        walltime_s=told.walltime_s,
        runtime_s=min(told.walltime_s, told.end_s - told.start_s),
        power_w=_power_w(power_w.get(told.job_id), told.units),
    )


def _power_w(predicted_w: float | None, units: Sequence[EuroraUnit]) -> int:
    """Predicted, else by what it uses; the authors round up for each node, within 1 and 400 W."""
    nodes = len(units)
    if predicted_w is None:
        has = dict(units[0].resources)
        predicted_w = nodes * (_NODE_W + _GPU_W * has.get(GPU, 0) + _MIC_W * has.get(MIC, 0))
    a_node_w = ceil(max(nodes, ceil(predicted_w)) / nodes)
    return nodes * min(_MOST_W_A_NODE, a_node_w)
