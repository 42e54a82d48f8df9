"""What is free on each node in each second, in lists: to this a plan of parts of nodes keeps."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

# Beyond it nothing is looked at.
HORIZON_S = 400


class PlainUnits(NamedTuple):
    """Units of a job, all on `nodes`; at most so many on one, and nobody beside them where it is
    alone. Of a `reservation` it runs within its time."""

    submit_s: int
    units: int
    cores: int
    memory: int
    most: int
    nodes: tuple[int, ...]
    alone: bool
    limit_s: int
    run_s: int
    licences: int = 0
    is_of_window: bool = False
    watts: int = 0


class PlainWindow(NamedTuple):
    """Nodes that are kept from one second until another for the jobs of a reservation."""

    from_s: int
    until_s: int
    nodes: tuple[int, ...]


class FreeBySecond:
    """Free cores and memory, and how many jobs are there, `[node][second]` from one second on; free
    watts."""

    def __init__(
        self,
        nodes: int,
        cores: int,
        memory: int,
        watts: int,
        now_s: int,
        window: PlainWindow | None,
    ) -> None:
        self.now_s, self._window = now_s, window
        seconds = range(HORIZON_S)
        self.watts = [watts for _ in seconds]
        self.cores = [[cores for _ in seconds] for _ in range(nodes)]
        self.memory = [[memory for _ in seconds] for _ in range(nodes)]
        self.jobs = [[0 for _ in seconds] for _ in range(nodes)]
        self.alone = [[False for _ in seconds] for _ in range(nodes)]

    def take(self, job: PlainUnits, on: Mapping[int, int], from_s: int, until_s: int) -> None:
        """Have less free in between."""
        seconds = range(from_s - self.now_s, min(until_s - self.now_s, HORIZON_S))
        for at in seconds:
            self.watts[at] -= job.watts
        for node, units in on.items():
            for at in seconds:
                self.cores[node][at] -= units * job.cores
                self.memory[node][at] -= units * job.memory
                self.jobs[node][at] += 1
                self.alone[node][at] |= job.alone

    def fits_on(self, job: PlainUnits, node: int, from_s: int) -> int:
        """How many units fit on a node from a second on until the limit."""
        if node not in job.nodes or self._is_shut(job, node, from_s):
            return 0
        fits = job.most or job.units
        for at in range(from_s - self.now_s, from_s - self.now_s + job.limit_s):
            if self.alone[node][at] or (job.alone and self.jobs[node][at]):
                return 0
            fits = min(fits, self.cores[node][at] // job.cores)
            if job.memory:
                fits = min(fits, self.memory[node][at] // job.memory)
        return max(fits, 0)

    def fits(self, job: PlainUnits, from_s: int) -> bool:
        """Whether all units fit from a second on until the limit."""
        first = from_s - self.now_s
        if min(self.watts[first : first + job.limit_s]) < job.watts:
            return False
        return sum(self.fits_on(job, node, from_s) for node in job.nodes) >= job.units

    def earliest_s(self, job: PlainUnits, until_s: int) -> int | None:
        """The first second before another at which a job fits; None where there is none."""
        seconds = range(self.now_s, min(until_s, self.now_s + HORIZON_S - job.limit_s))
        return next((at_s for at_s in seconds if self.fits(job, at_s)), None)

    def _is_shut(self, job: PlainUnits, node: int, from_s: int) -> bool:
        window, end_s = self._window, from_s + job.limit_s
        if window is None:
            return job.is_of_window
        if job.is_of_window:
            late_s = window.from_s + (window.until_s - window.from_s) / 2
            is_late = from_s > late_s or job.limit_s > window.until_s - window.from_s
            return from_s < window.from_s or (end_s > window.until_s and is_late)
        return node in window.nodes and from_s < window.until_s and end_s > window.from_s


def licences_of(jobs: Sequence[PlainUnits]) -> int:
    """How many licences jobs have."""
    return sum(job.licences for job in jobs)
