"""A watcher of squeue and sinfo, which knows nothing of Coplace."""

import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from shared.domain.hostlist import expand
from tests.slurm.lines import Line
from tests.slurm.site import MEMORY_MB, MODELS
from tests.support.slurm import LocalSlurm

_COLUMNS: Final = {
    "JobArrayID": 24,
    "State": 16,
    "NodeList": 60,
    "SubmitTime": 14,
    "StartTime": 14,
    "EndTime": 14,
    "RestartCnt": 8,
    "Reason": 60,
}
_FORMAT: Final = ",".join(f"{name}:{width}" for name, width in _COLUMNS.items())
_TASK: Final = re.compile(r"(\d+)(?:[_+](\d+))?")
_ENDED: Final = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"}
)
_GOOD: Final = frozenset({"IDLE", "MIXED", "ALLOCATED", "IDLE+RESERVED", "MIXED+RESERVED"})
_NODE: Final = re.compile(
    r"NodeName=(?P<name>\S+) .*?CPUAlloc=(?P<busy>\d+).*?CPUTot=(?P<cores>\d+) .*?"
    r"RealMemory=(?P<memory>\d+) AllocMem=(?P<given>\d+) .*?State=(?P<state>\S+)"
)


class ShownJob(NamedTuple):
    """A job, or one task of an array, as squeue shows it; times are seconds since 1970, 0: none."""

    number: int
    task: int
    state: str
    nodes: str
    submit_s: int
    start_s: int
    end_s: int
    restarts: int
    reason: str

    @property
    def is_over(self) -> bool:
        """Return whether it has ended."""
        return self.state in _ENDED

    @property
    def has_run(self) -> bool:
        """Return whether it had nodes."""
        return bool(self.nodes) and self.start_s > 0 and self.state != "PENDING"

    @property
    def names(self) -> list[str]:
        """Return its nodes."""
        return expand(self.nodes) if self.nodes else []


class Room(NamedTuple):
    """What of a node nobody has."""

    cores: int
    memory_mb: int
    is_idle: bool


def shown_jobs(slurm: LocalSlurm) -> list[ShownJob]:
    """Return all that this Slurm has had; none while it does not answer."""
    said = _said(slurm, "squeue", "--states=all", "--array", "--noheader", f"--Format={_FORMAT}")
    return [job for line in said.splitlines() for job in _job_of(line)]


def _job_of(line: str) -> Iterator[ShownJob]:
    fields, at = [], 0
    for width in _COLUMNS.values():
        fields.append(line[at : at + width].strip())
        at += width
    named = _TASK.match(fields[0])
    if named is not None:
        submit_s, start_s, end_s, restarts = (
            int(each) if each.isdecimal() else 0 for each in fields[3:7]
        )
        yield ShownJob(
            number=int(named[1]),
            task=int(named[2] or 0),
            state=fields[1],
            nodes=fields[2],
            submit_s=submit_s,
            start_s=start_s,
            end_s=end_s,
            restarts=restarts,
            reason=fields[7],
        )


def rooms(slurm: LocalSlurm) -> dict[str, Room]:
    """Return what is free of the nodes that take jobs."""
    found = {}
    for line in _said(slurm, "scontrol", "show", "node", "--oneliner").splitlines():
        node = _NODE.match(line)
        if node is not None and node["state"] in _GOOD:
            busy = int(node["busy"])
            free_mb = int(node["memory"]) - int(node["given"])
            found[node["name"]] = Room(int(node["cores"]) - busy, free_mb, busy == 0)
    return found


class Eligible:
    """When jobs could start at the earliest, by what their users asked for and what became of the
    jobs that they wait for."""

    def __init__(
        self,
        lines: Sequence[Line],
        places: Mapping[int, int],
        jobs: Sequence[ShownJob],
        released_s: Mapping[int, float],
    ) -> None:
        """`places` are those of lines by Slurm's numbers; `released_s` is when which line was let
        in that its user held."""
        self._lines, self._places, self._released_s = lines, places, released_s
        self._of_place: dict[int, list[ShownJob]] = {}
        for job in jobs:
            if job.number in places:
                self._of_place.setdefault(places[job.number], []).append(job)

    def since_s(self, job: ShownJob) -> float | None:
        """Return when a job became eligible; None: it is not."""
        place = self._places[job.number]
        line = self._lines[place]
        times_s: list[float | None] = [float(job.submit_s + line.begin_s)]
        if line.release_s:
            times_s.append(self._released_s.get(place))
        times_s += [self._happened_s(how, self._of_place.get(at, ())) for how, at in line.awaits]
        if line.is_single:
            before = (at for at, each in enumerate(self._lines[:place]) if each.is_single)
            times_s += [self._happened_s("afterany", self._of_place.get(at, ())) for at in before]
        known = [each for each in times_s if each is not None]
        return max(known) if len(known) == len(times_s) else None

    def _happened_s(self, how: str, awaited: Sequence[ShownJob]) -> float | None:
        if how == "after":
            begun = [job.start_s if job.has_run else job.is_over and job.end_s for job in awaited]
            return float(max(begun)) if begun and all(begun) else None
        if not awaited or not all(job.is_over for job in awaited):
            return None
        return float(max(job.end_s for job in awaited))


class Watcher:
    """What a Slurm shows over time: reasons, and how long nodes were idle beside jobs that wait.

    Two clocks run. A node is wasted while nothing runs on it and the same job, which is eligible,
    could start there, alone or with others that are idle too. A job is passed over while it fits
    on nodes, idle or not, that no job before it waits for.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self.reasons: set[str] = set()
        self.longest_wasted_s, self.longest_passed_s = 0.0, 0.0
        self.longest: dict[str, str] = {}
        self._wasted_since_s: dict[str, float] = {}
        self._passed_since_s: dict[str, float] = {}

    def note(
        self,
        jobs: Sequence[ShownJob],
        rooms_now: Mapping[str, Room],
        places: Mapping[int, int],
        eligible: Eligible,
    ) -> None:
        """Note what is shown now."""
        self.reasons |= {job.reason for job in jobs if job.state == "PENDING"}
        waiting = [
            (job, self._lines[places[job.number]])
            for job in sorted(jobs)
            if job.state == "PENDING" and self._waits(job, jobs, places, eligible)
        ]
        now_s = time.monotonic()
        wasted = dict(_wasted(waiting, rooms_now))
        self.longest_wasted_s = self._longest(
            "node", wasted, self._wasted_since_s, now_s, self.longest_wasted_s
        )
        passed = dict(_passed(waiting, rooms_now))
        self.longest_passed_s = self._longest(
            "job", passed, self._passed_since_s, now_s, self.longest_passed_s
        )

    def _longest(
        self,
        kind: str,
        now: Mapping[str, str],
        since_s: dict[str, float],
        now_s: float,
        before_s: float,
    ) -> float:
        for gone in since_s.keys() - now.keys():
            del since_s[gone]
        for each in now:
            lasts_s = now_s - since_s.setdefault(each, now_s)
            if lasts_s > before_s:
                before_s = lasts_s
                self.longest[kind] = f"{each}: {now[each]}"
        return before_s

    def _waits(
        self,
        job: ShownJob,
        jobs: Sequence[ShownJob],
        places: Mapping[int, int],
        eligible: Eligible,
    ) -> bool:
        """Return whether a job waits for nothing but nodes. Those that have licences wait for
        others that do."""
        if job.number not in places:
            return False
        line = self._lines[places[job.number]]
        since_s = eligible.since_s(job)
        if since_s is None or since_s > time.time() or line.licences:
            return False
        # Slurm lets what was requeued wait for two minutes.
        beside = sum(other.number == job.number and other.state == "RUNNING" for other in jobs)
        return not job.restarts and (not line.tasks or beside < line.at_once)


def _wasted(
    waiting: Sequence[tuple[ShownJob, Line]], rooms_now: Mapping[str, Room]
) -> Iterator[tuple[str, str]]:
    """The idle nodes on which a job could start, which no wider one before it waits for, nor a
    heterogeneous one."""
    idle = {name: room for name, room in rooms_now.items() if room.is_idle}
    for job, line in waiting:
        if line.beside:
            for each in _of_either_part(line) & idle.keys():
                del idle[each]
            continue
        places = _places(line, idle)
        if len(places) >= max(line.nodes, 1):
            name = f"{job.number}_{job.task}"
            yield from ((f"{each} beside {name}", f"{line.kind}, {job.reason}") for each in places)
        else:
            for each in places:
                del idle[each]


def _passed(
    waiting: Sequence[tuple[ShownJob, Line]], rooms_now: Mapping[str, Room]
) -> Iterator[tuple[str, str]]:
    """The jobs that fit on nodes that no job before them waits for."""
    left = dict(rooms_now)
    for job, line in waiting:
        if not line.beside and len(_places(line, left)) >= max(line.nodes, 1):
            yield f"{job.number}_{job.task}", f"{line.kind}, {job.reason}"
        for each in _of_either_part(line) & left.keys():
            del left[each]


def _of_either_part(line: Line) -> frozenset[str]:
    """Return the nodes that a job may wait for."""
    return line.may_use | line.beside_may_use if line.beside else line.may_use


def _places(line: Line, rooms_now: Mapping[str, Room]) -> frozenset[str]:
    """The nodes that each could have a part of a job: those of one model, on which it may be as a
    whole."""
    memory_mb = line.memory_mb or MEMORY_MB * line.cores_a_node
    fit = {
        name
        for name in line.may_use & rooms_now.keys()
        if rooms_now[name].cores >= line.cores_a_node
        and rooms_now[name].memory_mb >= memory_mb
        and (rooms_now[name].is_idle or not line.is_exclusive)
    }
    return max((frozenset(fit) & model for model in MODELS), key=len)


def _said(slurm: LocalSlurm, *command: str) -> str:
    environment = {**slurm.environment, "SLURM_TIME_FORMAT": "%s"}
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)
    return done.stdout.decode(errors="replace")
