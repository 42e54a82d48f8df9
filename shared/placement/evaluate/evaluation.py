"""The candidates of a job: predictions, rank and limit on every cluster.

Predictions are of one node used whole: the half of the cores that a shareable job uses is the same
on every cluster. Energy counts once more for each time the nodes asked for that a cluster needs.
"""

from collections.abc import Collection, Sequence
from functools import partial
from itertools import compress
from math import isnan

import numpy as np
from numpy.typing import NDArray

from coplace_client.bounds import WALLTIME_S
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.eamc.ranking import FREQUENCY_RULES, NO_PREFERENCE, compare
from shared.placement.evaluate.misfits import misfit
from shared.placement.evaluate.predictions import (
    ClusterModels,
    Mask,
    Predictions,
    predict,
    reference_columns,
)
from shared.placement.state.candidate import Candidate, draw_mw, nameplate_mw
from shared.placement.state.policy_in_force import ranking_by, weighing_by
from shared.power_prediction.power_model import PowerModel
from shared.scheduling.problem import core_share

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def evaluate(
    jobs: Sequence[Job],
    clusters: Sequence[ClusterModels],
    power_model: PowerModel,
    rules: PolicySettings,
    gone: Collection[str] = (),
) -> list[tuple[Candidate, ...]]:
    """Return the candidates of each job, one for each cluster that is not `gone`, in their order.
    Every reference cluster must be among the clusters, also where it is `gone`.

    A job whose application no cluster knows goes first to its reference cluster.
    """
    if not jobs:
        return []
    rule = FREQUENCY_RULES[rules.policy]
    weighing, quantile, explored = weighing_by(rules), rules.quantile, rules.explore_share
    found = predict(jobs, clusters, power_model, rule, weighing, quantile, explored)
    planned = found.planned
    reference = reference_columns(jobs, clusters)
    there = [cluster.cluster.name not in gone for cluster in clusters]
    fits = np.array([_fits(job, clusters, there) for job in jobs])
    nodes = [[job.nodes_on(c.cluster) for c in clusters] for job in jobs]
    shares = [[_share(job, c.cluster) for c in clusters] for job in jobs]
    energy_j = planned.energy_j * more_nodes(jobs, np.array(nodes, np.float64), np.array(shares))
    preferred = np.where(found.known.any(axis=1), NO_PREFERENCE, reference)
    efficiency, ranking = compare(energy_j, planned.time_s, fits, *ranking_by(rules), preferred)
    limit_s = limits(jobs, found, reference, rules.max_slowdown)
    draw_mw = _draws_mw(jobs, clusters, planned.power_w, nodes, found.power_unknown)
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
        draw_mw,
        found.power_unknown,
        found.explores_from_ghz,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    candidate = partial(_candidate, power_model.version)
    return [
        tuple(compress(map(partial(candidate, job.app_id), clusters, needed, of, *row), there))
        for job, needed, of, row in zip(jobs, nodes, shares, rows, strict=True)
    ]


def _fits(job: Job, clusters: Sequence[ClusterModels], there: Sequence[bool]) -> list[bool]:
    found = zip(clusters, there, strict=True)
    return [is_there and misfit(job, on.cluster) is None for on, is_there in found]


def _share(job: Job, cluster: Cluster) -> float:
    """Return the part of a node that a unit is, where it is not the same on every cluster."""
    return core_share(job, cluster) if job.cores_per_unit else 1.0


def more_nodes(jobs: Sequence[Job], nodes: Floats, share: Floats) -> Floats:
    """Return how many times the nodes that it asked for each job takes on each cluster, as `nodes`
    and the `share` of each, both of the shape (jobs, clusters): its energy grows with them, its
    time counts as the same."""
    asked = np.array([job.nodes for job in jobs], dtype=np.float64)
    return np.asarray(nodes * share / asked[:, np.newaxis])


def _candidate(
    power_version: str,
    app_id: str,
    on: ClusterModels,
    nodes: int,
    share: float,
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
    draw_mw: int,
    power_unknown: bool,
    explores_from_ghz: float,
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
        draw_mw=draw_mw,
        share=share,
        power_unknown=power_unknown,
        explores_from_ghz=None if isnan(explores_from_ghz) else explores_from_ghz,
    )


def _draws_mw(
    jobs: Sequence[Job],
    clusters: Sequence[ClusterModels],
    node_w: Floats,
    nodes: Sequence[Sequence[int]],
    unknown: Mask,
) -> Ints:
    """Return what each job draws beyond idle on each cluster: as planned, or what its nodes draw at
    most where nothing says what it draws and the cluster declares that."""
    on = [c.cluster for c in clusters]
    by_job = zip(jobs, node_w.tolist(), nodes, strict=True)
    found = np.array(
        [
            [draw_mw(job, *there) for there in zip(on, row, needed, strict=True)]
            for job, row, needed in by_job
        ],
        dtype=np.int64,
    )
    for row, column in np.argwhere(unknown).tolist():
        if on[column].most_node_w:
            found[row, column] = nameplate_mw(jobs[row], on[column], nodes[row][column])
    return found


def limits(jobs: Sequence[Job], found: Predictions, reference: Ints, max_slowdown: float) -> Floats:
    """Return the limit of each job on each cluster, s, shape (jobs, clusters).

    The walltime asked relates to the reference cluster at the nominal P-state, so it is scaled by T
    / T(reference, nominal), T being the quantile that is planned with: a job that is slowed on
    purpose is not killed because the slowdown was predicted too low. A co-runner may come at any
    time: the limit of a shareable job allows for the worst slowdown from the start, so that no
    later co-runner makes it overdue. None is longer than the longest walltime, so that ends of
    limits stay within calendars, however slow a cluster is.
    """
    reference_s = found.nominal_s[np.arange(len(jobs)), reference]
    walltime_s = np.array([job.walltime_s for job in jobs])
    allowance = np.array([max_slowdown if job.shareable else 1.0 for job in jobs])
    factor = walltime_s * allowance / reference_s
    limit_s = found.planned.time_s * factor[:, np.newaxis]
    return np.where(limit_s <= WALLTIME_S.most, limit_s, WALLTIME_S.most)
