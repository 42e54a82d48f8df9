"""What each job would take and draw on each cluster, from signatures or as a first run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from math import nan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coplace_client.signature import Signature
from shared.domain.cluster import Cluster
from shared.domain.coefficients import Coefficients
from shared.domain.job import Job
from shared.eamc.chosen import ChosenPStates
from shared.eamc.frequency import FrequencyRule, Weighing, distance
from shared.eamc.reference import reference_signature
from shared.models.ear import project, unlearned
from shared.models.own_history import with_history
from shared.models.projection import Projection
from shared.models.spread import Quantile, Stretch
from shared.models.time_coefficient import AppTime, Hardware, TimeCoefficients, clock_shares
from shared.placement.evaluate.exploration import Exploration, Explored
from shared.placement.evaluate.known_applications import KnownApplications
from shared.placement.evaluate.over_pstates import OverPStates
from shared.power_prediction.power_model import PowerModel

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Row = tuple[float, ...]

_UNKNOWN: Final[Row] = (nan,) * 8


class WorkedOut:
    """What was worked out of a cluster's signatures before: times at the nominal P-state, `rows` at
    the P-states of one choice, second clocks, and what they say over all P-states."""

    def __init__(self) -> None:
        self.times = KnownApplications[AppTime]()
        self.rows = KnownApplications[Row]()
        self.explorations = KnownApplications[Exploration]()
        self.over_pstates = KnownApplications[OverPStates]()


@dataclass(frozen=True, slots=True, eq=False)
class ClusterModels:
    """A cluster with what is known of its node model; `signatures` by application."""

    cluster: Cluster
    coefficients: Coefficients | None
    signatures: Mapping[str, Sequence[Signature]]
    worked_out: WorkedOut = field(default_factory=WorkedOut)

    @property
    def hardware(self) -> Hardware:
        """Return a node: what times are scaled by where no signature says better."""
        node = self.cluster
        return Hardware(node.cores_per_node, node.nominal_ghz, node.peak_bandwidth_gbps)

    def tpi_scale(self, app_id: str) -> str:
        """Return the scale of a known application's signatures."""
        return self.signatures[app_id][0].tpi_scale

    def table(self, app_id: str) -> Coefficients:
        """Return what a known application projects with: signatures whose TPI is of another scale
        than the published coefficients have no projection."""
        scale = self.tpi_scale(app_id)
        if self.coefficients is not None and self.coefficients.tpi_scale == scale:
            return self.coefficients
        return unlearned(self.cluster.node_model, scale, self.cluster.pstates_ghz)


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """Jobs at the P-state of their choice, each array of the shape (jobs, clusters).

    Times are of one iteration, or of the whole job where no cluster knows the application; power
    is that of one node used whole; `nominal_s` is the time at the nominal P-state. `known` says
    where a signature is behind it, `power_unknown` where neither a signature nor a similar job says
    what the job draws: then `power_w` is what its nodes draw in the mean, or idle. Relative
    standard deviations are NaN where nothing says how good a prediction is; `planned` is the
    quantile that choices were made by. `explores_from_ghz` is the P-state that the rule chose where
    the job runs at a second clock of its application instead, elsewhere NaN.
    """

    known: Mask
    freq_ghz: Floats
    time_s: Floats
    power_w: Floats
    time_sd: Floats
    power_sd: Floats
    planned: Quantile
    distance: Floats
    nominal_s: Floats
    power_unknown: Mask
    explores_from_ghz: Floats


def predict(
    jobs: Sequence[Job],
    clusters: Sequence[ClusterModels],
    power_model: PowerModel,
    rule: FrequencyRule,
    weighing: Weighing,
    quantile: float,
    explore_share: float = 0.0,
) -> Predictions:
    """Predict all jobs on all clusters; P-states are chosen by a quantile of the predictions, and
    some jobs explore a second clock of their application.

    An application without signature on a cluster is a first run there (D'Amico and Corbalan 2021,
    section 3.2): the nominal P-state and the power model's figure. Its time is that on a cluster
    that knows it, or else the walltime on the job's reference cluster, times the time coefficient
    of the two node models (section 3.3).
    """
    choice = rule, weighing, quantile, explore_share
    tables = [_from_signatures(jobs, cluster, *choice) for cluster in clusters]
    freq, time, power, time_sd, power_sd, far, nominal, own = np.moveaxis(
        np.stack(tables, axis=1), 2, 0
    )
    known = ~np.isnan(nominal)
    nominal = _scaled_times(jobs, clusters, nominal)
    time_s = np.where(known, time, nominal)
    first_run_w, first_run_sd = _first_run_power(jobs, clusters, power_model, known)
    power_w = np.where(known, power, first_run_w)
    power_sd = np.where(known, power_sd, first_run_sd)
    return Predictions(
        known=known,
        freq_ghz=np.where(known, freq, [c.cluster.nominal_ghz for c in clusters]),
        time_s=time_s,
        power_w=power_w,
        time_sd=time_sd,
        power_sd=power_sd,
        planned=Quantile.stretch(time_s, power_w, Stretch.planned(time_sd, power_sd, quantile)),
        distance=np.where(known, far, _only_distance(power_w * time_s, time_s, weighing)),
        nominal_s=nominal,
        power_unknown=~known & np.isnan(first_run_sd),
        explores_from_ghz=own,
    )


def reference_columns(jobs: Sequence[Job], clusters: Sequence[ClusterModels]) -> NDArray[np.int64]:
    """Return the column of each job's reference cluster, shape (jobs,)."""
    column = {c.cluster.name: index for index, c in enumerate(clusters)}
    return np.array([column[job.reference_cluster] for job in jobs], dtype=np.int64)


def _only_distance(energy_j: Floats, time_s: Floats, weighing: Weighing) -> Floats:
    """Return the distance where there is one P-state to choose from."""
    return distance(energy_j[..., np.newaxis], time_s[..., np.newaxis], weighing)[..., 0]


def _first_run_power(
    jobs: Sequence[Job], clusters: Sequence[ClusterModels], model: PowerModel, known: Mask
) -> tuple[Floats, Floats]:
    """Return the power model's figures and their deviations, NaN where a signature makes them
    needless."""
    power_w, power_sd = np.full(known.shape, nan), np.full(known.shape, nan)
    for column, cluster in enumerate(clusters):
        rows = np.flatnonzero(~known[:, column]).tolist()
        if rows:
            found = model.predict([jobs[row] for row in rows], cluster.cluster)
            power_w[rows, column], power_sd[rows, column] = found
    return power_w, power_sd


def _from_signatures(
    jobs: Sequence[Job],
    known: ClusterModels,
    rule: FrequencyRule,
    weighing: Weighing,
    quantile: float,
    explore_share: float,
) -> Floats:
    """Return frequency, time, power, the deviations of both, distance and nominal time of each job,
    and what it explores from, NaN where unknown."""

    def chosen(apps: Sequence[str]) -> Iterator[tuple[str, Row]]:
        for names, projection in projections(known, apps):
            rows = _rows(ChosenPStates.choose(projection, rule, weighing, quantile))
            yield from ((name, (*row, nan)) for name, row in zip(names, rows, strict=True))

    def second_clocks(apps: Sequence[str]) -> Iterator[tuple[str, Exploration]]:
        for names, projection in projections(known, apps):
            planned = projection.planned(quantile)
            far = distance(planned.energy_j, planned.time_s, weighing)
            at = ChosenPStates.choose(projection, rule, weighing, quantile)
            explored = Explored(projection, planned, far, at)
            for row, name in enumerate(names):
                found = explored.second_clock(row, known.signatures[name], explore_share)
                if found is not None:
                    yield name, found

    apps = sorted({job.app_id for job in jobs} & known.signatures.keys())
    choice = rule, quantile, weighing.t_weight, weighing.reading
    basis = known.cluster, known.coefficients, *choice
    signatures = {app: known.signatures[app] for app in apps}
    rows = known.worked_out.rows.of(basis, signatures, chosen)
    found = [rows.get(job.app_id, _UNKNOWN) for job in jobs]
    if explore_share > 0 and rule is not FrequencyRule.NOMINAL:
        explored_by = *basis, explore_share
        second = known.worked_out.explorations.of(explored_by, signatures, second_clocks)
        found = [
            _exploring(job, row, second.get(job.app_id))
            for job, row in zip(jobs, found, strict=True)
        ]
    return np.array(found)


def _exploring(job: Job, row: Row, second: Exploration | None) -> Row:
    """Return the row of a job at the second clock where it is one that explores."""
    if second is None or not second.is_for(job.job_id):
        return row
    at = second.freq_ghz, second.time_s, second.power_w, second.time_sd, second.power_sd
    return (*at, second.distance, row[-2], second.own_ghz)


def projections(
    known: ClusterModels, apps: Sequence[str]
) -> Iterator[tuple[list[str], Projection]]:
    """Yield applications with their projections over the cluster's P-states, a batch a TPI scale.

    What an application's own runs at other clocks say is in them. Left out is what has no value at
    the nominal P-state: nothing could be compared with it.
    """
    for _, group in groupby(sorted(apps, key=known.tpi_scale), key=known.tpi_scale):
        batch = list(group)
        table = known.table(batch[0])
        references = [reference_signature(known.signatures[app], table) for app in batch]
        found = [signature for signature in references if signature is not None]
        if found:
            projection = project(table, found).onto(known.cluster.pstates_ghz)
            histories = [known.signatures[signature.app_id] for signature in found]
            projection = with_history(projection, found, histories)
            usable = projection.available[:, -1]
            names = [s.app_id for s, use in zip(found, usable, strict=True) if use]
            yield names, projection.only(usable)


def _rows(chosen: ChosenPStates) -> Iterator[Row]:
    """Yield a row of each signature, of all that ChosenPStates has."""
    columns = (getattr(chosen, name) for name in ChosenPStates.__slots__)
    return zip(*(column.tolist() for column in columns), strict=True)


def _scaled_times(
    jobs: Sequence[Job], clusters: Sequence[ClusterModels], nominal_s: Floats
) -> Floats:
    """Return `nominal_s` without gaps: a gap is scaled from the first cluster that has a value."""
    known, row = ~np.isnan(nominal_s), np.arange(len(jobs))
    if known.all():
        return nominal_s
    anywhere = known.any(axis=1)
    anchor = np.where(anywhere, known.argmax(axis=1), reference_columns(jobs, clusters))
    walltime_s = np.array([job.walltime_s for job in jobs])
    anchor_s = np.where(anywhere, nominal_s[row, anchor], walltime_s)
    scale = _time_coefficients(jobs, clusters, anchor.tolist(), ~known)
    return np.where(known, nominal_s, anchor_s[:, np.newaxis] * scale)


def _time_coefficients(
    jobs: Sequence[Job], clusters: Sequence[ClusterModels], anchor: Sequence[int], gaps: Mask
) -> Floats:
    """Return T(cluster) / T(anchor) of each gap, shape (jobs, clusters), 1 elsewhere."""
    times = cache(lambda column: _app_times(clusters[column]))

    @cache
    def between(here: int, there: int) -> TimeCoefficients:
        hardware = clusters[here].hardware, clusters[there].hardware
        return TimeCoefficients(*hardware, times(here), times(there))

    found = np.ones(gaps.shape)
    for row, column in np.argwhere(gaps).tolist():
        if column != anchor[row]:
            found[row, column] = between(anchor[row], column).ratio(jobs[row].app_id)
    return found


def _app_times(known: ClusterModels) -> Mapping[str, AppTime]:
    """Return every application that a cluster knows, at the nominal P-state."""

    def times(apps: Sequence[str]) -> Iterator[tuple[str, AppTime]]:
        for names, projection in projections(known, apps):
            nominal_s, shares = projection.time_s[:, -1].tolist(), clock_shares(projection).tolist()
            for app, time_s, share in zip(names, nominal_s, shares, strict=True):
                yield app, AppTime(time_s, share, known.signatures[app][-1].count)

    return known.worked_out.times.of((known.cluster, known.coefficients), known.signatures, times)
