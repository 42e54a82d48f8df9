"""What is said to Coplace and asked of it, over gRPC."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

import grpc
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_HELD,
    JOB_STANDING_RESERVED,
    JOB_STANDING_WAITING,
    ExplainRequest,
    ExplainResponse,
    ListClustersRequest,
    ListClustersResponse,
    ListedJob,
    ListedLicences,
    ListedLimit,
    ListedReservation,
    ListJobsRequest,
    ListLicencesRequest,
    ListLimitsRequest,
    ListReservationsRequest,
    QuoteRequest,
    QuoteResponse,
    ShowNodesRequest,
    ShowNodesResponse,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub

from coplace_client import ingest
from coplace_client.calls import calling
from coplace_client.channels import GrpcSettings
from shared.clients.listing import pages_of_jobs

_WITHIN_S: Final = 30.0
_MOST_JOBS: Final = 1_000_000
_A_PAGE: Final = 200
_WAITING: Final = (JOB_STANDING_WAITING, JOB_STANDING_RESERVED, JOB_STANDING_HELD)


class AskedRegion(Protocol):
    """Ingest and placement. Every method raises UnansweredError."""

    def publish(self, event: Envelope) -> None:
        """Hand over a fact."""

    def publish_all(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        """Hand over facts in order: why some were refused, by their position."""

    def clusters(self) -> Iterable[str]:
        """Return the clusters that placement knows."""

    def round_us(self) -> int:
        """Return when the round of placement's that ended last did; 0: there was none."""

    def nodes(self, cluster: str) -> ShowNodesResponse:
        """Return the states of the nodes of a cluster."""

    def jobs(self, request: ListJobsRequest) -> Sequence[ListedJob]:
        """Return all jobs that are asked for."""

    def waiting_jobs(self, cluster: str) -> Sequence[ListedJob]:
        """Return the jobs that wait for a cluster, and when they are expected to start."""

    def explained(self, job_id: str) -> ExplainResponse:
        """Return what becomes of a job."""

    def quoted(self, job: JobSubmitted) -> QuoteResponse:
        """Return what a job costs."""

    def reservations(self, cluster: str) -> Iterable[ListedReservation]:
        """Return the reservations of a cluster."""

    def licences(self) -> Iterable[ListedLicences]:
        """Return all licences."""

    def limits(self, site: str) -> Iterable[ListedLimit]:
        """Return the limits that hold at a site alone."""


class RegionOverGrpc:
    """They are called anew each time: the certificate that is shown may have been renewed."""

    def __init__(self, ingest_address: str, placement_address: str, settings: GrpcSettings) -> None:
        self._ingest, self._placement, self._settings = ingest_address, placement_address, settings

    def publish(self, event: Envelope) -> None:
        """Hand over a fact."""
        ingest.publish(self._ingest, self._settings, event)

    def publish_all(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        """Hand over facts in order: why some were refused, by their position."""
        return ingest.publish_all(self._ingest, self._settings, events)

    def clusters(self) -> Iterable[str]:
        """Return the clusters that placement knows."""
        return [each.name for each in self._listed().clusters]

    def round_us(self) -> int:
        """Return when the round of placement's that ended last did; 0: there was none."""
        return self._listed().as_of_us

    def _listed(self) -> ListClustersResponse:
        with self._asking() as stub:
            answer: ListClustersResponse = stub.ListClusters(
                ListClustersRequest(), timeout=_WITHIN_S
            )
        return answer

    def nodes(self, cluster: str) -> ShowNodesResponse:
        """Return the states of the nodes of a cluster."""
        with self._asking() as stub:
            request = ShowNodesRequest(cluster=cluster)
            answer: ShowNodesResponse = stub.ShowNodes(request, timeout=_WITHIN_S)
        return answer

    def jobs(self, request: ListJobsRequest) -> Sequence[ListedJob]:
        """Return all jobs that are asked for."""
        with self._calling() as channel:
            pages = pages_of_jobs(channel, request, _MOST_JOBS, _WITHIN_S)
            return [job for page in pages for job in page.jobs]

    def waiting_jobs(self, cluster: str) -> Sequence[ListedJob]:
        """Return the jobs that wait for a cluster, and when they are expected to start."""
        request = ListJobsRequest(
            cluster=cluster, standings=_WAITING, with_forecasts=True, page_size=_A_PAGE
        )
        found: list[ListedJob] = []
        with self._asking() as stub:
            while True:
                answer = stub.ListJobs(request, timeout=_WITHIN_S)
                found += answer.jobs
                request.page_token = answer.next_page_token
                if not request.page_token:
                    return found

    def explained(self, job_id: str) -> ExplainResponse:
        """Return what becomes of a job."""
        with self._asking() as stub:
            request = ExplainRequest(job_id=job_id)
            answer: ExplainResponse = stub.Explain(request, timeout=_WITHIN_S)
        return answer

    def quoted(self, job: JobSubmitted) -> QuoteResponse:
        """Return what a job costs."""
        with self._asking() as stub:
            answer: QuoteResponse = stub.Quote(QuoteRequest(job=job), timeout=_WITHIN_S)
        return answer

    def reservations(self, cluster: str) -> Iterable[ListedReservation]:
        """Return the reservations of a cluster."""
        with self._asking() as stub:
            request = ListReservationsRequest(cluster=cluster)
            answer = stub.ListReservations(request, timeout=_WITHIN_S)
        return list(answer.reservations)

    def licences(self) -> Iterable[ListedLicences]:
        """Return all licences."""
        with self._asking() as stub:
            answer = stub.ListLicences(ListLicencesRequest(), timeout=_WITHIN_S)
        return list(answer.licences)

    def limits(self, site: str) -> Iterable[ListedLimit]:
        """Return the limits that hold at a site alone."""
        with self._asking() as stub:
            answer = stub.ListLimits(ListLimitsRequest(site=site), timeout=_WITHIN_S)
        return list(answer.limits)

    @contextmanager
    def _asking(self) -> Iterator[PlacementServiceStub]:
        with self._calling() as channel:
            yield PlacementServiceStub(channel)

    def _calling(self) -> AbstractContextManager[grpc.Channel]:
        return calling(self._placement, self._settings)
