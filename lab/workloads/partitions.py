"""Clusters with partitions and features, and users whose jobs ask for them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lab.workloads.request import JobRequest
from lab.workloads.streams import Stream, stream
from shared.domain.cluster import Cluster, NodeClass
from shared.domain.partition import Partition

DEBUG: Final = "debug"
BATCH: Final = "batch"
INFINIBAND: Final = "ib"
# Declared: an eighth of the nodes is of both partitions, and an eighth of `debug` alone.
PARTS: Final = 8
DEBUG_WALLTIME_S: Final = 3600.0
# The share of the jobs in a partition that ask for a feature too.
_WITH_FEATURE: Final = 0.5


def with_partitions(cluster: Cluster) -> Cluster:
    """Return a cluster with two partitions that overlap, one for short jobs; the first half of its
    nodes, or those before its accelerators, have a feature."""
    part = max(1, cluster.nodes // PARTS)
    half = max(1, cluster.nodes // 2)
    classes = cluster.declared_classes or (
        NodeClass(half, cluster.memory_gib_per_node),
        NodeClass(cluster.nodes - half, cluster.memory_gib_per_node),
    )
    first = replace(classes[0], features=(INFINIBAND,))
    names = cluster.names()

    def nodes(begin: int, end: int) -> tuple[str, ...]:
        return tuple(names.name(index) for index in range(begin, min(end, cluster.nodes)))

    return replace(
        cluster,
        declared_classes=(first, *classes[1:]),
        partitions=(
            Partition(DEBUG, nodes(0, 2 * part), most_walltime_s=DEBUG_WALLTIME_S),
            Partition(BATCH, nodes(part, cluster.nodes)),
        ),
    )


def asking_for_partitions(
    requests: Sequence[JobRequest], clusters: Sequence[Cluster], seed: int, share: float
) -> list[JobRequest]:
    """Return the same jobs, a share of them in partitions of any cluster, the short ones in either,
    some of these on nodes with a feature.

    Each job draws for itself, so that a longer workload begins with the same jobs.
    """
    draws = stream(seed, Stream.PARTITIONS).random((len(requests), 2)).tolist()
    fewest = min(max(1, each.nodes // PARTS) for each in clusters)
    return [
        _placed(request, fewest, with_feature=feature < _WITH_FEATURE) if draw < share else request
        for request, (draw, feature) in zip(requests, draws, strict=True)
    ]


def _placed(request: JobRequest, most_nodes: int, *, with_feature: bool) -> JobRequest:
    is_short = request.walltime_s <= DEBUG_WALLTIME_S
    return replace(
        request,
        nodes=min(request.nodes, most_nodes),
        partitions=(DEBUG, BATCH) if is_short else (BATCH,),
        features=INFINIBAND if with_feature and not request.resources_per_unit else "",
    )
