"""The ways in which a job can run on a cluster: its candidate there, at every P-state."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose, isinf, isnan

import numpy as np
from numpy.typing import NDArray

from shared.domain.bounds import WALLTIME_S
from shared.domain.cluster import Cluster
from shared.eamc.frequency import distance, worth_choosing
from shared.models.projection import Projection
from shared.models.spread import Quantile
from shared.placement.jobs import Tracked
from shared.placement.model import Candidate, Rules, draw_mw
from shared.placement.predictions import ClusterModels, projections

# Frequencies nearer to each other than this share are one P-state.
_SAME: float = 1e-6
# By job id and cluster.
Modes = Mapping[tuple[str, str], tuple[Candidate, ...]]


def same_ghz(one: float, other: float) -> bool:
    """Whether two frequencies are of one P-state."""
    return isclose(one, other, rel_tol=_SAME)


def modes_of(
    jobs: Sequence[Tracked],
    clusters: Iterable[ClusterModels],
    rules: Rules,
    *,
    worth_choosing_only: bool = False,
) -> Modes:
    """Of jobs that were weighed, on each cluster that they fit on: their candidates at all P-states
    that have a projection, or at those alone that cost least at some price of time over energy.

    A candidate is as it was weighed at its own P-state. At another one it differs by what the
    signatures say now of the two. Where no signature is behind it there is no other.
    """
    found: dict[tuple[str, str], tuple[Candidate, ...]] = {}
    for on in clusters if jobs else ():
        rows = _rows({job.job.app_id for job in jobs}, on, rules)
        for job in jobs:
            candidate = next((c for c in job.candidates if c.cluster == on.cluster.name), None)
            if candidate is None or isinf(candidate.part_eff):
                continue
            row = rows.get(job.job.app_id) if candidate.known else None
            found[job.job.job_id, candidate.cluster] = (
                tuple(row.modes(job, candidate, on.cluster, worth_choosing_only))
                if row
                else (candidate,)
            )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """An application on one cluster, over its P-states."""

    projection: Projection
    planned: Quantile
    distance: NDArray[np.float64]
    app: int

    def modes(
        self, job: Tracked, candidate: Candidate, cluster: Cluster, only_worth: bool
    ) -> Iterator[Candidate]:
        """The candidate at each P-state."""
        projection, app = self.projection, self.app
        known = np.flatnonzero(projection.available[app]).tolist()
        own = [p for p in known if same_ghz(projection.pstates_ghz[p], candidate.freq_ghz)]
        if not own:
            yield candidate
            return
        for pstate in worth_choosing(projection, app) if only_worth else known:
            if pstate == own[0]:
                yield candidate
            else:
                yield self._at(pstate, own[0], job, candidate, cluster)

    def _at(
        self, pstate: int, own: int, job: Tracked, candidate: Candidate, cluster: Cluster
    ) -> Candidate:
        app, projection, planned = self.app, self.projection, self.planned
        longer = _ratio(planned.time_s[app], pstate, own)
        return replace(
            candidate,
            freq_ghz=projection.pstates_ghz[pstate],
            time_s=candidate.time_s * _ratio(projection.time_s[app], pstate, own),
            power_w=candidate.power_w * _ratio(projection.power_w[app], pstate, own),
            time_sd=_known(projection.time_sd[app, pstate]),
            power_sd=_known(projection.power_sd[app, pstate]),
            planned_s=candidate.planned_s * longer,
            planned_j=candidate.planned_j * _ratio(planned.energy_j[app], pstate, own),
            distance=float(self.distance[app, pstate]),
            walltime_s=min(candidate.walltime_s * longer, WALLTIME_S.most),
            draw_mw=draw_mw(job.job, cluster, planned.power_w[app, pstate], candidate.nodes),
        )


def _rows(apps: set[str], on: ClusterModels, rules: Rules) -> dict[str, _Row]:
    """By application, those that the cluster's node model knows."""
    rows: dict[str, _Row] = {}
    for names, projection in projections(on, sorted(apps & on.signatures.keys())):
        planned = projection.planned(rules.quantile)
        far = distance(planned.energy_j, planned.time_s, rules.weighing)
        rows |= {name: _Row(projection, planned, far, app) for app, name in enumerate(names)}
    return rows


def _ratio(values: NDArray[np.float64], pstate: int, own: int) -> float:
    return float(values[pstate] / values[own])


def _known(deviation: float) -> float | None:
    return None if isnan(deviation) else float(deviation)
