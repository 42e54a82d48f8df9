"""The ways in which a job can run on a cluster: its candidate there, at every P-state."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isinf, isnan

from coplace_client.bounds import WALLTIME_S
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cluster import Cluster
from shared.eamc.frequency import distance, slower_pstates
from shared.eamc.ranking import FREQUENCY_RULES
from shared.placement.evaluate.over_pstates import OverPStates
from shared.placement.evaluate.predictions import ClusterModels, projections
from shared.placement.state.candidate import Candidate, Modes, SlowerMode, draw_mw
from shared.placement.state.job_record import JobRecord
from shared.placement.state.policy_in_force import weighing_by


def modes_of(
    jobs: Sequence[JobRecord],
    clusters: Iterable[ClusterModels],
    rules: PolicySettings,
    *,
    wanted: Mapping[tuple[str, str], Collection[float]] | None = None,
    worth_choosing_only: bool = False,
) -> Modes:
    """Return the candidates of evaluated jobs on each cluster that they fit on: at all P-states
    that have a projection, at the `wanted` ones alone (GHz, by job id and cluster), or at those
    that cost least at some price of time over energy.

    A candidate is as evaluated at its own P-state. At another one it differs by what the signatures
    say now of the two. Where no signature is behind it there is no other.
    """
    found: dict[tuple[str, str], tuple[Candidate, ...]] = {}
    for job, candidate, on, row in _evaluated(jobs, clusters, rules):
        key = job.job.job_id, candidate.cluster
        ghz = None if wanted is None else wanted.get(key, ())
        if ghz is not None and not ghz:
            continue
        own = None if row is None else row.of(candidate.freq_ghz)
        if row is None or own is None:
            found[key] = (candidate,)
            continue
        asked = row.worth_choosing() if worth_choosing_only else row.known
        if ghz is not None:
            asked = sorted({pstate for each in ghz if (pstate := row.of(each)) is not None})
        at = [_at(pstate, own, row, job, candidate, on.cluster) for pstate in asked]
        found[key] = tuple(at)
    return found


def with_slower_modes(
    jobs: Sequence[JobRecord], clusters: Iterable[ClusterModels], rules: PolicySettings
) -> list[tuple[Candidate, ...]]:
    """Return the candidates of evaluated jobs, each with the lower P-states at which it may start
    where a cap refuses its own: those that take at most `cap_slowdown` times as long, in the order
    of what the policy's choice of P-states goes by, each of which draws a tenth less than the one
    before it at least."""
    found: dict[tuple[str, str], tuple[SlowerMode, ...]] = {}
    for job, candidate, on, row in _evaluated(jobs, clusters, rules):
        if row is not None:
            slower = tuple(_slower(row, job, candidate, on.cluster, rules))
            found[job.job.job_id, candidate.cluster] = slower
    return [
        tuple([c._replace(slower=found.get((job.job.job_id, c.cluster), ())) for c in candidates])
        for job, candidates in ((job, job.evaluated.candidates) for job in jobs)
    ]


def _evaluated(
    jobs: Sequence[JobRecord], clusters: Iterable[ClusterModels], rules: PolicySettings
) -> Iterator[tuple[JobRecord, Candidate, ClusterModels, OverPStates | None]]:
    """Yield each job's candidates on clusters that it fits on, with what their signatures say."""
    apps = {job.job.app_id for job in jobs}
    known = {on.cluster.name: (on, _over_pstates(apps, on, rules)) for on in clusters if jobs}
    for job in jobs:
        for candidate in job.evaluated.candidates:
            found = known.get(candidate.cluster)
            if found is not None and not isinf(candidate.part_eff):
                on, rows = found
                yield job, candidate, on, rows.get(job.job.app_id) if candidate.known else None


def _slower(
    row: OverPStates, job: JobRecord, candidate: Candidate, cluster: Cluster, rules: PolicySettings
) -> Iterator[SlowerMode]:
    """Yield the lower P-states of a candidate: see with_slower_modes."""
    own = row.of(candidate.freq_ghz)
    if own is None:
        return

    def draws_mw(pstate: int) -> int:
        if pstate == own:
            return candidate.draw_mw
        return draw_mw(job.job, cluster, row.planned_w[pstate], candidate.nodes)

    by_cost = row.by_cost(FREQUENCY_RULES[rules.policy])
    for pstate in slower_pstates(by_cost, own, row.planned_s, draws_mw, rules.cap_slowdown):
        mode = _at(pstate, own, row, job, candidate, cluster)
        yield SlowerMode(*(getattr(mode, name) for name in SlowerMode._fields))


def _at(
    pstate: int, own: int, row: OverPStates, job: JobRecord, candidate: Candidate, cluster: Cluster
) -> Candidate:
    """Return a candidate, whose P-state is its `own`, at another one."""
    if pstate == own:
        return candidate
    longer = row.planned_s[pstate] / row.planned_s[own]
    return candidate._replace(
        freq_ghz=row.ghz[pstate],
        time_s=candidate.time_s * (row.time_s[pstate] / row.time_s[own]),
        power_w=candidate.power_w * (row.power_w[pstate] / row.power_w[own]),
        time_sd=_known(row.time_sd[pstate]),
        power_sd=_known(row.power_sd[pstate]),
        planned_s=candidate.planned_s * longer,
        planned_j=candidate.planned_j * (row.planned_j[pstate] / row.planned_j[own]),
        distance=row.distance[pstate],
        walltime_s=min(candidate.walltime_s * longer, WALLTIME_S.most),
        draw_mw=draw_mw(job.job, cluster, row.planned_w[pstate], candidate.nodes),
        slower=None,
        explores_from_ghz=None,
    )


def _over_pstates(
    apps: set[str], on: ClusterModels, rules: PolicySettings
) -> Mapping[str, OverPStates]:
    """Return the applications that the cluster's node model knows, over its P-states."""

    def worked_out(changed: Sequence[str]) -> Iterator[tuple[str, OverPStates]]:
        for names, projection in projections(on, sorted(changed)):
            planned = projection.planned(rules.quantile)
            far = distance(planned.energy_j, planned.time_s, weighing_by(rules))
            for app, name in enumerate(names):
                yield name, OverPStates(projection, planned, far, app)

    basis = on.cluster, on.coefficients, rules  # as objects: numbers are made anew when compiled
    signatures = {app: on.signatures[app] for app in apps & on.signatures.keys()}
    return on.worked_out.over_pstates.of(basis, signatures, worked_out)


def _known(deviation: float) -> float | None:
    return None if isnan(deviation) else deviation
