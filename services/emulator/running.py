"""A job that runs on the emulated nodes: its progress, its neighbour, its meter."""

from dataclasses import dataclass, field
from math import ceil

from services.emulator.machine import Machine
from services.emulator.truth.interference import slowdown_ratio
from services.emulator.truth.laws import Behaviour
from shared.workloads.request import JobRequest

ATTEMPT = 1  # the emulated resource managers never requeue


@dataclass(frozen=True, slots=True)
class Allocation:
    """What placement gave a job: `cores` of each of `nodes` at `freq_ghz`."""

    nodes: tuple[int, ...]
    cores: int
    freq_ghz: float


@dataclass(slots=True, eq=False)
class Running:
    """One job between its start and its end.

    `solo` is how this very run behaves alone on whole nodes, noise included, with the power of the
    mean node; `solo_s_left` is the work left, in seconds of running alone.
    """

    job_id: str
    request: JobRequest
    machine: Machine
    allocation: Allocation
    started_us: int
    solo: Behaviour
    solo_s_left: float
    deadline_us: int | None
    grant: int = 0
    settled_us: int = 0
    slowdown_ratio: float = 1.0
    co_runner: "Running | None" = None
    beside_since_us: int = 0
    co_runs: int = 0
    # Power of the job's first node and the time from which it holds: what its meter shows.
    meter: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settled_us = self.started_us
        self._read_meter(self.started_us)

    @property
    def core_share(self) -> float:
        """Share of each of its nodes' cores that the job uses."""
        return self.allocation.cores / self.machine.cluster.cores_per_node

    @property
    def ends_at_us(self) -> int:
        """When it ends if its neighbour stays as it is."""
        done_us = self.settled_us + max(1, ceil(self.solo_s_left * self.slowdown_ratio * 1e6))
        return done_us if self.deadline_us is None else min(done_us, self.deadline_us)

    @property
    def timed_out(self) -> bool:
        """True when its limit comes before its end."""
        return self.deadline_us is not None and self.ends_at_us == self.deadline_us

    @property
    def demand_gbps(self) -> float:
        """Memory bandwidth that it would move alone on its share of a node."""
        return self.solo.mem_gbps * self.core_share

    def power_w(self, node: int) -> float:
        """Its share of what one of its nodes draws: idle by its cores, the rest its own."""
        factor = float(self.machine.power_factors([node])[0])
        return self.solo.power_w * factor * self.core_share

    def energy_j(self, until_us: int) -> float:
        """What it drew on all of its nodes since its start."""
        factors = float(self.machine.power_factors(self.allocation.nodes).sum())
        return self.solo.power_w * factors * self.core_share * (until_us - self.started_us) / 1e6

    def meets(self, other: "Running", now_us: int) -> None:
        """`other` starts on the same nodes."""
        for job, neighbour in ((self, other), (other, self)):
            job.co_runner = neighbour
            job.beside_since_us = now_us
            job.co_runs += 1
            job._settle(now_us, slowdown_ratio(job.demand_gbps, neighbour.demand_gbps))

    def leaves(self, now_us: int) -> "Running | None":
        """The neighbour, alone again from now on; None when there is none."""
        other, self.co_runner = self.co_runner, None
        if other is not None:
            other.co_runner = None
            other._settle(now_us, 1.0)
        return other

    def _settle(self, now_us: int, slowdown: float) -> None:
        self.solo_s_left -= (now_us - self.settled_us) / 1e6 / self.slowdown_ratio
        self.settled_us = now_us
        self.slowdown_ratio = slowdown
        self._read_meter(now_us)

    def _read_meter(self, now_us: int) -> None:
        node = self.allocation.nodes[0]
        jobs = [job for job in (self, self.co_runner) if job is not None]
        idle_w = self.machine.cluster.idle_power_w * float(self.machine.power_factors([node])[0])
        free = 1.0 - sum(job.core_share for job in jobs)
        self.meter.append((now_us, idle_w * free + sum(job.power_w(node) for job in jobs)))
