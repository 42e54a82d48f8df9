"""A job that runs on the emulated nodes: its progress, its neighbours, its meter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.typing import NDArray

from coplace_client.millicores import whole_cores
from lab.emulator.machine import Machine
from lab.emulator.shapes import Share, unit_on
from lab.emulator.truth.interference import slowdown_ratio
from lab.emulator.truth.laws import Behaviour
from lab.workloads.request import JobRequest
from shared.domain.parts import asked_in_all
from shared.domain.resources import Resources
from shared.scheduling.progress import Progress, slowest

ATTEMPT = 1  # the first of a job


@dataclass(frozen=True, slots=True)
class EmulatedUnits:
    """What placement gave a job: on each of `nodes` so many `units`, each of so many `millicores`,
    at `freq_ghz`."""

    nodes: tuple[int, ...]
    units: tuple[int, ...]
    millicores: int
    freq_ghz: float

    @property
    def all_millicores(self) -> int:
        """Return the thousandths of a core of all units."""
        return self.millicores * sum(self.units)

    @property
    def most_cores_on_a_node(self) -> int:
        """Return the cores of the node with most units, rounded up."""
        return whole_cores(self.millicores * max(self.units))


@dataclass(frozen=True, slots=True)
class TimeBeside:
    """A job's time beside one co-runner: since when, the which of its co-runs it is, and how slow
    the job is on the slowest of the nodes that both are on, where `co_runners` are paused together
    to see it."""

    co_runner: "RunningJob"
    began_us: int
    number: int
    slowdown_ratio: float
    co_runners: int
    core_share: float
    co_runner_core_share: float


@dataclass(slots=True, eq=False)
class RunningJob:
    """One job between its start and its end; `settle` sets its neighbours.

    `solo` is how this very run behaves alone on whole nodes at its P-state, noise included, with
    the power of the mean node; `progress` is the work left. `walltime_s` is the limit of a whole
    run at its P-state; it is suspended since `suspended_us`, None while it runs.
    """

    job_id: str
    request: JobRequest
    machine: Machine
    allocation: EmulatedUnits
    started_us: int
    solo: Behaviour
    progress: Progress
    deadline_us: int | None
    grant: int = 0
    attempt: int = ATTEMPT
    walltime_s: float = 0.0
    settled_us: int = 0
    suspended_us: int | None = None
    # Begin, P-state (0: suspended) and energy of the stretches of the run that are over.
    stretches: list[tuple[int, float, float]] = field(default_factory=list)
    co_runs: list[TimeBeside] = field(default_factory=list)
    co_runs_begun: int = 0
    # Power of the job's first node and the time from which it holds: what its meter shows.
    meter: list[tuple[int, float]] = field(default_factory=list)
    _since_us: int = field(init=False)
    _core_shares: dict[int, float] = field(init=False)

    def __post_init__(self) -> None:
        self.settled_us = self._since_us = self.started_us
        of_a_unit = self.allocation.millicores / self.machine.cluster.millicores_per_node
        placed = zip(self.allocation.nodes, self.allocation.units, strict=True)
        self._core_shares = {node: units * of_a_unit for node, units in placed}

    @property
    def shares(self) -> dict[int, Share]:
        """Return what it has of each of its nodes."""
        unit = unit_on(self.request, self.machine.cluster)
        placed = zip(self.allocation.nodes, self.allocation.units, strict=True)
        return {node: unit.times(units) for node, units in placed}

    @property
    def resources(self) -> Resources:
        """Return what it has beside cores and memory, in all."""
        units = sum(self.allocation.units)
        return asked_in_all(self.request.parts, self.request.resources_per_unit, units)

    @property
    def ends_at_us(self) -> int:
        """Return when it ends if its neighbours stay as they are."""
        done_us = self.settled_us + max(1, ceil(self.progress.remaining_s * 1e6))
        return done_us if self.deadline_us is None else min(done_us, self.deadline_us)

    @property
    def timed_out(self) -> bool:
        """Return whether its limit comes before its end."""
        return self.deadline_us is not None and self.ends_at_us == self.deadline_us

    @property
    def is_suspended(self) -> bool:
        """Return whether it is suspended: its nodes draw no more for it than they do idle."""
        return self.suspended_us is not None

    def core_share(self, node: int) -> float:
        """Return the share of a node's cores that it uses."""
        return self._core_shares[node]

    def demand_gbps(self, node: int) -> float:
        """Return the memory bandwidth that it would move alone on its share of a node."""
        return 0.0 if self.is_suspended else self.solo.mem_gbps * self._core_shares[node]

    def power_w(self, node: int) -> float:
        """Return its share of what one of its nodes draws: idle by its cores, the rest its own."""
        factor = float(self.machine.power_factors([node])[0])
        return self._node_w * factor * self._core_shares[node]

    @property
    def _node_w(self) -> float:
        """What a node draws that it has whole."""
        return self.machine.cluster.idle_power_w if self.is_suspended else self.solo.power_w

    def energy_j(self, until_us: int) -> float:
        """Return what it drew on all of its nodes since its start."""
        return sum(energy_j for _, _, energy_j in self.intervals(until_us))

    def intervals(self, until_us: int) -> list[tuple[int, float, float]]:
        """Begin, P-state (0: suspended) and energy of each stretch of the run."""
        freq_ghz = 0.0 if self.is_suspended else self.allocation.freq_ghz
        return [*self.stretches, (self._since_us, freq_ghz, self._energy_j(until_us))]

    def act(
        self,
        now_us: int,
        *,
        suspended: bool,
        allocation: EmulatedUnits,
        solo: Behaviour,
        walltime_s: float,
    ) -> None:
        """Suspend it or not, and let it run at another P-state, from now on: call `settle` of all
        on its nodes then."""
        self._advance(now_us)
        self.stretches = self.intervals(now_us)
        self._since_us = now_us
        self.progress.solo_s_left *= solo.time_s / self.solo.time_s
        self._move_deadline(now_us, walltime_s)
        self.suspended_us = now_us if suspended else None
        self.allocation, self.solo = allocation, solo

    def _move_deadline(self, now_us: int, walltime_s: float) -> None:
        """What is left of its limit waits while it is suspended, and stretches with the P-state."""
        stretch, self.walltime_s = walltime_s / self.walltime_s, walltime_s
        if self.deadline_us is not None:
            from_us = now_us if self.suspended_us is None else self.suspended_us
            self.deadline_us = now_us + round((self.deadline_us - from_us) * stretch)

    def _advance(self, now_us: int) -> None:
        if not self.is_suspended:
            self.progress.advance((now_us - self.settled_us) / 1e6)
        self.settled_us = now_us

    def _energy_j(self, until_us: int) -> float:
        """That of the present stretch."""
        shares: NDArray[np.float64] = np.fromiter(self._core_shares.values(), dtype=np.float64)
        factors = float((self.machine.power_factors(self.allocation.nodes) * shares).sum())
        return self._node_w * factors * (until_us - self._since_us) / 1e6

    def settle(self, now_us: int, beside: Mapping[int, Sequence["RunningJob"]]) -> list[TimeBeside]:
        """Set its neighbours from now on, by node; returns what it was beside until now."""
        ended, self.co_runs = self.co_runs, []
        self._advance(now_us)
        slowdowns = {node: self._slowdown(node, others) for node, others in beside.items()}
        self.progress.slowdown_ratio = slowest(slowdowns.values())
        for co_runner, nodes in sorted(_nodes_of(beside).items(), key=lambda item: item[0].job_id):
            node = max(nodes, key=lambda node: slowdowns[node])
            self._begin(co_runner, node, slowdowns[node], len(beside[node]))
        self._read_meter(now_us, beside.get(self.allocation.nodes[0], ()))
        return [co_run for co_run in ended if co_run.began_us < now_us]

    def _begin(self, co_runner: "RunningJob", node: int, slowdown: float, co_runners: int) -> None:
        self.co_runs_begun += 1
        co_run = TimeBeside(
            co_runner,
            self.settled_us,
            self.co_runs_begun,
            slowdown,
            co_runners,
            self.core_share(node),
            co_runner.core_share(node),
        )
        self.co_runs.append(co_run)

    def _slowdown(self, node: int, others: Sequence["RunningJob"]) -> float:
        """The demands of all neighbours on the node add up."""
        others_gbps = sum(other.demand_gbps(node) for other in others)
        return slowdown_ratio(self.demand_gbps(node), others_gbps)

    def _read_meter(self, now_us: int, others: Sequence["RunningJob"]) -> None:
        node = self.allocation.nodes[0]
        self.meter.append((now_us, node_power_w(node, (self, *others))))


def node_power_w(node: int, jobs: Sequence[RunningJob]) -> float:
    """Return what a node draws that these jobs have, suspended ones too: what nobody has of it
    idles."""
    machine = jobs[0].machine
    idle_w = machine.cluster.idle_power_w * float(machine.power_factors([node])[0])
    free = 1.0 - sum(job.core_share(node) for job in jobs)
    return idle_w * free + sum(job.power_w(node) for job in jobs)


def _nodes_of(beside: Mapping[int, Sequence[RunningJob]]) -> dict[RunningJob, list[int]]:
    """The nodes that each neighbour is on."""
    nodes: dict[RunningJob, list[int]] = {}
    for node, others in beside.items():
        for other in others:
            nodes.setdefault(other, []).append(node)
    return nodes
