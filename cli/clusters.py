"""`coplace clusters`: which clusters there are, and what is on them."""

from collections.abc import Iterator
from typing import Final

from coplace.v1.placement_service_pb2 import ListedCluster

from cli.answers import write_answer
from cli.asking import Placement
from cli.listing import ask_clusters
from cli.notes import note
from cli.output import Output, OutputName, Row

_COLUMNS: Final = ("cluster", "node model", "nodes", "free", "running", "waiting", "is")


def clusters(
    output: OutputName = Output.TABLE,
    placement: Placement = "127.0.0.1:50053",
) -> None:
    """List the clusters: their nodes, what of them is free, and how many jobs run and wait."""
    answer = ask_clusters(placement)
    rows = [row(cluster) for cluster in answer.clusters]
    write_answer(answer, rows, _COLUMNS, output)
    if output is Output.TABLE:
        note(f"{each['cluster']}: {each['why']}" for each in rows if each["why"])
        note(line for cluster in answer.clusters for line in _places(cluster))


def row(cluster: ListedCluster) -> Row:
    """Return the row of a cluster."""
    return {
        "cluster": cluster.name,
        "site": cluster.site,
        "node model": cluster.node_model,
        "nodes": cluster.nodes,
        "free": cluster.free_nodes,
        "running": cluster.running,
        "waiting": cluster.waiting,
        "is": _standing(cluster),
        "why": cluster.lost or cluster.drained,
    }


def _standing(cluster: ListedCluster) -> str:
    """Whether it takes jobs, in a word."""
    if cluster.lost:  # "lost since ..." or "undeclared since ..."
        return cluster.lost.partition(" ")[0]
    count = cluster.drained_nodes
    if not count:
        return "in reach"
    return "drained" if count == cluster.nodes else f"{count} drained"


def _places(cluster: ListedCluster) -> Iterator[str]:
    """Its partitions and features, a line each."""
    for partition in cluster.partitions:
        words = f"{partition.nodes} nodes, {partition.free_nodes} free"
        words += ", default" if partition.default else ""
        words += ", down" if partition.down else ""
        yield f"{cluster.name}: partition {partition.name}: {words}"
    for feature in cluster.features:
        yield f"{cluster.name}: feature {feature.name}: {feature.nodes} nodes"
