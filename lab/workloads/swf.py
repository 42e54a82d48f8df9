"""Real workload logs in the Standard Workload Format (SWF 2.2), plain or compressed by gzip.

Format: Parallel Workloads Archive, https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coplace_client.numbers import finite_number
from shared.process.user_files import BrokenOffError, lines

Floats = NDArray[np.float64]

_SIZE_COMMENT: Final = re.compile(r";\s*(MaxProcs|MaxNodes):\s*([0-9]{1,15})(?![0-9_])")
# What a line of plain numbers consists of; another one is read field by field.
_PLAIN: Final = re.compile(r"[0-9eE+\-.\s]*")
# A part of a job that was checkpointed or swapped out: to be continued, the last, the last failed.
_OF_A_BURST: Final = (2, 3, 4)
# Lines that are parsed at a time: a broken one sends no more than these down the slow path.
_BLOCK: Final = 4096
# Whole numbers up to here are exact as float64.
_MAX_JOB_NUMBER: Final = 2**53


class Skip(StrEnum):
    """Why a part of a log was left out."""

    FIELD_COUNT = "line without 18 fields"
    NOT_A_NUMBER = "field that is no finite number"
    TRUNCATED = "compressed file broken off"
    BURST = "burst of a job that is played as a whole"
    NO_SUBMIT_TIME = "unknown submit time"
    NO_RUN_TIME = "run time not above 0"
    NO_PROCESSORS = "processors not above 0"
    LARGER_THAN_MACHINE = "more processors than the machine has"
    ABOVE_CAP = "more power than the cap, alone"


class SwfRecord(NamedTuple):
    """One line of a log, its 18 columns in their order; -1 is unknown. Memory is in KiB."""

    job_number: int
    submit_s: float
    wait_s: float
    run_s: float
    allocated_procs: int
    mean_cpu_s: float
    used_memory_kib: float
    requested_procs: int
    requested_s: float
    requested_memory_kib: float
    status: int
    user_id: int
    group_id: int
    executable: int
    queue: int
    partition: int
    preceding_job: int
    think_s: float


_FIELDS: Final = SwfRecord._fields
_WHOLE: Final = tuple(SwfRecord.__annotations__[name] is int for name in _FIELDS)


@dataclass(frozen=True, slots=True, eq=False)
class SwfLog:
    """A log as a table of the shape (jobs, 18), its lines in their order.

    `machine_procs` is the size that the comments declare (MaxProcs before MaxNodes), None without
    one; `skipped` counts by reason what was left out.
    """

    rows: Floats
    machine_procs: int | None
    skipped: Mapping[Skip, int]

    def column(self, field: str) -> Floats:
        """Return one of the columns by its name in SwfRecord."""
        return self.rows[:, _FIELDS.index(field)]

    @property
    def procs(self) -> Floats:
        """Return what was asked for, else what was given."""
        asked = self.column("requested_procs")
        return np.where(asked > 0, asked, self.column("allocated_procs"))

    @property
    def estimate_s(self) -> Floats:
        """Return the time that was asked for, else the run time."""
        asked = self.column("requested_s")
        return np.where(asked > 0, asked, self.column("run_s"))

    def playable(self, machine_procs: int | None = None, powered_procs: float = np.inf) -> "SwfLog":
        """Return the log without the jobs that cannot run on a machine of this size (None: any) of
        which a cap lets so many processors work at a time, counted."""
        procs = self.procs
        reasons = {
            Skip.NO_SUBMIT_TIME: self.column("submit_s") < 0,
            Skip.NO_RUN_TIME: self.column("run_s") <= 0,
            Skip.NO_PROCESSORS: procs <= 0,
            Skip.LARGER_THAN_MACHINE: procs > (np.inf if machine_procs is None else machine_procs),
            Skip.ABOVE_CAP: procs > powered_procs,
        }
        first = np.select(list(reasons.values()), range(len(reasons)), default=-1)
        counts = {skip: int((first == code).sum()) for code, skip in enumerate(reasons)}
        left_out = Counter(self.skipped) + Counter(counts)
        return SwfLog(self.rows[first < 0], self.machine_procs, dict(left_out))

    def records(self, count: int | None = None) -> list[SwfRecord]:
        """Return the first lines as records."""
        return [_record(row) for row in self.rows[:count].tolist()]


def read_swf(path: Path) -> SwfLog:
    """Read all that can be read of a log. Raises OSError, and UnusableError for what is too
    large."""
    skipped: Counter[Skip] = Counter()
    declared: dict[str, int] = {}
    stripped = (line.strip() for line in _lines(path, skipped))
    blocks = [np.empty((0, len(_FIELDS)))]
    while block := list(islice(stripped, _BLOCK)):
        _read_comments((line for line in block if line.startswith(";")), declared)
        blocks.append(_parsed([line for line in block if line and line[0] != ";"], skipped))
    machine_procs = declared.get("MaxProcs", declared.get("MaxNodes"))
    rows = _whole_jobs(np.concatenate(blocks), skipped)
    return SwfLog(rows, machine_procs, dict(skipped))


def _whole_jobs(rows: Floats, skipped: Counter[Skip]) -> Floats:
    """Without the lines of bursts: a job that was checkpointed has one for the whole beside them.
    Where that is missing, the first burst is of the time that all of them ran."""
    numbers, status = rows[:, 0], rows[:, _FIELDS.index("status")]
    is_burst = np.isin(status, _OF_A_BURST)
    if not is_burst.any():
        return rows
    has_whole = np.isin(numbers, numbers[~is_burst])
    _, first, job = np.unique(numbers[is_burst], return_index=True, return_inverse=True)
    places = np.flatnonzero(is_burst)
    run_s = _FIELDS.index("run_s")
    ran_s = np.bincount(job, np.maximum(rows[places, run_s], 0.0))
    several = np.bincount(job) > 1
    rows = rows.copy()
    rows[places[first[several]], run_s] = ran_s[several]
    is_left_out = is_burst.copy()
    is_left_out[places[first]] = has_whole[places[first]]
    if count := int(is_left_out.sum()):
        skipped[Skip.BURST] += count
    return rows[~is_left_out]


def parse_line(line: str) -> list[float] | Skip:
    """Parse the 18 numbers of one line, or return why it has none."""
    fields = line.split()
    if len(fields) != len(_FIELDS):
        return Skip.FIELD_COUNT
    try:
        return [finite_number(field) for field in fields]
    except ValueError:
        return Skip.NOT_A_NUMBER


def _read_comments(comments: Iterable[str], declared: dict[str, int]) -> None:
    for comment in comments:
        if (match := _SIZE_COMMENT.match(comment)) and int(match[2]) > 0:
            declared[match[1]] = int(match[2])


def _parsed(lines: Sequence[str], skipped: Counter[Skip]) -> Floats:
    rows = _fast(lines)
    if rows is None:
        rows = _slow(lines, skipped)
    usable = np.isfinite(rows).all(axis=1) & (np.abs(rows[:, 0]) <= _MAX_JOB_NUMBER)
    if not usable.all():
        skipped[Skip.NOT_A_NUMBER] += int((~usable).sum())
    return rows[usable]


def _fast(lines: Sequence[str]) -> Floats | None:
    """All lines at once, None where one of them is broken."""
    if not all(map(_PLAIN.fullmatch, lines)):
        return None
    try:
        rows = np.loadtxt(lines, comments=None, ndmin=2) if lines else None
    except ValueError:
        return None
    return rows if rows is not None and rows.shape[1] == len(_FIELDS) else None


def _slow(lines: Sequence[str], skipped: Counter[Skip]) -> Floats:
    parsed = [parse_line(line) for line in lines]
    skipped.update(each for each in parsed if isinstance(each, Skip))
    rows = [each for each in parsed if not isinstance(each, Skip)]
    return np.array(rows, dtype=np.float64).reshape(-1, len(_FIELDS))


def _record(row: Sequence[float]) -> SwfRecord:
    return SwfRecord._make(int(n) if whole else n for n, whole in zip(row, _WHOLE, strict=True))


def _lines(path: Path, skipped: Counter[Skip]) -> Iterator[str]:
    try:
        yield from lines(path, errors="replace")
    except BrokenOffError:
        skipped[Skip.TRUNCATED] += 1
