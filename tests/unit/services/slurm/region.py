"""Ingest and placement as the adapter of a Slurm meets them."""

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace

import grpc
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import (
    ExplainResponse,
    ListedJob,
    ListedLicences,
    ListedLimit,
    ListedReservation,
    ListJobsRequest,
    QuoteResponse,
    ShowNodesResponse,
)

from coplace_client.calls import UnansweredError
from services.slurm.model.facts import SlurmTerms
from shared.slurm.facts import Site

SITE = Site("north", "none", "gold-6254")
TERMS = SlurmTerms(SITE, "alpha")


def unanswered(code: grpc.StatusCode, why: str) -> UnansweredError:
    """A failure as a call has it."""
    error = SimpleNamespace(code=lambda: code, details=lambda: why, trailing_metadata=tuple)
    return UnansweredError("127.0.0.1:1", error)


class PlayedRegion:
    """Takes what is published, and knows what is set."""

    def __init__(self) -> None:
        self.told: list[Envelope] = []
        self.listed: list[ListedJob] = []
        self.reserved: list[ListedReservation] = []
        self.licensed: list[ListedLicences] = []
        self.limited: list[ListedLimit] = []
        self.known: list[str] = []
        self.explains: dict[str, ExplainResponse] = {}
        self.quotes = QuoteResponse()
        self.failures: list[Exception] = []
        self.last_round_us = 0

    def publish(self, event: Envelope) -> None:
        """Take it, unless a failure is set."""
        if self.failures:
            raise self.failures.pop(0)
        self.told.append(event)

    def publish_all(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        """Take them one by one."""
        for event in events:
            self.publish(event)
        return {}

    def clusters(self) -> Iterable[str]:
        """What is declared."""
        return self.known

    def round_us(self) -> int:
        """What is set."""
        return self.last_round_us

    def nodes(self, cluster: str) -> ShowNodesResponse:
        """None is shown."""
        return ShowNodesResponse()

    def jobs(self, request: ListJobsRequest) -> Sequence[ListedJob]:
        """What is listed, whatever is asked for."""
        return self.listed

    def waiting_jobs(self, cluster: str) -> Sequence[ListedJob]:
        """What is listed of the cluster."""
        return [each for each in self.listed if each.allocation.cluster in ("", cluster)]

    def explained(self, job_id: str) -> ExplainResponse:
        """What is set of it."""
        if job_id not in self.explains:
            raise unanswered(grpc.StatusCode.NOT_FOUND, "unknown")
        return self.explains[job_id]

    def quoted(self, job: JobSubmitted) -> QuoteResponse:
        """What is set."""
        return self.quotes

    def reservations(self, cluster: str) -> Iterable[ListedReservation]:
        """What is set of it."""
        return [each for each in self.reserved if each.reservation.cluster == cluster]

    def licences(self) -> Iterable[ListedLicences]:
        """What is set."""
        return self.licensed

    def limits(self, site: str) -> Iterable[ListedLimit]:
        """What is set for a site."""
        return [each for each in self.limited if each.limit.site == site]
