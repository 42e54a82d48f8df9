"""Where a job was put, and until when it has its nodes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Final

from coplace.v1.jobs_pb2 import JobFinished


@dataclass(slots=True)
class JobAllocation:
    """Where a job was put: `units` of it on each of the nodes, one where there are none. `grant` is
    0 where a resource manager started it by itself. `draw_mw` is what the job draws there beyond
    idle; None until it was estimated. `freq_ghz` is 0 where placement did not choose it, and
    `plan_round` is that of the plan which it started by, None without. `power_sd` is how far its
    power may be off, as a share: None where its prediction did not say. `silent_units` of it are on
    nodes whose meters are silent, and `nameplate_mw` is what it counts for at least meanwhile.
    `predicted_mw` is what it draws as it was predicted, whatever meters show since. Where
    `power_unknown` nothing says what it draws, and `draw_mw` is what its nodes draw at most. Until
    it is started, `boot_s` is for how long nodes of it boot first. `partitions` are those that it
    runs in, one for each part of a gang; empty where it is in none."""

    cluster: str
    nodes: tuple[int, ...]
    limit_s: float
    ends_s: float
    grant: int = 0
    draw_mw: int | None = None
    units: tuple[int, ...] = ()
    freq_ghz: float = 0.0
    plan_round: int | None = None
    wanted_ghz: float = 0.0
    mode_limit_s: float = 0.0
    suspended_s: float | None = None
    power_sd: float | None = None
    silent_units: int = 0
    nameplate_mw: int = 0
    predicted_mw: int | None = None
    power_unknown: bool = False
    boot_s: float = 0.0
    partitions: tuple[str, ...] = ()

    def copy(self) -> "JobAllocation":
        """Return the same as another one: each start and each row of a run has one."""
        return JobAllocation(*_fields_of(self))

    @property
    def walltime_s(self) -> float:
        """Return the limit of a whole run at the present P-state."""
        return self.mode_limit_s or self.limit_s

    @property
    def counted_mw(self) -> int:
        """Return what the job draws beyond idle when it runs: by nameplate for silent meters."""
        return max(self.draw_mw or 0, self.nameplate_mw)

    @property
    def left_s(self) -> float:
        """Return what is left of the limit of a suspended job, a second at least."""
        assert self.suspended_s is not None
        return max(self.ends_s - self.suspended_s, 1.0)

    def run_on(self, now_s: float) -> None:
        """Resume the run: the time in which it was suspended counts for no limit."""
        if self.suspended_s is not None:
            self.prolong(max(now_s - self.suspended_s, 0.0))
            self.suspended_s = None

    def change(self, freq_ghz: float, draw_mw: int, walltime_s: float, now_s: float) -> None:
        """Set another P-state: what is left of the limit stretches as a whole run's does."""
        self.prolong(self.stretched_s(walltime_s, now_s))
        self.freq_ghz, self.draw_mw, self.mode_limit_s = freq_ghz, draw_mw, walltime_s
        self.predicted_mw = draw_mw

    def stretched_s(self, walltime_s: float, now_s: float) -> float:
        """Return by how much the end moves where a whole run may take so long from now on."""
        from_s = now_s if self.suspended_s is None else self.suspended_s
        return max(self.ends_s - from_s, 0.0) * (walltime_s / self.walltime_s - 1)

    def prolong(self, by_s: float) -> None:
        """Let the limit of this run end later, by so long: that of a whole run stays as it is."""
        self.mode_limit_s = self.walltime_s
        self.limit_s, self.ends_s = self.limit_s + by_s, self.ends_s + by_s

    @property
    def since_s(self) -> float:
        """Return when the resource manager started the job, or until it says so, when that was
        decided; where nodes of it boot first, when these are on."""
        return self.ends_s - self.limit_s

    def await_boot(self, boot_s: float) -> None:
        """Let nodes boot first: the start is expected, and the limit ends, later by as much."""
        self.ends_s, self.boot_s = self.ends_s + boot_s, self.boot_s + boot_s


_fields_of: Final = attrgetter(*(each.name for each in fields(JobAllocation)))


def share_ran(placed: JobAllocation | None, message: JobFinished) -> float | None:
    """Return the part of its limit that a job ran for, at most 1, while it still has its nodes;
    None where it did not run, or nobody says for how long."""
    if placed is None or not message.started_at_us or not placed.limit_s:
        return None
    run_s = (message.ended_at_us - message.started_at_us) / 1e6
    return min(max(run_s, 0.0) / placed.limit_s, 1.0)


def runs_of(nodes: Sequence[int]) -> list[int]:
    """Return first and count of each run of indices that follow one another, one after the other: a
    job on all nodes of the largest cluster takes no more than one on a few."""
    runs: list[int] = []
    for node in nodes:
        if runs and node == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += [node, 1]
    return runs


def nodes_of(runs: Sequence[int]) -> Iterator[int]:
    """Yield the indices that `runs_of` wrote."""
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        yield from range(first, first + count)
