"""The candidates of a job: predictions, rank and limit on every cluster.

Only one node used whole counts: the number of nodes, and the half of the cores that a shareable
job uses, are the same on every cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan

import numpy as np
from numpy.typing import NDArray

from services.placement.predictions import (
    ClusterKnowledge,
    Predictions,
    predict,
    reference_columns,
)
from shared.domain.job import Job
from shared.policies.power_model import PowerModel
from shared.policies.queue import Entry, order_of
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


@dataclass(frozen=True, slots=True)
class Rules:
    """The policy and its parameters; see PlacementSettings."""

    policy: Policy = Policy.PRIORITY_INC_V
    t_weight: float = 1.0
    threshold: float = 0.35
    max_slowdown: float = 1.25
    quantile: float = 0.5


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
    coefficients_version: str
    power_model_version: str

    @property
    def energy_j(self) -> float:
        """One node over `time_s`."""
        return self.power_w * self.time_s

    @property
    def waits(self) -> bool:
        """True when the job has an entry for this cluster."""
        return self.rank != EXCLUDED

    def entry(self, job: Job, arrival: int, app: int) -> Entry:
        """The job's place in the queue of this cluster."""
        order = order_of(self.tier, arrival, self.rank)
        return Entry(order, arrival, job.nodes, self.walltime_s, job.shareable, app)


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
    found = predict(jobs, clusters, power_model, rule, rules.t_weight, rules.quantile)
    planned = found.planned
    reference = reference_columns(jobs, clusters)
    fits = np.array([[job.nodes <= c.cluster.nodes for c in clusters] for job in jobs])
    efficiency = part_eff(planned.energy_j, planned.time_s, fits, rules.t_weight)
    preferred = np.where(found.known.any(axis=1), NO_PREFERENCE, reference)
    ranking = rank_clusters(
        efficiency, rules.policy, threshold=rules.threshold, preferred=preferred
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
        tuple(map(partial(_candidate, job.app_id, power_model.version), clusters, *row))
        for job, row in zip(jobs, rows, strict=True)
    ]


def _candidate(
    app_id: str,
    power_version: str,
    on: ClusterKnowledge,
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
