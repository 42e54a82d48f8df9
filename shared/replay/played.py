"""A workload that was played, with what is known of its clusters and jobs."""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from coplace_client.errors import UnusableError
from shared.domain.energy_tariff import Tariff
from shared.scheduling.workload import Floats, Ints, Schedule, Workload

# The jobs' numbers in a log, or their natural keys.
JobIds = Ints | NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class SharedCap:
    """What clusters, by their indices, may draw together, units that idle included."""

    subject: str
    clusters: tuple[int, ...]
    cap_w: float


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """The clusters of a system: `units` of each, what one draws that idles and what all may draw,
    idle ones included, inf where nothing caps them, (clusters,); what a kWh costs on it, None
    where nobody said. `caps_count_idle` is False where caps are of dynamic power alone."""

    names: tuple[str, ...]
    units: Ints
    idle_w: Floats
    cap_w: Floats
    tariffs: tuple[Tariff, ...] | None = None
    shared_caps: tuple[SharedCap, ...] = ()
    caps_count_idle: bool = True

    @property
    def caps(self) -> list[SharedCap]:
        """Return all caps that there are, those of single clusters first."""
        own = enumerate(zip(self.names, self.cap_w.tolist(), strict=True))
        single = [SharedCap(name, (index,), cap_w) for index, (name, cap_w) in own if cap_w < inf]
        return [*single, *self.shared_caps]


@dataclass(frozen=True, slots=True, eq=False)
class Traits:
    """What is known of jobs whose application is: `freq_ghz` (jobs, clusters) is the P-state on
    each cluster, `best` (jobs,) the cluster of the least part_eff, `app` (jobs,) an index into
    `apps`."""

    freq_ghz: Floats
    best: Ints
    app: Ints
    apps: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """A workload, the schedule that came of it, and the fleet; columns of the shape (jobs,).

    `traits` is None for jobs of a log, which does not name their application. Raises UnusableError
    for a workload without a job.
    """

    workload: Workload
    schedule: Schedule
    fleet: Fleet
    traits: Traits | None = None

    def __post_init__(self) -> None:
        if not len(self.workload):
            raise UnusableError("a workload without a job has no result: give it one")

    def chosen(self, column: Floats | Ints) -> Floats | Ints:
        """Return of a column (jobs, clusters) the values where each job ran, (jobs,)."""
        return column[np.arange(len(self.workload)), self.schedule.cluster]

    @property
    def used_units(self) -> Ints:
        """Return the units that each job took."""
        return self.chosen(self.workload.units).astype(np.int64)

    @property
    def power_w(self) -> Floats:
        """Return the power of each job while it ran."""
        return self.chosen(self.workload.power_w).astype(np.float64)

    @property
    def runtime_s(self) -> Floats:
        """Return how long each job really ran."""
        return self.schedule.end_s - self.schedule.start_s

    @property
    def wait_s(self) -> Floats:
        """Return the time from submission to start."""
        return self.schedule.start_s - self.workload.submit_s

    @property
    def response_s(self) -> Floats:
        """Return the time from submission to end."""
        return self.schedule.end_s - self.workload.submit_s

    @property
    def energy_j(self) -> Floats:
        """Return the energy of each job."""
        return self.power_w * self.runtime_s

    @property
    def energy_cost(self) -> float | None:
        """Return what the energy of all jobs costs at the tariffs."""
        tariffs, schedule = self.fleet.tariffs, self.schedule
        if tariffs is None:
            return None
        jobs = zip(schedule.cluster, self.power_w, schedule.start_s, schedule.end_s, strict=True)
        return float(sum(tariffs[where].cost(*drawn) for where, *drawn in jobs))

    @property
    def makespan_s(self) -> float:
        """Return the time from the first submission to the last end."""
        return float(self.schedule.end_s.max() - self.workload.submit_s[0])
