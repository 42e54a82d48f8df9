"""What placement could say of jobs' power when they came, held to what they drew."""

from collections.abc import Iterable
from typing import NamedTuple

from coplace.v1.control_pb2 import ClusterDeclared, RoundEnded
from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted
from coplace.v1.prediction_pb2 import PowerHistoryUpdated, PowerModelPublished
from google.protobuf.message import Message

from services.prediction.facts import run_of
from shared.domain.cluster import Cluster
from shared.messaging.domain_types import cluster_of, job_of
from shared.messaging.event import Event
from shared.messaging.power_history import update_of
from shared.power_prediction.power_model import PowerModel


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
    """Of the jobs that ran at one P-state and were metered: by all that stood in placement's inputs
    up to the end of the round in which a job came first. Left out are those that came before any
    job of their node model and P-state had ended."""
    ends = {message.job_id: message for message in finished}
    known, came = _Known(), dict[str, JobSubmitted]()
    found: list[SubmissionPower] = []
    for event in {each.id: each for each in inputs}.values():
        if isinstance(event.payload, JobSubmitted):
            came.setdefault(event.payload.job_id, event.payload)
        elif isinstance(event.payload, RoundEnded):
            held = (known.held(came[id_], ends.pop(id_)) for id_ in came.keys() & ends.keys())
            found += [power for power in held if power is not None]
        else:
            known.fold(event.payload)
    return sorted(found)


class _Known:
    """What placement knows of power."""

    def __init__(self) -> None:
        self._model, self._clusters = PowerModel(), dict[str, Cluster]()

    def fold(self, message: Message) -> None:
        """A cluster or a publication."""
        match message:
            case ClusterDeclared():
                self._clusters[message.cluster] = cluster_of(message)
            case PowerModelPublished():
                self._model.fallback_power_w = dict(message.fallback_power_w)
            case PowerHistoryUpdated():
                self._model.tables.fold(update_of(message))

    def held(self, submitted: JobSubmitted, finished: JobFinished) -> SubmissionPower | None:
        """A job's prediction and its power; None without one of them."""
        run = run_of("", job_of(submitted), finished)
        kind = run.job.kind(self._clusters) if run else None
        predicted = self._model.tables.predict(kind) if kind else None
        actual_w = run.whole_node_w(self._clusters, None) if run and kind else 0.0
        if predicted is None or not actual_w:
            return None
        cluster = self._clusters[finished.cluster]
        fallback_w = self._model.fallback_power_w.get(cluster.node_model, cluster.idle_power_w)
        power_w = predicted.predicted_w, predicted.upper_w
        return SubmissionPower(finished.job_id, actual_w, *power_w, fallback_w)
