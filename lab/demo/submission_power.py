"""What placement could say of jobs' power when they came, compared with what they drew."""

from collections.abc import Iterable
from typing import NamedTuple

from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted

from cli.known_power import KnownPower
from services.prediction.facts import run_of
from shared.catalogue.event import Event
from shared.catalogue.payloads.domain_types import job_of


class SubmissionPower(NamedTuple):
    """Power of one node used whole, W: what it drew; the prediction and its bound when the job
    came, for where it then ran; and what was known there without any similar job."""

    job_id: str
    actual_w: float
    predicted_w: float
    upper_w: float
    without_history_w: float


def submission_powers(
    inputs: Iterable[Event], finished: Iterable[JobFinished]
) -> list[SubmissionPower]:
    """Return the powers of the jobs that ran at one P-state and were metered: by all that was in
    placement's inputs up to the end of the round in which a job came first. Left out are those that
    came before any job of their node model and P-state had ended."""
    ends = {message.job_id: message for message in finished}
    known, came = KnownPower(), dict[str, JobSubmitted]()
    found: list[SubmissionPower] = []
    for event in {each.id: each for each in inputs}.values():
        if isinstance(event.payload, JobSubmitted):
            came.setdefault(event.payload.job_id, event.payload)
        elif isinstance(event.payload, RoundEnded):
            held = (_held(known, came[id_], ends.pop(id_)) for id_ in came.keys() & ends.keys())
            found += [power for power in held if power is not None]
        else:
            known.fold(event.payload)
    return sorted(found)


def _held(
    known: KnownPower, submitted: JobSubmitted, finished: JobFinished
) -> SubmissionPower | None:
    """A job's prediction and its power; None without one of them."""
    run = run_of("", job_of(submitted), finished)
    kind = run.job.kind(known.clusters) if run else None
    predicted = known.model.tables.predict(kind) if kind else None
    actual_w = run.whole_node_w(known.clusters, None) if run and kind else 0.0
    if kind is None or predicted is None or not actual_w:
        return None
    cluster = known.clusters[finished.cluster]
    mean_w = known.model.fallback_power_w.get(cluster.node_model, cluster.idle_power_w)
    fallback_w = mean_w + kind.accelerators_w
    power_w = predicted.predicted_w, predicted.upper_w
    return SubmissionPower(finished.job_id, actual_w, *power_w, fallback_w)
