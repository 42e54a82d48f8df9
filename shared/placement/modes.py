"""The ways in which a job can run on a cluster: its candidate there, at every P-state."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose, isinf, isnan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.domain.bounds import WALLTIME_S
from shared.domain.cluster import Cluster
from shared.eamc.frequency import FrequencyRule, distance, worth_choosing
from shared.eamc.ranking import FREQUENCY_RULES
from shared.models.projection import Projection
from shared.models.spread import Quantile
from shared.placement.jobs import Tracked
from shared.placement.model import Candidate, Rules, SlowerMode, draw_mw
from shared.placement.predictions import ClusterModels, projections

# Frequencies nearer to each other than this share are one P-state.
_SAME: float = 1e-6
# What a lower P-state draws of the one before it, at most, to be one more mode.
_WORTH_IT: Final = 0.9
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
    for job, candidate, on, row in _weighed(jobs, clusters, rules):
        found[job.job.job_id, candidate.cluster] = (
            tuple(row.modes(job, candidate, on.cluster, worth_choosing_only))
            if row
            else (candidate,)
        )
    return found


def with_slower_modes(
    jobs: Sequence[Tracked], clusters: Iterable[ClusterModels], rules: Rules
) -> list[tuple[Candidate, ...]]:
    """The candidates of jobs that were weighed, each with the lower P-states at which it may start
    where a cap refuses its own: those that take at most `cap_slowdown` times as long, in the order
    of what the policy's choice of P-states goes by, each of which draws a tenth less than the one
    before it at least."""
    found: dict[tuple[str, str], tuple[SlowerMode, ...]] = {}
    for job, candidate, on, row in _weighed(jobs, clusters, rules):
        if row:
            slower = tuple(row.slower(job, candidate, on.cluster, rules))
            found[job.job.job_id, candidate.cluster] = slower
    return [
        tuple([replace(c, slower=found.get((job.job.job_id, c.cluster), ())) for c in candidates])
        for job, candidates in ((job, job.candidates) for job in jobs)
    ]


def _weighed(
    jobs: Sequence[Tracked], clusters: Iterable[ClusterModels], rules: Rules
) -> Iterator[tuple[Tracked, Candidate, ClusterModels, "_Row | None"]]:
    """Each job's candidates on clusters that it fits on, with what their signatures say."""
    for on in clusters if jobs else ():
        rows = _rows({job.job.app_id for job in jobs}, on, rules)
        for job in jobs:
            candidate = next((c for c in job.candidates if c.cluster == on.cluster.name), None)
            if candidate is not None and not isinf(candidate.part_eff):
                row = rows.get(job.job.app_id) if candidate.known else None
                yield job, candidate, on, row


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
        own = self._own(candidate)
        if own is None:
            yield candidate
            return
        for pstate in worth_choosing(self.projection, self.app) if only_worth else self._known:
            if pstate == own:
                yield candidate
            else:
                yield self._at(pstate, own, job, candidate, cluster)

    def slower(
        self, job: Tracked, candidate: Candidate, cluster: Cluster, rules: Rules
    ) -> Iterator[SlowerMode]:
        """The lower P-states of a candidate: see with_slower_modes."""
        own = self._own(candidate)
        if own is None:
            return
        draws_mw = candidate.draw_mw or 0
        for pstate in self._by_cost(rules):
            longer = _ratio(self.planned.time_s[self.app], pstate, own)
            if pstate >= own or longer > rules.cap_slowdown:
                continue
            mode = self._at(pstate, own, job, candidate, cluster)
            if mode.draw_mw is not None and mode.draw_mw <= _WORTH_IT * draws_mw:
                draws_mw = mode.draw_mw
                yield SlowerMode(*(getattr(mode, name) for name in SlowerMode.__slots__))

    def _by_cost(self, rules: Rules) -> list[int]:
        """P-states in the order in which the policy would choose them."""
        rule, app = FREQUENCY_RULES[rules.policy], self.app
        if rule in (FrequencyRule.NOMINAL, FrequencyRule.MIN_RUNTIME):
            cost = self.planned.time_s[app]
        elif rule is FrequencyRule.MIN_ENERGY:
            cost = self.planned.energy_j[app]
        else:
            cost = self.distance[app]
        return sorted(self._known, key=lambda pstate: float(cost[pstate]))

    @property
    def _known(self) -> list[int]:
        """P-states that have a projection, the lowest first."""
        return list(np.flatnonzero(self.projection.available[self.app]).tolist())

    def _own(self, candidate: Candidate) -> int | None:
        """That of a candidate; None where it has no projection any more."""
        ghz = self.projection.pstates_ghz
        return next((p for p in self._known if same_ghz(ghz[p], candidate.freq_ghz)), None)

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
            slower=None,
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
