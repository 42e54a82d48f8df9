"""Users whose jobs need part of a node, or accelerators, beside users who need whole nodes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from coplace_client.errors import UnusableError
from coplace_client.millicores import beside_cores, whole_cores
from lab.workloads.request import JobRequest
from lab.workloads.streams import Stream, stream
from shared.domain.cluster import Cluster

GPU: Final = "gpu"
# Declared. A quarter of a node leaves space for three others of its kind, and a job of more than a
# few such parts would ask for whole nodes.
UNITS_A_NODE: Final = 4
MOST_QUARTERS: Final = 8
# Thousandths of a core of a unit, as pods ask for them.
THOUSANDTHS: Final = (100, 250, 500, 1_500, 2_750)


def with_parts(
    requests: Sequence[JobRequest],
    clusters: Sequence[Cluster],
    seed: int,
    quarters_share: float,
    gpus_share: float,
    thousandths_share: float = 0.0,
) -> list[JobRequest]:
    """Return the same jobs, a share of them on quarters of nodes that they share, at most
    `MOST_QUARTERS` and one a node, another share of units of half a node with a GPU each, and a
    third one of units that are no whole cores.

    Each job draws for itself, so that a longer workload begins with the same jobs. Raises
    UnusableError where no cluster has GPUs that are asked for.
    """
    draws = stream(seed, Stream.PARTS).random(len(requests)).tolist()
    by_name = {cluster.name: cluster for cluster in clusters}
    hosts = [cluster for cluster in clusters if _gpus(cluster)]
    if gpus_share and not hosts:
        raise UnusableError("jobs that need a GPU need a cluster that has some: declare a class")
    return [
        _on_quarters(request, by_name[request.reference_cluster])
        if draw < quarters_share
        else _with_gpus(request, hosts[0])
        if draw < quarters_share + gpus_share
        else _on_thousandths(request)
        if draw < quarters_share + gpus_share + thousandths_share
        else request
        for request, draw in zip(requests, draws, strict=True)
    ]


def _gpus(cluster: Cluster) -> int:
    return sum(each.nodes * dict(each.resources).get(GPU, 0) for each in cluster.node_classes)


def _on_quarters(request: JobRequest, cluster: Cluster) -> JobRequest:
    return replace(
        request,
        nodes=min(request.nodes, MOST_QUARTERS),
        shareable=True,
        cores_per_unit=max(1, cluster.cores_per_node // UNITS_A_NODE),
        units_per_node=1,
    )


def _on_thousandths(request: JobRequest) -> JobRequest:
    thousandths = THOUSANDTHS[request.index % len(THOUSANDTHS)]
    return replace(
        request,
        nodes=min(request.nodes, MOST_QUARTERS),
        shareable=True,
        cores_per_unit=whole_cores(thousandths),
        millicores_per_unit=beside_cores(thousandths),
    )


def _with_gpus(request: JobRequest, cluster: Cluster) -> JobRequest:
    """Where there are some, which becomes the reference too: it takes as many of its runs there."""
    return replace(
        request,
        nodes=min(request.nodes, _gpus(cluster)),
        shareable=False,
        reference_cluster=cluster.name,
        cores_per_unit=max(1, cluster.cores_per_node // 2),
        resources_per_unit=((GPU, 1),),
    )
