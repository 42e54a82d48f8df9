"""The clusters of Coplace that a Slurm is: what it says of its jobs names the Slurm alone. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobFinished

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.hostlist import expand
from shared.domain.printable import printable
from shared.slurm.message import NO_NODES, Message


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """Which clusters a Slurm is: by the names of nodes and of partitions, and their node models;
    what it does not know is of the `first`, which is the Slurm itself where that is empty."""

    first: str = ""
    of_node: Mapping[str, str] = field(default_factory=dict)
    of_partition: Mapping[str, str] = field(default_factory=dict)
    node_models: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_declared(cls, declared: Sequence[ClusterDeclared]) -> "ClusterMap":
        """Return that of clusters, in the order in which a partition of several is looked up."""
        return cls(
            declared[0].cluster,
            {node: each.cluster for each in declared for node in _expanded(each.node_names)},
            {
                partition.name: each.cluster
                for each in reversed(declared)
                for partition in each.partitions
            },
            {each.cluster: each.node_model for each in declared},
        )

    def where_asked(self, partitions: Iterable[str]) -> str:
        """Return the first cluster that a job may run on."""
        known = (self.of_partition[name] for name in partitions if name in self.of_partition)
        return next(known, self.first)

    def where_run(self, nodes: Iterable[str]) -> str:
        """Return the cluster that nodes are of."""
        known = (self.of_node[name] for name in nodes if name in self.of_node)
        return next(known, self.first)


class DeclaredClusters:
    """The clusters that a Slurm is, by their names, as they are declared now. A node that is
    declared no more stays that of its cluster: what ran on it may still be reported."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._declared: dict[str, ClusterDeclared] = {}
        self._of_node: dict[str, str] = {}
        self._map = ClusterMap()

    @property
    def missing(self) -> list[str]:
        """Return those that were never declared."""
        return [name for name in self._names if name not in self._declared]

    @property
    def clusters(self) -> ClusterMap:
        """Return where nodes and partitions are."""
        return self._map

    def fold(self, event: Event) -> None:
        """Fold a declaration."""
        declared = event.payload
        if not isinstance(declared, ClusterDeclared) or declared.cluster not in self._names:
            return
        self._declared[declared.cluster] = declared
        self._of_node.update(dict.fromkeys(_expanded(declared.node_names), declared.cluster))
        known = [self._declared[name] for name in self._names if name in self._declared]
        now = ClusterMap.of_declared(known)
        self._map = ClusterMap(
            now.first, {**self._of_node, **now.of_node}, now.of_partition, now.node_models
        )


def _expanded(host_lists: Iterable[str]) -> Iterator[str]:
    return (name for each in host_lists for name in expand(each))


def say_where_asked(first: Envelope, message: Message, clusters: ClusterMap) -> Envelope:
    """Say of a submission which cluster it is for, where the Slurm is several or has another name.
    Its id says that too: a way that does not know the clusters gives it another content."""
    submitted, cluster = first.job_submitted, clusters.where_asked(_partitions(message))
    if cluster and cluster != submitted.reference_cluster:
        first.id += f"/on-{cluster}"
        submitted.reference_cluster = submitted.home_cluster = cluster
    return first


def say_where_run(later: Envelope, message: Message, clusters: ClusterMap) -> Envelope:
    """Say of a start or an end which cluster it was on, in the same way."""
    run = later.job_started if later.HasField("job_started") else later.job_finished
    cluster = _where_run(message, clusters)
    if cluster and cluster != run.cluster:
        later.id += f"/on-{cluster}"
        run.cluster = cluster
    node_model = clusters.node_models.get(cluster, "")
    if node_model and isinstance(run, JobFinished):
        run.node_model = printable(node_model)
    return later


def _where_run(message: Message, clusters: ClusterMap) -> str:
    """Return the cluster that a run was on. Placement alone knows that of one whose nodes Slurm
    shows no more."""
    names = _nodes(message)
    found = clusters.where_run(names) if names else clusters.where_asked(_partitions(message))
    return message.raw("ran_on") or found


def _partitions(message: Message) -> list[str]:
    return [name for name in message.raw("partition").split(",") if name]


def _nodes(message: Message) -> list[str]:
    """The names of its nodes; none where they are no host list."""
    said = message.raw("nodes").strip()
    try:
        return [] if said in NO_NODES else expand(said)
    except RejectedError:
        return []
