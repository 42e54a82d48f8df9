"""How much of a job fits on a cluster that nothing runs on: placement rejects what fits on none."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from coplace.v1.control_pb2 import ClusterDeclared, NodeClass
from coplace.v1.jobs_pb2 import JobSubmitted

from coplace_client.millicores import PER_CORE
from shared.domain.features import parse_features
from shared.domain.hostlist import expand
from shared.kubernetes.facts import unit_millicores

# Nobody shares a node of one core.
_SHARED_CORES: Final = 2


def fits(asked: JobSubmitted, cluster: ClusterDeclared) -> bool:
    """Return whether all units of a job fit there, where its labels and tolerations let them."""
    if asked.clusters and cluster.cluster not in asked.clusters:
        return False
    if asked.shareable and cluster.cores_per_node < _SHARED_CORES:
        return False
    return any(
        sum(count * _units_on(asked, cluster, kind) for kind, count in _kinds(cluster, among))
        >= asked.nodes
        for among in _places(asked, cluster)
    )


def _places(asked: JobSubmitted, cluster: ClusterDeclared) -> Iterator[frozenset[str] | None]:
    """The nodes of each partition that it may be in; None: all nodes."""
    if not (asked.partitions or any(each.default for each in cluster.partitions)):
        yield None
    for each in cluster.partitions:
        if each.name in asked.partitions or (each.default and not asked.partitions):
            yield _named(each.nodes) if each.nodes or each.down else None


def _named(lists: Iterable[str]) -> frozenset[str]:
    return frozenset(name for each in lists for name in expand(each))


def _kinds(
    cluster: ClusterDeclared, among: frozenset[str] | None
) -> Iterator[tuple[NodeClass, int]]:
    """The classes of these nodes, with how many are of each."""
    if among is None:
        yield from ((kind, kind.nodes) for kind in cluster.node_classes)
        return
    names = (name for each in cluster.node_names for name in expand(each))
    for kind in cluster.node_classes:
        yield kind, sum(name in among for name in islice(names, kind.nodes))


def _units_on(asked: JobSubmitted, cluster: ClusterDeclared, kind: NodeClass) -> int:
    """How many units fit on a node of a class."""
    if asked.features and not parse_features(asked.features).holds(frozenset(kind.features)):
        return 0
    has_millicores = kind.millicores_per_node or cluster.cores_per_node * PER_CORE
    found = [has_millicores // max(1, unit_millicores(asked))]
    if asked.memory_gib_per_unit:
        found.append(int(kind.memory_gib // asked.memory_gib_per_unit))
    needs = asked.resources_per_unit.items()
    found += [int(kind.resources.get(name, 0) // count) for name, count in needs if count]
    if asked.units_per_node:
        found.append(asked.units_per_node)
    return min(found)
