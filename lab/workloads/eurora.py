"""Instances of the Eurora supercomputer, by the rules of the simulator that their authors wrote.

A. Borghesi and others, PA-HPC-SIM, Apache-2.0. A node a line: `id cores gpus mics memory_kib
reserved`, where `reserved` is 1 of a node that is dedicated to jobs of reservations, else 0: there
are none in what was published, and none are played. A job a line:
`job;executable;user;queue;submit__NODES__start;end;nodes;cores;memory;walltime;...`, where NODES
are the nodes that the job really used, `node;cores;gpus;mics;memory_kib` each, joined by `#`: a
unit of the job each. The scheduler sees the walltime; a job runs for min(walltime, end - start).
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from math import ceil, inf, nan
from pathlib import Path
from typing import Final, NamedTuple

from coplace_client.bounds import CORES_PER_NODE, MOST_NODES, NODE_MEMORY_GIB, WALLTIME_S
from coplace_client.checks import require_count, require_text
from coplace_client.errors import RejectedError, UnusableError
from coplace_client.numbers import finite_number
from shared.domain.cluster import NodeClass
from shared.domain.resources import Resources, require_resources, resources_of
from shared.process.user_files import lines

GPU: Final = "gpu"
MIC: Final = "mic"
_KIB_A_GIB: Final = 1024 * 1024
# Of a job whose power nobody predicted: W a node, GPU and MIC.
_NODE_W, _GPU_W, _MIC_W = 40, 62, 115
_MOST_W_A_NODE: Final = 400
_MOST_JOBS: Final = 1_000_000
_MOST_CORES, _MOST_OF_A_KIND = int(CORES_PER_NODE.most), 10_000
_LEAST_KIB: Final = ceil(NODE_MEMORY_GIB.least * _KIB_A_GIB)
_MOST_KIB: Final = int(NODE_MEMORY_GIB.most) * _KIB_A_GIB
_MOST_S: Final = int(WALLTIME_S.most)
# No bound has as many: longer ones are not converted, which takes a while.
_MOST_DIGITS: Final = 20
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
        require_text("job_id", self.job_id)
        require_count("units", self.units)
        WALLTIME_S.require("walltime_s", self.walltime_s)
        CORES_PER_NODE.require("cores", self.unit.cores)
        if not 0 <= self.unit.memory_gib <= NODE_MEMORY_GIB.most:
            problem = f"must be from 0 to {NODE_MEMORY_GIB.most:,.0f} GiB"
            raise RejectedError("memory_gib", f"{problem}, got {self.unit.memory_gib}")
        require_resources("resources", self.unit.resources)
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
        """Return the number of all nodes."""
        return sum(each.nodes for each in self.node_classes)


class _JobLine(NamedTuple):
    """A job as its line has it, times in s since 1970."""

    job_id: str
    queue: str
    submit_s: float
    units: Sequence[EuroraUnit]
    start_s: float
    end_s: float
    walltime_s: float


class _NodeLine(NamedTuple):
    """A node as its line has it."""

    number: int
    cores: int
    memory_gib: float
    resources: Resources


def read_machine(path: Path) -> EuroraMachine:
    """Read the nodes of a file. Raises OSError, and UnusableError for what is not a list of such
    nodes."""
    nodes = [_node(path, number, row) for number, row in _numbered(path)]
    if [node.number for node in nodes] != list(range(len(nodes))) or not nodes:
        raise UnusableError(f"{path} must list nodes by number from 0")
    if len(nodes) > MOST_NODES:
        raise UnusableError(f"{path} must list {MOST_NODES:,} nodes at most, has {len(nodes):,}")
    cores = {node.cores for node in nodes}
    if len(cores) > 1:
        raise UnusableError(f"{path} has nodes of {sorted(cores)} cores: one model has one number")
    classes = tuple(
        NodeClass(len(list(alike)), memory_gib, resources)
        for (memory_gib, resources), alike in groupby(nodes, key=lambda node: node[2:])
    )
    return EuroraMachine(cores.pop(), classes)


def _numbered(path: Path) -> Iterable[tuple[int, list[str]]]:
    return ((n, line.split()) for n, line in enumerate(lines(path), 1) if line.strip())


def _node(path: Path, number: int, row: Sequence[str]) -> _NodeLine:
    if len(row) != 6:
        raise UnusableError(f"{path}:{number}: must be id cores gpus mics memory reserved")
    node, cores, gpus, mics, memory_kib, reserved = row
    try:
        if reserved.strip("0"):
            problem = "must be 0: nodes that are dedicated to reservations are not played"
            raise RejectedError("reserved", f"{problem}, got {reserved[:40]!r}")
        return _NodeLine(
            number=_whole("id", node, MOST_NODES),
            cores=_whole("cores", cores, _MOST_CORES, least=1),
            memory_gib=_whole("memory_kib", memory_kib, _MOST_KIB, least=_LEAST_KIB) / _KIB_A_GIB,
            resources=_accelerators(gpus, mics),
        )
    except RejectedError as error:
        raise UnusableError(f"{path}:{number}: {error}") from error


def _accelerators(gpus: str, mics: str) -> Resources:
    return resources_of(
        {GPU: _whole("gpus", gpus, _MOST_OF_A_KIND), MIC: _whole("mics", mics, _MOST_OF_A_KIND)}
    )


def _whole(field: str, text: str, most: int, least: int = 0) -> int:
    """Parse a whole number in digits. Raises RejectedError for any other text or one out of
    bounds."""
    digits = text.strip()
    is_short = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
    if not is_short or not least <= int(digits) <= most:
        problem = f"must be a whole number from {least:,} to {most:,}"
        raise RejectedError(field, f"{problem}, got {digits[:40]!r}")
    return int(digits)


@dataclass(frozen=True, slots=True)
class JobColumn:
    """A column of a CSV of jobs: what it has `found` of each, by id. Of those whose row says no
    such value, or two do, `wrong` says so in words that name job, file and line."""

    found: Mapping[str, float]
    wrong: Mapping[str, str]


def read_power_predictions(path: Path) -> JobColumn:
    """Read predicted power of jobs in W. Raises OSError, and UnusableError for what is not a CSV of
    it."""
    return _column(path, "power_w", "power", "W")


def read_cpi(path: Path) -> JobColumn:
    """Read clocks per instruction of jobs: a column `cpi` beside their power. Raises OSError, and
    UnusableError for what is not a CSV of it."""
    return _column(path, "cpi", "CPI", "clocks per instruction")


def read_power_deviations(path: Path) -> JobColumn:
    """Read by what share predicted powers may err: a column `power_sd` beside them. Raises OSError,
    and UnusableError for what is not a CSV of it."""
    return _column(path, "power_sd", "deviation", "of its power")


def _column(path: Path, column: str, what: str, unit: str) -> JobColumn:
    found: dict[str, float] = {}
    wrong: dict[str, str] = {}
    first: dict[str, int] = {}
    for number, job_id, text in _rows(path, column):
        value = _number(text)
        if first.setdefault(job_id, number) != number:
            problem = f"is listed twice in {path}, in lines {first[job_id]} and {number}: leave one"
            wrong[job_id] = f"job {job_id} {problem}"
        elif 0 <= value < inf:
            found[job_id] = value
        else:
            shown = text[:40] if value != value else value
            wrong[job_id] = f"job {job_id} has a {what} of {shown} {unit} in {path}:{number}"
    return JobColumn({each: of for each, of in found.items() if each not in wrong}, wrong)


def _rows(path: Path, column: str) -> Iterator[tuple[int, str, str]]:
    """Each row's number, job and text of a column, which is what is there too much of a row that
    has more than the first has."""
    reader = csv.DictReader(lines(path), restkey="", restval="", strict=True)
    try:
        names = list(reader.fieldnames or ())
        if any(names.count(each) != 1 for each in ("job_id", column)):
            raise UnusableError(f"{path} must be a CSV of job_id and {column}, a column each")
        for row in reader:
            text = ",".join([row[column], *row.get("", ())])
            yield reader.line_num, row["job_id"], text
    except csv.Error as error:
        where = f"{path} is not a CSV of jobs behind line {reader.line_num}"
        raise UnusableError(f"{where}: {error}") from error


def _number(text: str) -> float:
    try:
        return finite_number(text)
    except ValueError:
        return nan


def read_queues(path: Path) -> dict[str, float]:
    """Read expected waiting times of queues in s, `queue seconds` a line. Raises OSError or
    UnusableError."""
    found: dict[str, float] = {}
    for number, row in _numbered(path):
        try:
            queue, seconds = row
            wait_s = _whole("seconds", seconds, _MOST_S, least=1)
        except ValueError as error:
            problem = f"must be a queue and whole seconds above 0, {_MOST_S:,} at most"
            raise UnusableError(f"{path}:{number}: {problem}") from error
        if queue in found:
            raise UnusableError(f"{path}:{number}: queue {queue} is listed twice: leave one")
        found[queue] = wait_s
    if not found:
        raise UnusableError(f"{path} must list queues with their expected waiting times")
    return found


def expected_waits_s(jobs: Iterable[EuroraJob], queues: Mapping[str, float]) -> tuple[float, ...]:
    """Return how long each job expects to wait, by its queue; `R` is the queue of a reservation.
    Raises UnusableError for a job of a queue that is not known."""
    return tuple(_expected_wait_s(job, queues) for job in jobs)


def _expected_wait_s(job: EuroraJob, queues: Mapping[str, float]) -> float:
    queue = job.queue
    if queue == _OF_RESERVATION and queue not in queues:
        queue = "reservation"
    if queue not in queues:
        raise UnusableError(f"job {job.job_id} is of queue {queue}, known are {sorted(queues)}")
    return queues[queue]


def read_jobs(path: Path, power_w: Mapping[str, float]) -> tuple[EuroraJob, ...]:
    """Read the jobs of a file in the order of their submission, those of one second in the order of
    the file.

    Raises OSError, and UnusableError naming the line for one that cannot be played.
    """
    told = _told(path)
    first_s = min(job.submit_s for job in told)
    return tuple(_job(job, first_s, power_w) for job in sorted(told, key=lambda job: job.submit_s))


def read_first_submission_s(path: Path) -> float:
    """Read when the first job of a file was submitted, in s since 1970; its times are UTC. Raises
    as `read_jobs` does."""
    return min(job.submit_s for job in _told(path))


def _told(path: Path) -> list[_JobLine]:
    found: list[_JobLine] = []
    first: dict[str, int] = {}
    for number, text in enumerate(lines(path), 1):
        if not text.strip():
            continue
        job = _parsed(path, number, text)
        if first.setdefault(job.job_id, number) != number:
            problem = f"job {job.job_id} is listed twice, in line {first[job.job_id]} too"
            raise UnusableError(f"{path}:{number}: {problem}: leave one")
        found.append(job)
    if not 0 < len(found) <= _MOST_JOBS:
        raise UnusableError(f"{path} must hold 1 to {_MOST_JOBS:,} jobs, has {len(found):,}")
    return found


def _parsed(path: Path, number: int, text: str) -> _JobLine:
    """A line, checked to be a job."""
    try:
        found = _line(text.strip())
        _job(found, found.submit_s, {})
    except (ValueError, RejectedError) as error:
        raise UnusableError(f"{path}:{number}: is not a job of Eurora: {error}") from error
    return found


def _line(text: str) -> _JobLine:
    asked, used, ran = text.split("__")
    job_id, _executable, _user, queue, submit = asked.split(";")
    start, end, _nodes, _cores, _memory, walltime, *_ = ran.split(";")
    units = [_unit(each) for each in used.split("#") if each]
    if len(set(units)) != 1:
        raise ValueError(f"its units must be equal, got {len(set(units))} sorts")
    hours, _, minutes = walltime.partition(":")
    walltime_s = 3600 * _whole("hours", hours, _MOST_S // 3600) + 60 * _whole(
        "minutes", minutes, 59
    )
    return _JobLine(
        job_id=job_id,
        queue=queue,
        submit_s=_time_s(submit),
        units=units,
        start_s=_time_s(start),
        end_s=_time_s(end),
        walltime_s=walltime_s,
    )


def _unit(text: str) -> EuroraUnit:
    node, cores, gpus, mics, memory_kib = text.split(";")
    _whole("node", node, MOST_NODES)
    return EuroraUnit(
        cores=_whole("cores", cores, _MOST_CORES, least=1),
        memory_gib=_whole("memory_kib", memory_kib, _MOST_KIB) / _KIB_A_GIB,
        resources=_accelerators(gpus, mics),
    )


def _time_s(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


def _job(told: _JobLine, first_s: float, power_w: Mapping[str, float]) -> EuroraJob:
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
