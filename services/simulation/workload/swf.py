"""Real workload logs in the Standard Workload Format (SWF 2.2), plain or compressed by gzip.

Format: Parallel Workloads Archive, https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.
"""

import gzip
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import IO, Final, NamedTuple

_SIZE_COMMENT: Final = re.compile(r";\s*(MaxProcs|MaxNodes):\s*(\d+)")
_GZIP_MAGIC: Final = b"\x1f\x8b"


class Skip(StrEnum):
    """Why a part of a log was left out."""

    FIELD_COUNT = "line without 18 fields"
    NOT_A_NUMBER = "field that is no finite number"
    TRUNCATED = "compressed file broken off"
    NO_SUBMIT_TIME = "unknown submit time"
    NO_RUN_TIME = "run time not above 0"
    NO_PROCESSORS = "processors not above 0"
    LARGER_THAN_MACHINE = "more processors than the machine has"


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


_WHOLE: Final = tuple(SwfRecord.__annotations__[name] is int for name in SwfRecord._fields)


class SwfReader:
    """Iterates over the records of a log once, and keeps what its comments and errors told.

    `machine_procs` is the size that the comments read so far declare (MaxProcs before MaxNodes),
    None without one; `skipped` counts by reason what could not be read. Raises OSError when the
    file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped: Counter[Skip] = Counter()
        self._declared: dict[str, int] = {}

    @property
    def machine_procs(self) -> int | None:
        return self._declared.get("MaxProcs", self._declared.get("MaxNodes"))

    def __iter__(self) -> Iterator[SwfRecord]:
        for line in self._lines():
            text = line.strip()
            if text.startswith(";"):
                self._read_comment(text)
            elif text:
                record = parse_line(text)
                if isinstance(record, Skip):
                    self.skipped[record] += 1
                else:
                    yield record

    def _read_comment(self, comment: str) -> None:
        if (match := _SIZE_COMMENT.match(comment)) and int(match[2]) > 0:
            self._declared[match[1]] = int(match[2])

    def _lines(self) -> Iterator[str]:
        with _open_text(self.path) as log:
            try:
                yield from log
            except (EOFError, zlib.error, gzip.BadGzipFile):
                self.skipped[Skip.TRUNCATED] += 1


def _open_text(path: Path) -> IO[str]:
    """Open by content, not by name. Bytes that are no UTF-8 end as broken fields of their line."""
    with path.open("rb") as log:
        compressed = log.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    if compressed:
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def parse_line(line: str) -> SwfRecord | Skip:
    """The record of one line, or why it is none."""
    fields = line.split()
    if len(fields) != len(_WHOLE):
        return Skip.FIELD_COUNT
    try:
        numbers = [float(field) for field in fields]
    except ValueError:
        return Skip.NOT_A_NUMBER
    if not all(map(math.isfinite, numbers)):
        return Skip.NOT_A_NUMBER
    return SwfRecord._make(int(n) if w else n for n, w in zip(numbers, _WHOLE, strict=True))
