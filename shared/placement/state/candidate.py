"""One way in which a job could run on a cluster, as it was evaluated."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import Final, NamedTuple

from coplace_client.bounds import NODE_POWER_W
from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.scheduling.power import milliwatts
from shared.scheduling.problem import unit_millicores
from shared.streams.state.rows import RowCodec


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
    start where a cap of power refuses this one: None while nobody looked for them. Where
    `power_unknown` nothing says what the job draws, and `draw_mw` is what its nodes draw at most.
    `explores_from_ghz` is the P-state that the policy would choose where the job runs at a second
    clock of its application instead.

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
    power_unknown: bool = False
    explores_from_ghz: float | None = None

    @property
    def energy_j(self) -> float:
        """Return the energy of one node over `time_s`."""
        return self.power_w * self.time_s

    def drawing(self, draw_mw: int) -> "Candidate":
        """Return the candidate in the mode that draws so much: no two draw the same."""
        slower = next((mode for mode in self.slower or () if mode.draw_mw == draw_mw), None)
        if slower is None:
            return self
        return self._replace(**slower._asdict(), slower=None, explores_from_ghz=None)


# The version before said neither of what power is unknown nor what explores a second clock.
CANDIDATES: Final = RowCodec[tuple[Candidate, ...]](
    tuple[Candidate, ...], version=2, previous=RowCodec(tuple[Candidate, ...]).decode
)
# By job id and cluster.
Modes = Mapping[tuple[str, str], tuple[Candidate, ...]]


def draw_mw(job: Job, cluster: Cluster, node_w: float, units: int) -> int:
    """Return what so many units of a job draw beyond the idle power of their nodes, mW.

    A node that is used whole draws `node_w`, a unit its share of the cores. What is predicted of a
    unit beyond what any node draws, as by coefficients of another machine, counts as that: no cap
    has it, and it can be counted.
    """
    millicores, of_node = unit_millicores(job, cluster), cluster.millicores_per_node
    most_w = NODE_POWER_W.most * of_node / millicores
    beyond_idle_mw = milliwatts((min(node_w, most_w) - cluster.idle_power_w) * units)
    return max(0, beyond_idle_mw * millicores // of_node)


def nameplate_mw(job: Job, cluster: Cluster, units: int) -> int:
    """Return what so many units of a job draw at most beyond the idle power of their nodes, mW; 0
    where the cluster declares nothing that it follows from.

    A unit draws its share of what a node draws at most, by its cores, and beyond that the design
    power of its accelerators. Of a resource without a design power it may draw its share too.
    """
    beyond_mw = ceil(cluster.most_node_w * 1000) - milliwatts(cluster.idle_power_w)
    if beyond_mw <= 0:
        return 0
    share = Fraction(unit_millicores(job, cluster), cluster.millicores_per_node)
    if share == 1 or not job.resources_per_unit:
        return ceil(beyond_mw * share) * units
    classes = cluster.node_classes
    node_w = max(cluster.accelerators_w(each.resources) for each in classes)
    own_mw = ceil(cluster.accelerators_w(job.resources_per_unit) * 1000)
    own_mw -= int(share * milliwatts(node_w))
    share = max([share, *_unrated_shares(job, cluster)])
    return min(beyond_mw, ceil(beyond_mw * share) + max(0, own_mw)) * units


def _unrated_shares(job: Job, cluster: Cluster) -> Iterator[Fraction]:
    """Yield the largest part of a node's that a unit has of each resource without design power."""
    for name, count in job.resources_per_unit:
        if not cluster.accelerators_w(((name, 1),)):
            there = [dict(each.resources).get(name, 0) for each in cluster.node_classes]
            yield Fraction(count, min((has for has in there if has >= count), default=count))
