"""The columns of EAR's reports, whatever version wrote them.

Names differ between versions, and so do their order and what is between them; what a column holds
does not. `eacct` and EAR's library wrote AVG.FREQ at first, then AVG.CPUFREQ, then names with their
units; since then EAR's node manager adds what it measured itself, in columns NODEMGR_*.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coplace_client.errors import RejectedError
from shared.process.rows import FileRow, read_rows
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
# Columns that only the signatures of loops have.
_OF_LOOPS: Final = {"ITER_TIME_SEC", "LOOPID", "LOOP_NEST_LEVEL", "FIRST_EVENT", "ITERATIONS"}
_SEPARATORS: Final = ";,\t"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """The rows of a report, and the names of its columns by what they hold."""

    rows: Sequence[FileRow]
    column: Mapping[str, str]
    separator: str
    is_of_loops: bool

    @property
    def form(self) -> str:
        """Return what kind of report it is, in words."""
        of = "loops" if self.is_of_loops else "applications"
        manager = ", with the node manager's own" if MANAGER_POWER in self.column else ""
        return f"signatures of {of} ({self.column[CLOCK]}{manager})"


def read_table(path: Path) -> ReportTable:
    """Read a report; columns are recognised by their names, in any order and among any others.

    Raises OSError when it cannot be read and RejectedError when it lacks a column that it needs.
    """
    header = next(lines(path, most=LONGEST_LINE), "")
    separator = max(_SEPARATORS, key=header.count)
    titles = [name.strip().strip('"').strip() for name in header.split(separator)]
    there = {_plain(name): name for name in reversed(titles)}
    column = {
        what: found
        for what, names in _NAMES.items()
        if (found := next((there[name] for name in names if name in there), None))
    }
    for what in _REQUIRED:
        if what not in column:
            names = " or ".join(_NAMES[what])
            problem = f"{path} is not a report of EAR: a column {names} is missing"
            raise RejectedError(_NAMES[what][0], problem)
    rows = read_rows(path, tuple(column.values()), delimiter=separator)
    return ReportTable(rows, column, separator, not _OF_LOOPS.isdisjoint(there))


def _plain(name: str) -> str:
    return re.sub("[^A-Z0-9]+", "_", name.upper()).strip("_")
