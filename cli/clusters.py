"""`coplace clusters`: which clusters there are, and what is on them."""

from collections.abc import Sequence
from typing import Final

from coplace.v1.placement_service_pb2 import (
    ListClustersRequest,
    ListClustersResponse,
    ListedCluster,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub

from cli.asking import Placement, asking
from cli.output import Output, OutputName, Row, write

_WITHIN_S: Final = 30.0
_COLUMNS: Final = ("cluster", "site", "node model", "nodes", "free", "running", "waiting", "is")


def clusters(
    output: OutputName = Output.TABLE,
    placement: Placement = "127.0.0.1:50053",
) -> None:
    """List the clusters: their nodes, what of them is free, and how many jobs run and wait."""
    write([row(cluster) for cluster in listing(placement)], _COLUMNS, output)


def listing(placement: str, *, within_s: float = _WITHIN_S) -> Sequence[ListedCluster]:
    """The clusters that placement knows, by their names. Raises UnansweredError."""
    with asking(placement) as channel:
        stub = PlacementServiceStub(channel)
        answer: ListClustersResponse = stub.ListClusters(ListClustersRequest(), timeout=within_s)
    return answer.clusters


def row(cluster: ListedCluster) -> Row:
    """All that is told of a cluster."""
    return {
        "cluster": cluster.name,
        "site": cluster.site,
        "node model": cluster.node_model,
        "nodes": cluster.nodes,
        "free": cluster.free_nodes,
        "running": cluster.running,
        "waiting": cluster.waiting,
        "is": cluster.lost or _drained(cluster) or "in reach",
        "drained": cluster.drained,
    }


def _drained(cluster: ListedCluster) -> str:
    """That it takes no jobs, or fewer; empty where it takes as many as it has nodes for."""
    count = cluster.drained_nodes
    return "drained" if count == cluster.nodes else f"{count} drained" if count else ""
