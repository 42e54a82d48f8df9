"""What ingest takes: the topic of each payload of an Envelope, and what only the whole tells."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobStarted, JobSubmitted

from shared.domain.errors import RejectedError
from shared.messaging.domain_types import cluster_of, dependencies_of, job_of


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of payload; `check` raises RejectedError, beside the contents of each field."""

    topic: str
    check: Callable[[Any], object] = bool


def _submission(message: JobSubmitted) -> None:
    job_of(message)
    dependencies_of(message)


def _start(message: JobStarted) -> None:
    if not message.nodes:
        raise RejectedError("nodes", "must hold at least one value")


def _declaration(message: ClusterDeclared) -> None:
    cluster_of(message)


KINDS: Final[Mapping[str, Kind]] = {
    "job_submitted": Kind("jobs.events", _submission),
    "job_started": Kind("jobs.events", _start),
    "job_finished": Kind("jobs.events"),
    "job_requeued": Kind("jobs.events"),
    "job_declined": Kind("jobs.events"),
    "job_seized": Kind("jobs.events"),
    "job_cancelled": Kind("jobs.events"),
    "job_held": Kind("jobs.events"),
    "job_released": Kind("jobs.events"),
    "signature_measured": Kind("telemetry.signatures"),
    "node_samples": Kind("telemetry.nodes"),
    "shutters_measured": Kind("telemetry.shutters"),
    "cluster_declared": Kind("commands", _declaration),
    "cluster_lost": Kind("commands"),
    "cluster_returned": Kind("commands"),
    "limits_declared": Kind("commands"),
    "power_cap_declared": Kind("commands"),
    "plan_proposed": Kind("commands"),
}
