"""What a job is on a node: a tree of processes, or a control group of version 2."""

import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from coplace_agent.watchdog import CGROUP, PROCESS, Target, started_ticks, stat_fields

# A process that ended while it was looked at.
_GONE: Final = (FileNotFoundError, ProcessLookupError)
_STOPPED: Final = "Tt"
_ENDED: Final = "ZXx"


class NotAJobError(ValueError):
    """What was given cannot be a job: it is not there, or the agent is a part of it."""


class JobProcesses(Protocol):
    """The processes of a job, as they are at the moment."""

    def targets(self) -> list[Target]:
        """Return what to pause so that the job stops: nothing where it has ended, or where somebody
        else has stopped it."""
        ...

    def pids(self) -> list[int]:
        """Return the ids of all its processes."""
        ...

    @property
    def is_over(self) -> bool:
        """Return whether nothing of it is left."""
        ...


class _Process(NamedTuple):
    started_ticks: int
    state: str


def _process(pid: int) -> _Process:
    """Raises FileNotFoundError or ProcessLookupError for one that has ended."""
    fields = stat_fields(pid)
    return _Process(int(fields[19]), fields[0].decode())


class ProcessTree:
    """A process, what descends from it, and what was seen to and lost its parent since.

    Where a process leaves its parent between two looks it escapes: a control group holds it.
    """

    def __init__(self, pid: int, started: int = 0) -> None:
        """Raises NotAJobError where no such process runs, or it is not the one of that start."""
        try:
            self._started = {pid: started_ticks(pid)}
        except _GONE:
            raise NotAJobError(f"process {pid} does not run") from None
        if started not in (0, self._started[pid]):
            raise NotAJobError(f"process {pid} is another by now")

    def targets(self) -> list[Target]:
        """Return those of its processes that run or sleep."""
        found = self._look()
        return [(PROCESS, pid, each.started_ticks) for pid, each in found if _runs(pid, each)]

    def pids(self) -> list[int]:
        """Return the ids of its processes, stopped ones too."""
        return [pid for pid, _ in self._look()]

    @property
    def is_over(self) -> bool:
        """Return whether all have ended; those that wait to be reaped have."""
        return not any(each.state not in _ENDED or _threads(pid) for pid, each in self._look())

    def _look(self) -> list[tuple[int, _Process]]:
        known, self._started = self._started, {}
        found = []
        waiting = list(known)
        while waiting:
            pid = waiting.pop()
            with suppress(*_GONE):
                each = _process(pid)
                if pid in self._started or known.get(pid, each.started_ticks) != each.started_ticks:
                    continue
                self._started[pid] = each.started_ticks
                found.append((pid, each))
                waiting += _children(pid)
        return found


def _runs(pid: int, process: _Process) -> bool:
    """Threads may outlive the first one, which then looks as if the process had ended."""
    return process.state not in _STOPPED and (process.state not in _ENDED or _threads(pid))


def _threads(pid: int) -> bool:
    with suppress(*_GONE):
        return len(threads_of(pid)) > 1
    return False


def threads_of(pid: int) -> list[int]:
    """Return the ids of a process's threads. Raises FileNotFoundError or ProcessLookupError."""
    with os.scandir(f"/proc/{pid}/task") as found:
        return [int(thread.name) for thread in found]


def _children(pid: int) -> Iterator[int]:
    for thread in threads_of(pid):
        with suppress(*_GONE):
            file = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY)
            with os.fdopen(file, "rb", buffering=0) as children:
                yield from map(int, children.read().split())


class ControlGroup:
    """A control group of version 2 with all below it, which the kernel freezes as one."""

    def __init__(self, path: Path) -> None:
        """Raises NotAJobError for a path that is not a group, or has no freezer, as the root."""
        if not (path / "cgroup.freeze").is_file():
            raise NotAJobError(f"{path} is not a control group of version 2 with a cgroup.freeze")
        self._path = path

    def targets(self) -> list[Target]:
        """Return the group itself, unless somebody froze it."""
        with suppress(*_GONE):
            if (self._path / "cgroup.freeze").read_text().strip() == "0":
                return [(CGROUP, str(self._path), 0)]
        return []

    def pids(self) -> list[int]:
        """Return the processes of the group and of the groups below."""
        found: list[int] = []
        for folder, _, _ in os.walk(self._path):
            with suppress(*_GONE):
                found += map(int, Path(folder, "cgroup.procs").read_text().split())
        return found

    @property
    def is_over(self) -> bool:
        """Return whether no process is in it or below."""
        with suppress(*_GONE):
            return "populated 0" in (self._path / "cgroup.events").read_text()
        return True


def stands_still(target: Target) -> bool:
    """Return whether a target that was paused does no work: it has stopped, is frozen, or has
    ended."""
    kind, name, started = target
    with suppress(*_GONE):
        if kind == CGROUP:
            return "frozen 1" in Path(str(name), "cgroup.events").read_text()
        process = _process(int(name))
        is_another = process.started_ticks != started
        return is_another or not _runs(int(name), process)
    return True


def require_separate(processes: JobProcesses, others: AbstractSet[int], whose: str) -> None:
    """Raise NotAJobError where one of the others is in a job: who pauses it would pause them."""
    if others & set(processes.pids()):
        raise NotAJobError(f"a process of {whose} is in it")
