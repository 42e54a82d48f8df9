"""What ingest takes: the topic of each payload of an Envelope, and checks that need the whole of
it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from coplace.v1.authority_pb2 import AuthorityDeclared
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobStarted, JobSubmitted

from coplace_client.errors import RejectedError
from shared.authority.table import AuthorityTable
from shared.catalogue.guards import PAYLOADS
from shared.catalogue.payloads.coefficients import declared_coefficients_of
from shared.catalogue.payloads.domain_types import cluster_of, dependencies_of, job_of
from shared.catalogue.topics import load_topics

# As which it writes topics.
NAME: Final = "ingest"


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
    AuthorityTable.from_message(message)


_CHECKS: Final[Mapping[str, Callable[[Any], object]]] = {
    "job_submitted": _submission,
    "job_started": _start,
    "cluster_declared": _declaration,
    "coefficients_declared": declared_coefficients_of,
    "authority_declared": _table,
}
_TOPICS: Final = {
    message: name
    for name, spec in load_topics().items()
    if NAME in spec.producers
    for message in spec.messages
}
KINDS: Final[Mapping[str, PayloadKind]] = {
    name: PayloadKind(_TOPICS[message.full_name], _CHECKS.get(name, bool))
    for name, message in PAYLOADS.items()
}
