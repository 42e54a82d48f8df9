"""One way in which a job could run on a cluster, as it was evaluated."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import inf
from operator import attrgetter
from typing import Any, Final

from coplace_client.bounds import NODE_POWER_W
from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.scheduling.power import milliwatts
from shared.scheduling.problem import unit_cores


@dataclass(frozen=True, slots=True)
class SlowerMode:
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """One cluster that a decision weighs, as it was when the attempt arrived.

    `part_eff`, `rank` and `tier` are among all clusters: Choice has those that are there.
    `part_eff` is infinite on a cluster that the job does not fit on. `time_sd` and `power_sd` are
    relative standard deviations, None where nothing says how good a prediction is; `planned_s` and
    `planned_j` are the quantile of time and energy that rank and limit follow, and `draw_mw` is the
    same quantile of what all its nodes draw beyond idle: None in a state of before it was kept.
    `nodes` are units where the job asks for cores, each a `share` of a node. In one of the `slower`
    modes, tried in their order, the job may start where a cap of power refuses this one: None
    while nobody looked for them.

    States keep the fields by their place: a new one goes last, and has a default.
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
    draw_mw: int | None = None
    share: float = 1.0
    slower: tuple[SlowerMode, ...] | None = None

    @property
    def energy_j(self) -> float:
        """One node over `time_s`."""
        return self.power_w * self.time_s

    def drawing(self, draw_mw: int) -> "Candidate":
        """The candidate in the mode that draws so much: no two draw the same."""
        slower = next((mode for mode in self.slower or () if mode.draw_mw == draw_mw), None)
        if slower is None:
            return self
        changed = {name: getattr(slower, name) for name in SlowerMode.__slots__}
        return replace(self, **changed, slower=None)


# By job id and cluster.
Modes = Mapping[tuple[str, str], tuple[Candidate, ...]]


def draw_mw(job: Job, cluster: Cluster, node_w: float, units: int) -> int:
    """What so many units of a job draw beyond the idle power of their nodes, of which one used
    whole draws `node_w`: their share of the cores. What is predicted of a unit beyond what any node
    draws, as by coefficients of another machine, counts as that: no cap has it, and it can be
    counted."""
    cores = unit_cores(job, cluster)
    most_w = NODE_POWER_W.most * cluster.cores_per_node / cores
    beyond_idle_mw = milliwatts((min(node_w, most_w) - cluster.idle_power_w) * units)
    return max(0, beyond_idle_mw * cores // cluster.cores_per_node)


_OF_CANDIDATE: Final = tuple([each.name for each in fields(Candidate)])
_row: Final = attrgetter(*_OF_CANDIDATE)


def row_of(candidate: Candidate) -> tuple[Any, ...]:
    """A candidate as JSON keeps it: its fields by their place, which is half of the time and of the
    bytes that names take."""
    row: tuple[Any, ...] = _row(candidate)
    return row


def candidate_of(kept: dict[str, Any] | list[Any]) -> Candidate:
    """The candidate whose row went through JSON: a shorter one is of before there were the last
    fields, one by names of before there were rows."""
    fields = kept if isinstance(kept, dict) else dict(zip(_OF_CANDIDATE, kept, strict=False))
    if fields["part_eff"] is None:
        fields["part_eff"] = inf
    slower = fields.get("slower")
    modes = None if slower is None else tuple(SlowerMode(**mode) for mode in slower)
    return Candidate(**{**fields, "slower": modes})
