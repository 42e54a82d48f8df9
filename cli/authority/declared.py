"""What was declared of authority and of clusters, read from Kafka."""

from collections.abc import Mapping

from coplace.v1.control_pb2 import ClusterDeclared

from coplace_client.errors import RejectedError
from shared.authority.binding import SitedCluster
from shared.authority.following import TOPIC
from shared.authority.table import TableInForce
from shared.catalogue.record import type_of
from shared.streams.on_kafka.clients import Reader
from shared.streams.on_kafka.deployment import Deployment


def read_table_in_force(deployment: Deployment) -> TableInForce:
    """Return the table of authority in force. Raises KafkaError."""
    found = TableInForce()
    with Reader(deployment, deployment.topics.partitions(TOPIC)) as reader:
        for record in reader.to_end():
            try:
                found.fold(deployment.codec.decode(record, of_any_count=True))
            except RejectedError:
                continue  # no door counts it either
    return found


def sites(deployment: Deployment) -> Mapping[str, str]:
    """Return the declared site of each cluster. Raises KafkaError."""
    found: dict[str, str] = {}
    kind = ClusterDeclared.DESCRIPTOR.full_name.encode()
    with Reader(deployment, deployment.topics.partitions("commands")) as reader:
        for record in reader.to_end():
            if type_of(record) == kind and record.value is not None:
                declared = ClusterDeclared.FromString(record.value)
                found[declared.cluster] = declared.site
    return found


def cluster_with_site(cluster: str, known: Mapping[str, str]) -> SitedCluster:
    """Return a cluster with its site."""
    return SitedCluster(cluster, known.get(cluster, ""))
