"""What ingest takes: the topic of each payload of an Envelope, and what only the whole tells."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from coplace.v1.authority_pb2 import AuthorityDeclared
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobStarted, JobSubmitted

from coplace_client.errors import RejectedError
from shared.authority.table import AuthorityTable
from shared.catalogue.payloads.domain_types import (
    cluster_of,
    declared_coefficients_of,
    dependencies_of,
    job_of,
)


@dataclass(frozen=True, slots=True)
class PayloadKind:
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


def _table(message: AuthorityDeclared) -> None:
    AuthorityTable.of(message)


KINDS: Final[Mapping[str, PayloadKind]] = {
    "job_submitted": PayloadKind("jobs.events", _submission),
    "job_started": PayloadKind("jobs.events", _start),
    "job_finished": PayloadKind("jobs.events"),
    "job_requeued": PayloadKind("jobs.events"),
    "job_declined": PayloadKind("jobs.events"),
    "job_seized": PayloadKind("jobs.events"),
    "job_cancelled": PayloadKind("jobs.events"),
    "job_held": PayloadKind("jobs.events"),
    "job_released": PayloadKind("jobs.events"),
    "job_requeue_asked": PayloadKind("jobs.events"),
    "job_suspended": PayloadKind("jobs.events"),
    "job_resumed": PayloadKind("jobs.events"),
    "job_action_done": PayloadKind("jobs.events"),
    "job_action_refused": PayloadKind("jobs.events"),
    "signature_measured": PayloadKind("telemetry.signatures"),
    "node_samples": PayloadKind("telemetry.nodes"),
    "shutters_measured": PayloadKind("telemetry.shutters"),
    "cluster_declared": PayloadKind("commands", _declaration),
    "cluster_lost": PayloadKind("commands"),
    "cluster_returned": PayloadKind("commands"),
    "cluster_undeclared": PayloadKind("commands"),
    "nodes_drained": PayloadKind("commands"),
    "nodes_resumed": PayloadKind("commands"),
    "limits_declared": PayloadKind("commands"),
    "power_cap_declared": PayloadKind("commands"),
    "policy_declared": PayloadKind("commands"),
    "coefficients_declared": PayloadKind("commands", declared_coefficients_of),
    "plan_proposed": PayloadKind("commands"),
    "model_pinned": PayloadKind("commands"),
    "model_rolled_back": PayloadKind("commands"),
    "pairs_allowed": PayloadKind("commands"),
    "tariff_declared": PayloadKind("billing"),
    "allocation_declared": PayloadKind("billing"),
    "period_closed": PayloadKind("billing"),
    "reprice_asked": PayloadKind("billing"),
    "authority_declared": PayloadKind("authority", _table),
}
