"""The columns of EAR's reports, whatever version wrote them.

Names differ between versions, and so do their order and what is between them; what a column holds
does not. `eacct` and EAR's library wrote AVG.FREQ at first, then AVG.CPUFREQ, then names with their
units; since then EAR's node manager adds what it measured itself, in columns NODEMGR_*.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coplace_client.errors import RejectedError
from shared.process.rows import MOST_TABLE_CHARACTERS, FileRow
from shared.process.user_files import LONGEST_LINE, lines

JOB: Final = "job"
STEP: Final = "step"
APP: Final = "application"
NODE: Final = "node"
POLICY: Final = "policy"
CLOCK: Final = "clock"
ASKED_CLOCK: Final = "clock that was asked for"
TIME: Final = "time"
POWER: Final = "power"
CPI: Final = "CPI"
TPI: Final = "TPI"
TRAFFIC: Final = "memory traffic"
MANAGER_CLOCK: Final = "clock of the node manager"
MANAGER_ASKED: Final = "clock that the node manager was asked for"
MANAGER_TIME: Final = "time of the node manager"
MANAGER_POWER: Final = "power of the node manager"

# As letters, digits and underscores alone, in capitals; the first that is there counts. APP_ID is a
# name, the later APPID is the number of an application within its step.
_NAMES: Final[Mapping[str, Sequence[str]]] = {
    JOB: ("JOBID", "JOB_ID"),
    STEP: ("STEPID", "STEP_ID"),
    APP: ("JOBNAME", "JOB_NAME", "APPNAME", "APP_NAME", "APP_ID"),
    NODE: ("NODENAME", "NODE_ID", "NODEID", "NODE"),
    POLICY: ("POLICY",),
    CLOCK: ("AVG_CPUFREQ_KHZ", "AVG_CPUFREQ", "AVG_FREQ_KHZ", "AVG_FREQ"),
    ASKED_CLOCK: ("DEF_FREQ_KHZ", "DEF_FREQ", "JOB_DEF_FREQ"),
    TIME: ("ITER_TIME_SEC", "TIME_SEC", "TIME"),
    POWER: ("DC_NODE_POWER_W", "DC_NODE_POWER"),
    CPI: ("CPI",),
    TPI: ("TPI",),
    TRAFFIC: ("MEM_GBS", "GBS"),
    MANAGER_CLOCK: ("NODEMGR_AVG_CPUFREQ_KHZ",),
    MANAGER_ASKED: ("NODEMGR_DEF_FREQ_KHZ",),
    MANAGER_TIME: ("NODEMGR_TIME_SEC",),
    MANAGER_POWER: ("NODEMGR_DC_NODE_POWER_W",),
}
_REQUIRED: Final = (JOB, CLOCK, TIME, POWER, CPI, TPI)
# A line with the names of so many of these is a header: no row of values has any.
_HEADER_NAMES: Final = 3
# Columns that only the signatures of loops have.
_OF_LOOPS: Final = {"ITER_TIME_SEC", "LOOPID", "LOOP_NEST_LEVEL", "FIRST_EVENT", "ITERATIONS"}
_SEPARATORS: Final = ";,\t|"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """The rows below one header of a report, and the names of its columns by what they hold.

    `broken` are the rows that have more or fewer columns than the header.
    """

    rows: Sequence[FileRow]
    broken: Sequence[FileRow]
    titles: Sequence[str]
    column: Mapping[str, str]
    separator: str
    is_of_loops: bool

    @property
    def form(self) -> str:
        """Return what kind of report it is, in words."""
        of = "loops" if self.is_of_loops else "applications"
        manager = ", with the node manager's own" if MANAGER_POWER in self.column else ""
        return f"signatures of {of} ({self.column[CLOCK]}{manager})"


@dataclass(frozen=True, slots=True)
class _Header:
    """The names of a report's columns."""

    line: int
    titles: Sequence[str]
    separator: str

    @classmethod
    def of_line(cls, line: int, text: str) -> "_Header":
        """Read a line as if it was one."""
        separator = max(_SEPARATORS, key=text.count)
        titles = [name.strip().strip('"').strip() for name in text.split(separator)]
        return cls(line, titles, separator)

    @property
    def there(self) -> Mapping[str, str]:
        """Return the columns by their plain names."""
        return {_plain(name): name for name in reversed(self.titles)}

    @property
    def column(self) -> Mapping[str, str]:
        """Return the names of columns by what they hold."""
        there = self.there
        return {
            what: found
            for what, names in _NAMES.items()
            if (found := next((there[name] for name in names if name in there), None))
        }

    @property
    def is_likely(self) -> bool:
        """Return whether this is a header: not whether it has all that is needed."""
        return len(self.column.keys() & {*_REQUIRED}) >= _HEADER_NAMES

    def require_all(self, path: Path) -> None:
        """Raise RejectedError where a column is missing."""
        for what in _REQUIRED:
            if what not in self.column:
                names = " or ".join(_NAMES[what])
                problem = f"{path} is not a report of EAR: a column {names} is missing"
                raise RejectedError(_NAMES[what][0], problem)


def read_tables(path: Path) -> list[ReportTable]:
    """Read a report; columns are recognised by their names, in any order and among any others.

    Reports that were written one behind the other have a header each. Lines above the first header
    count for nothing. Raises OSError when it cannot be read and RejectedError when it lacks a
    column that it needs, or rows.
    """
    parts: list[tuple[_Header, list[tuple[int, str]]]] = []
    first = _Header(0, (), ";")
    # Names of jobs may be in any encoding.
    text = lines(path, most=MOST_TABLE_CHARACTERS, longest=LONGEST_LINE, errors="replace")
    for number, line in enumerate(text, 1):
        header = _Header.of_line(number, line)
        first = first if first.titles else header
        if header.is_likely:
            header.require_all(path)
            parts.append((header, []))
        elif parts and line.strip():
            parts[-1][1].append((number, line))
    if not parts:
        first.require_all(path)
    tables = [_table(path, header, below) for header, below in parts]
    if not any(table.rows or table.broken for table in tables):
        raise RejectedError("rows", f"{path} has a header and no rows: add one row at least")
    return tables


def _table(path: Path, header: _Header, below: Sequence[tuple[int, str]]) -> ReportTable:
    """Return the rows below a header; empty columns at the end of either count for nothing."""
    reader = csv.reader(
        (line for _, line in below), delimiter=header.separator, skipinitialspace=True
    )
    width = _width(header.titles)
    rows: list[FileRow] = []
    broken: list[FileRow] = []
    try:
        for number, values in enumerate(reader, 1):
            is_whole = width <= len(values) and _width(values) <= max(width, len(header.titles))
            named = dict(zip(header.titles, values, strict=False))
            row = FileRow(path, number, below[reader.line_num - 1][0], named)
            (rows if is_whole else broken).append(row)
    except csv.Error as error:
        raise RejectedError("file", f"{path} is not a table in UTF-8 text: {error}") from error
    is_of_loops = not _OF_LOOPS.isdisjoint(header.there)
    return ReportTable(rows, broken, header.titles, header.column, header.separator, is_of_loops)


def _width(values: Sequence[str]) -> int:
    """Return how many columns there are up to the last one that is not empty."""
    return max((place for place, value in enumerate(values, 1) if value.strip()), default=0)


def _plain(name: str) -> str:
    return re.sub("[^A-Z0-9]+", "_", name.upper()).strip("_")
