"""The partitions and features of a cluster, as questions about it are answered."""

from collections import Counter
from collections.abc import Iterator

from coplace.v1.placement_service_pb2 import ListedFeature, ListedPartition

from shared.domain.cluster import Cluster
from shared.placement.state.occupancy import Occupancy
from shared.scheduling.eligibility import node_set, nodes_of_partition


def listed_partitions(cluster: Cluster, occupancy: Occupancy) -> Iterator[ListedPartition]:
    """Yield the partitions as declared, each with its free nodes."""
    free = node_set(occupancy.free_nodes()) if cluster.partitions else 0
    for partition in cluster.partitions:
        nodes = nodes_of_partition(cluster, partition.name)
        yield ListedPartition(
            name=partition.name,
            nodes=nodes.bit_count(),
            free_nodes=(nodes & free).bit_count(),
            down=partition.down,
            default=partition.default,
        )


def listed_features(cluster: Cluster) -> Iterator[ListedFeature]:
    """Yield the features of nodes by name, each with the number of nodes that have it."""
    counts = Counter[str]()
    for each in cluster.node_classes:
        counts.update(dict.fromkeys(each.features, each.nodes))
    for name, nodes in sorted(counts.items()):
        yield ListedFeature(name=name, nodes=nodes)
