"""One way in which a job could run on a cluster, as it was evaluated."""

from collections.abc import Mapping
from typing import NamedTuple

from coplace_client.bounds import NODE_POWER_W
from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.scheduling.power import milliwatts
from shared.scheduling.problem import unit_cores


class SlowerMode(NamedTuple):
    """What of a candidate is another at a lower P-state."""

    freq_ghz: float
    time_s: float
    power_w: float
    time_sd: float | None
    power_sd: float | None
    planned_s: float
    planned_j: float
    distance: float
    walltime_s: float
    draw_mw: int


class Candidate(NamedTuple):
    """One cluster that a decision compares, as it was when the attempt arrived.

    `part_eff`, `rank` and `tier` are among all clusters: Choice has those that are there.
    `part_eff` is infinite on a cluster that the job does not fit on. `time_sd` and `power_sd` are
    relative standard deviations, None where nothing says how good a prediction is; `planned_s` and
    `planned_j` are the quantile of time and energy that rank and limit follow, and `draw_mw` is the
    same quantile of what all its nodes draw beyond idle. `nodes` are units where the job asks for
    cores, each a `share` of a node. In one of the `slower` modes, tried in their order, the job may
    start where a cap of power refuses this one: None while nobody looked for them.

    A tuple, since rows of thousands of them are written in a round.
    """

    cluster: str
    freq_ghz: float
    known: bool
    time_s: float
    power_w: float
    time_sd: float | None
    power_sd: float | None
    planned_s: float
    planned_j: float
    distance: float
    part_eff: float
    walltime_s: float
    rank: int
    tier: int
    nodes: int
    coefficients_version: str
    power_model_version: str
    draw_mw: int
    share: float = 1.0
    slower: tuple[SlowerMode, ...] | None = None

    @property
    def energy_j(self) -> float:
        """Return the energy of one node over `time_s`."""
        return self.power_w * self.time_s

    def drawing(self, draw_mw: int) -> "Candidate":
        """Return the candidate in the mode that draws so much: no two draw the same."""
        slower = next((mode for mode in self.slower or () if mode.draw_mw == draw_mw), None)
        if slower is None:
            return self
        return self._replace(**slower._asdict(), slower=None)


# By job id and cluster.
Modes = Mapping[tuple[str, str], tuple[Candidate, ...]]


def draw_mw(job: Job, cluster: Cluster, node_w: float, units: int) -> int:
    """Return what so many units of a job draw beyond the idle power of their nodes, mW.

    A node that is used whole draws `node_w`, a unit its share of the cores. What is predicted of a
    unit beyond what any node draws, as by coefficients of another machine, counts as that: no cap
    has it, and it can be counted.
    """
    cores = unit_cores(job, cluster)
    most_w = NODE_POWER_W.most * cluster.cores_per_node / cores
    beyond_idle_mw = milliwatts((min(node_w, most_w) - cluster.idle_power_w) * units)
    return max(0, beyond_idle_mw * cores // cluster.cores_per_node)
