"""What placement lists: its jobs and its clusters."""

from collections.abc import Sequence
from typing import Final

from coplace.v1.placement_service_pb2 import (
    ListClustersRequest,
    ListClustersResponse,
    ListedCluster,
    ListedJob,
    ListJobsRequest,
    ListJobsResponse,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub

from cli.asking import asking
from cli.known import require_known
from shared.clients.listing import pages_of_jobs

_WITHIN_S: Final = 30.0


def ask_clusters(placement: str, *, within_s: float = _WITHIN_S) -> ListClustersResponse:
    """Ask placement for its clusters. Raises UnansweredError."""
    with asking(placement) as channel:
        stub = PlacementServiceStub(channel)
        answer: ListClustersResponse = stub.ListClusters(ListClustersRequest(), timeout=within_s)
    return answer


def listed_clusters(placement: str, *, within_s: float = _WITHIN_S) -> Sequence[ListedCluster]:
    """Return the clusters that placement knows, by their names. Raises UnansweredError."""
    return ask_clusters(placement, within_s=within_s).clusters


def require_cluster(placement: str, name: str) -> None:
    """Raise UnknownNameError for a cluster that is not declared, UnansweredError without an
    answer."""
    require_known("cluster", name, (each.name for each in listed_clusters(placement)))


def require_site(placement: str, name: str) -> None:
    """Raise UnknownNameError for a site of no cluster, UnansweredError without an answer; no name
    is no site."""
    if name:
        require_known("site", name, {each.site for each in listed_clusters(placement)})


def ask_jobs(
    placement: str, request: ListJobsRequest, limit: int, *, within_s: float = _WITHIN_S
) -> ListJobsResponse:
    """Return at most `limit` of the jobs that are asked for as one answer, of which each part takes
    at most so many seconds. Raises UnansweredError."""
    found: list[ListedJob] = []
    with asking(placement) as channel:
        for answer in pages_of_jobs(channel, request, limit, within_s):
            found.extend(answer.jobs)
    return ListJobsResponse(as_of_us=answer.as_of_us, jobs=found[:limit], in_all=answer.in_all)


def listed_jobs(
    placement: str, request: ListJobsRequest, limit: int, *, within_s: float = _WITHIN_S
) -> tuple[Sequence[ListedJob], int]:
    """Return at most `limit` of the jobs that are asked for, and how many there are. Raises
    UnansweredError."""
    answer = ask_jobs(placement, request, limit, within_s=within_s)
    return answer.jobs, answer.in_all
