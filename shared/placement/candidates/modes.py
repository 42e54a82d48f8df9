"""The ways in which a job can run on a cluster: its candidate there, at every P-state."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isclose, isinf, isnan

import numpy as np
from numpy.typing import NDArray

from shared.domain.bounds import WALLTIME_S
from shared.domain.cluster import Cluster
from shared.eamc.frequency import FrequencyRule, distance, slower_pstates, worth_choosing
from shared.eamc.ranking import FREQUENCY_RULES
from shared.models.projection import Projection
from shared.models.spread import Quantile
from shared.placement.candidates.candidate import Candidate, Rules, SlowerMode, draw_mw
from shared.placement.candidates.predictions import ClusterModels, projections
from shared.placement.jobs.tracked import Tracked

# Frequencies nearer to each other than this share are one P-state.
_SAME: float = 1e-6
# By job id and cluster.
Modes = Mapping[tuple[str, str], tuple[Candidate, ...]]


def same_ghz(one: float, other: float) -> bool:
    """Whether two frequencies are of one P-state."""
    return isclose(one, other, rel_tol=_SAME)


def has_ghz(pstates_ghz: Collection[float], ghz: float) -> bool:
    """Whether a frequency is one of these."""
    return ghz in pstates_ghz or any(same_ghz(ghz, other) for other in pstates_ghz)


def modes_of(
    jobs: Sequence[Tracked],
    clusters: Iterable[ClusterModels],
    rules: Rules,
    *,
    wanted: Mapping[tuple[str, str], Collection[float]] | None = None,
    worth_choosing_only: bool = False,
) -> Modes:
    """Of jobs that were weighed, on each cluster that they fit on: their candidates at all P-states
    that have a projection, at the `wanted` ones alone (GHz, by job id and cluster), or at those
    that cost least at some price of time over energy.

    A candidate is as it was weighed at its own P-state. At another one it differs by what the
    signatures say now of the two. Where no signature is behind it there is no other.
    """
    found: dict[tuple[str, str], tuple[Candidate, ...]] = {}
    for job, candidate, on, row in _weighed(jobs, clusters, rules):
        key = job.job.job_id, candidate.cluster
        ghz = None if wanted is None else wanted.get(key, ())
        if row is None:
            found[key] = (candidate,)
        elif ghz is None or ghz:
            asked = row.worth_choosing() if worth_choosing_only else row.known
            if ghz is not None:
                asked = row.among(asked, tuple(ghz))
            found[key] = tuple(row.modes(job, candidate, on.cluster, asked))
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


class _Row:
    """An application on one cluster, over its P-states, of which those are `known` that have a
    projection, the lowest first."""

    def __init__(
        self, projection: Projection, planned: Quantile, far: NDArray[np.float64], app: int
    ) -> None:
        self._projection, self._app, self.ghz = projection, app, projection.pstates_ghz
        self.known: list[int] = np.flatnonzero(projection.available[app]).tolist()
        self._time_s: list[float] = projection.time_s[app].tolist()
        self._power_w: list[float] = projection.power_w[app].tolist()
        self._time_sd: list[float] = projection.time_sd[app].tolist()
        self._power_sd: list[float] = projection.power_sd[app].tolist()
        self._planned_s: list[float] = planned.time_s[app].tolist()
        self._planned_w: list[float] = planned.power_w[app].tolist()
        self._planned_j: list[float] = planned.energy_j[app].tolist()
        self._distance: list[float] = far[app].tolist()
        # Hundreds of jobs of an application ask for the same few P-states.
        self._among: dict[tuple[tuple[int, ...], tuple[float, ...]], list[int]] = {}
        self._owns: dict[float, int | None] = {}

    def among(self, pstates: Sequence[int], ghz: tuple[float, ...]) -> list[int]:
        """Those of these P-states that have one of these frequencies."""
        key = tuple(pstates), ghz
        if key not in self._among:
            self._among[key] = [pstate for pstate in pstates if has_ghz(ghz, self.ghz[pstate])]
        return self._among[key]

    def worth_choosing(self) -> list[int]:
        """The P-states that cost least at some price of time over energy."""
        return list(worth_choosing(self._projection, self._app))

    def modes(
        self, job: Tracked, candidate: Candidate, cluster: Cluster, pstates: Iterable[int]
    ) -> Iterator[Candidate]:
        """The candidate at these P-states; as it is where its own has no projection any more."""
        own = self._own(candidate)
        if own is None:
            yield candidate
            return
        for pstate in pstates:
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

        def draws_mw(pstate: int) -> int:
            if pstate == own:
                return candidate.draw_mw or 0
            return draw_mw(job.job, cluster, self._planned_w[pstate], candidate.nodes)

        by = self._by_cost(rules), own, self._planned_s, draws_mw, rules.cap_slowdown
        for pstate in slower_pstates(*by):
            mode = self._at(pstate, own, job, candidate, cluster)
            yield SlowerMode(*(getattr(mode, name) for name in SlowerMode.__slots__))

    def _by_cost(self, rules: Rules) -> list[int]:
        """P-states in the order in which the policy would choose them."""
        rule = FREQUENCY_RULES[rules.policy]
        if rule in (FrequencyRule.NOMINAL, FrequencyRule.MIN_RUNTIME):
            cost = self._planned_s
        elif rule is FrequencyRule.MIN_ENERGY:
            cost = self._planned_j
        else:
            cost = self._distance
        return sorted(self.known, key=lambda pstate: cost[pstate])

    def _own(self, candidate: Candidate) -> int | None:
        """That of a candidate; None where it has no projection any more."""
        ghz = candidate.freq_ghz
        if ghz not in self._owns:
            same = (pstate for pstate in self.known if same_ghz(self.ghz[pstate], ghz))
            self._owns[ghz] = next(same, None)
        return self._owns[ghz]

    def _at(
        self, pstate: int, own: int, job: Tracked, candidate: Candidate, cluster: Cluster
    ) -> Candidate:
        longer = self._planned_s[pstate] / self._planned_s[own]
        return replace(
            candidate,
            freq_ghz=self.ghz[pstate],
            time_s=candidate.time_s * (self._time_s[pstate] / self._time_s[own]),
            power_w=candidate.power_w * (self._power_w[pstate] / self._power_w[own]),
            time_sd=_known(self._time_sd[pstate]),
            power_sd=_known(self._power_sd[pstate]),
            planned_s=candidate.planned_s * longer,
            planned_j=candidate.planned_j * (self._planned_j[pstate] / self._planned_j[own]),
            distance=self._distance[pstate],
            walltime_s=min(candidate.walltime_s * longer, WALLTIME_S.most),
            draw_mw=draw_mw(job.job, cluster, self._planned_w[pstate], candidate.nodes),
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


def _known(deviation: float) -> float | None:
    return None if isnan(deviation) else deviation
