"""The candidates of a job: predictions, rank and limit on every cluster.

Predictions are of one node used whole: the half of the cores that a shareable job uses is the same
on every cluster. Energy counts once more for each time the nodes asked for that a cluster needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isnan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from services.placement.predictions import (
    ClusterKnowledge,
    Predictions,
    predict,
    reference_columns,
)
from shared.domain.cluster import Cluster
from shared.domain.job import MOST_PRIORITY, Job
from shared.policies.backfill.queue import Entry, order_of
from shared.policies.frequency import Reading, Weighing
from shared.policies.power_model import PowerModel
from shared.policies.ranking import (
    EXCLUDED,
    FREQUENCY_RULES,
    NO_PREFERENCE,
    Policy,
    part_eff,
    rank_clusters,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A tier is as many bands of the queue as there are priorities.
_PRIORITIES: Final = 2 * MOST_PRIORITY + 1


@dataclass(frozen=True, slots=True)
class Rules:
    """The policy and its parameters; see PlacementSettings."""

    policy: Policy = Policy.PRIORITY_INC_V
    t_weight: float = 1.0
    threshold: float = 0.35
    reading: Reading = Reading.DIMENSIONLESS
    max_slowdown: float = 1.25
    quantile: float = 0.5
    start_timeout_s: float = 300.0
    most_missed_starts: int = 3
    most_applications: int = 10_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """One cluster that a decision weighs. `rank` is EXCLUDED where the job has no queue entry.

    `part_eff` is infinite on a cluster that the job does not fit on. `time_sd` and `power_sd` are
    relative standard deviations, None where nothing says how good a prediction is; `planned_s` and
    `planned_j` are the quantile of time and energy that rank and limit follow.
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

    @property
    def energy_j(self) -> float:
        """One node over `time_s`."""
        return self.power_w * self.time_s

    @property
    def waits(self) -> bool:
        """True when the policy has an entry for this cluster."""
        return self.rank != EXCLUDED

    @property
    def fits(self) -> bool:
        """True when the cluster could run the job."""
        return self.part_eff != inf

    def entry(self, job: Job, arrival: int, app: int) -> Entry:
        """The job's place in the queue of this cluster: by (tier, priority, arrival, rank)."""
        band = self.tier * _PRIORITIES + MOST_PRIORITY - job.priority
        order = order_of(band, arrival, self.rank)
        return Entry(order, arrival, self.nodes, self.walltime_s, job.shareable, app)


def favourite(candidates: Sequence[Candidate]) -> Candidate:
    """The one that a job would go to before all others."""
    return min(candidates, key=lambda c: (not c.waits, c.tier, c.rank))


def misfit(job: Job, cluster: Cluster) -> str:
    """Why a cluster can never run the job; empty when it can."""
    if not job.runs_on(cluster):
        wanted, given = " or ".join(job.architectures), cluster.architecture or "not declared"
        return f"has binaries for {wanted}, the cluster's architecture is {given}"
    nodes = job.nodes_on(cluster)
    if nodes <= cluster.nodes:
        return ""
    memory = f" for its {job.memory_gib:g} GiB" if nodes > job.nodes else ""
    return f"needs {nodes} nodes{memory}, the cluster has {cluster.nodes}"


def evaluate(
    jobs: Sequence[Job],
    clusters: Sequence[ClusterKnowledge],
    power_model: PowerModel,
    rules: Rules,
) -> list[tuple[Candidate, ...]]:
    """The candidates of each job, one a cluster, clusters as given. Every reference cluster must
    be among them.

    A job whose application no cluster knows goes first to its reference cluster.
    """
    if not jobs:
        return []
    rule = FREQUENCY_RULES[rules.policy]
    weighing = Weighing(rules.t_weight, rules.reading)
    found = predict(jobs, clusters, power_model, rule, weighing, rules.quantile)
    planned = found.planned
    reference = reference_columns(jobs, clusters)
    fits = np.array([[not misfit(job, c.cluster) for c in clusters] for job in jobs])
    nodes = [[job.nodes_on(c.cluster) for c in clusters] for job in jobs]
    energy_j = planned.energy_j * _more_nodes(jobs, nodes)
    efficiency = part_eff(energy_j, planned.time_s, fits, weighing)
    preferred = np.where(found.known.any(axis=1), NO_PREFERENCE, reference)
    ranking = rank_clusters(
        efficiency,
        rules.policy,
        threshold=rules.threshold,
        reading=rules.reading,
        preferred=preferred,
    )
    limit_s = limits(jobs, found, reference, rules.max_slowdown)
    columns = (
        found.freq_ghz,
        found.known,
        found.time_s,
        found.power_w,
        found.time_sd,
        found.power_sd,
        planned.time_s,
        planned.energy_j,
        found.distance,
        efficiency,
        limit_s,
        ranking.rank,
        ranking.tier,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        tuple(map(partial(_candidate, job.app_id, power_model.version), clusters, needed, *row))
        for job, needed, row in zip(jobs, nodes, rows, strict=True)
    ]


def _more_nodes(jobs: Sequence[Job], nodes: Sequence[Sequence[int]]) -> Floats:
    """How many times the nodes that it asked for each job takes on each cluster: its energy grows
    with them, its time counts as the same."""
    asked = np.array([job.nodes for job in jobs], dtype=np.float64)
    return np.asarray(np.array(nodes, dtype=np.float64) / asked[:, np.newaxis])


def _candidate(
    app_id: str,
    power_version: str,
    on: ClusterKnowledge,
    nodes: int,
    freq_ghz: float,
    known: bool,
    time_s: float,
    power_w: float,
    time_sd: float,
    power_sd: float,
    planned_s: float,
    planned_j: float,
    distance: float,
    efficiency: float,
    limit_s: float,
    rank: int,
    tier: int,
) -> Candidate:
    return Candidate(
        cluster=on.cluster.name,
        freq_ghz=freq_ghz,
        known=known,
        time_s=time_s,
        power_w=power_w,
        time_sd=None if isnan(time_sd) else time_sd,
        power_sd=None if isnan(power_sd) else power_sd,
        planned_s=planned_s,
        planned_j=planned_j,
        distance=distance,
        part_eff=efficiency,
        walltime_s=limit_s,
        rank=rank,
        tier=tier,
        nodes=nodes,
        coefficients_version=on.table(app_id).version if known else "",
        power_model_version="" if known else power_version,
    )


def limits(jobs: Sequence[Job], found: Predictions, reference: Ints, max_slowdown: float) -> Floats:
    """The limit of each job on each cluster, s, shape (jobs, clusters).

    The walltime asked relates to the reference cluster at the nominal P-state, so it is scaled by
    T / T(reference, nominal), T being the quantile that is planned with: a job that is slowed on
    purpose is not killed because the slowdown was predicted too low. A co-runner may come at any
    time: the limit of a shareable job allows for the worst slowdown from the start, so that no
    guest makes its host overdue.
    """
    reference_s = found.nominal_s[np.arange(len(jobs)), reference]
    walltime_s = np.array([job.walltime_s for job in jobs])
    allowance = np.array([max_slowdown if job.shareable else 1.0 for job in jobs])
    factor = walltime_s * allowance / reference_s
    return np.asarray(found.planned.time_s * factor[:, np.newaxis])
