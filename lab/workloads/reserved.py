"""Jobs that run in a reservation."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lab.workloads.request import JobRequest
from lab.workloads.streams import Stream, stream
from shared.domain.cluster import Cluster

COURSE: Final = "course"
# The part of the nodes of each cluster that the reservation has.
_PARTS: Final = 8


def nodes_of_course(cluster: Cluster) -> int:
    """Return how many nodes of a cluster, the first, the reservation has."""
    return max(1, cluster.nodes // _PARTS)


def in_reservations(
    requests: Sequence[JobRequest], clusters: Sequence[Cluster], seed: int, share: float
) -> list[JobRequest]:
    """Return the same jobs, a share of them in a reservation that each cluster has.

    Each job draws for itself, so that a longer workload begins with the same jobs.
    """
    draws = stream(seed, Stream.RESERVED).random(len(requests)).tolist()
    fewest = min(map(nodes_of_course, clusters))
    return [
        _reserved(request, fewest) if draw < share and not request.resources_per_unit else request
        for request, draw in zip(requests, draws, strict=True)
    ]


def _reserved(request: JobRequest, most_nodes: int) -> JobRequest:
    """Its nodes need not be in a partition, nor have a feature."""
    nodes = min(request.nodes, most_nodes)
    return replace(request, nodes=nodes, reservation=COURSE, partitions=(), features="")
