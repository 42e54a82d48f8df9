"""`coplace why JOB --power`: what a node of a job was expected to draw when it came, and why."""

from collections.abc import Iterable, Iterator
from typing import Final

from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.jobs_pb2 import JobSubmitted

from cli.known_power import KnownPower
from coplace_client.errors import UnusableError
from shared.catalogue.event import Event
from shared.catalogue.payloads.domain_types import job_of
from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.numerics.elementary import exp
from shared.power_prediction.kinds import SHAPES, KindOfJob
from shared.power_prediction.similar_jobs import PREDICTORS, PowerAtStart
from shared.power_prediction.trees import FEATURES, PowerTrees, unpack

INPUTS: Final = "placement.inputs"
_MOST_PREDICTORS: Final = 5


def lines(inputs: Iterable[Event], job_id: str) -> Iterator[str]:
    """Yield lines for each cluster at its nominal P-state, by all that was in placement's inputs at
    the end of the round in which the job came first. Raises UnusableError where it never did."""
    known, job = _when_it_came(inputs, job_id)
    yield f"{job_id} of {job.user}, application {job.app_id or 'unknown'}"
    for cluster in known.clusters.values():
        yield from _on(cluster, job, known)


def _when_it_came(inputs: Iterable[Event], job_id: str) -> tuple[KnownPower, Job]:
    known, job = KnownPower(), None
    for event in inputs:
        if job is not None and isinstance(event.payload, RoundEnded):
            return known, job
        if isinstance(event.payload, JobSubmitted) and event.payload.job_id == job_id:
            job = job or job_of(event.payload)
        known.fold(event.payload)
    if job is None:
        raise UnusableError(f"there is no job {job_id!r}: `coplace jobs` names them")
    return known, job


def _on(cluster: Cluster, job: Job, known: KnownPower) -> Iterator[str]:
    asked = KindOfJob.from_job(job, cluster, cluster.nominal_ghz)
    where = f"{cluster.name} at {cluster.nominal_ghz} GHz"
    if (job.app_id, cluster.node_model) in known.signatures:
        yield f"{where}: placement goes by the signature of {job.app_id}; similar jobs say"
    power = known.model.tables.predict(asked)
    if power is None:
        [fallback_w], _ = known.model.predict([job], cluster)
        yield f"{where}: {fallback_w:.1f} W a node, what {cluster.node_model} draws in the mean"
        return
    above = f"{power.upper_w:.1f} W is exceeded by {100 * power.alpha:g} % of jobs"
    yield f"{where}: {power.predicted_w:.1f} W a node, {above}"
    kind = known.model.tables.told_by(asked) or asked
    if kind != asked:
        yield f"  {asked.accelerators_w:.1f} W of that were declared of its accelerators"
    yield from _predictors(power, known.model.tables.shares(kind))
    yield from _features(power, known.model.tables.trees)
    for shape, subject in zip(SHAPES, kind.subjects(), strict=True):
        newest = reversed(known.jobs[subject])
        told = ", ".join(f"{job_id} {power_w:.1f} W" for job_id, power_w in newest)
        yield f"  same {shape}: {told or 'none'}"


def _features(power: PowerAtStart, trees: PowerTrees | None) -> Iterator[str]:
    """What moved what the extra trees say most, as a factor."""
    if trees is None:
        return
    yield f"  what moved the power of the extra trees of {trees.version}:"
    moved = trees.forests.extra.contributions(unpack([power.row])[0])
    by_size = sorted(zip(moved.tolist(), FEATURES, strict=True), key=lambda row: -abs(row[0]))
    for log_factor, name in by_size[:_MOST_PREDICTORS]:
        yield f"    x {exp(log_factor):.3f}  {name}"


def _predictors(power: PowerAtStart, shares: tuple[float, ...]) -> Iterator[str]:
    """Whose weighted median it is, the weightiest first."""
    found = sorted(zip(shares, power.said, PREDICTORS, strict=True), key=lambda row: -row[0])
    for share, log_w, name in found[:_MOST_PREDICTORS]:
        yield f"  {100 * share:5.1f} %  {exp(log_w):7.1f} W  {name}"
