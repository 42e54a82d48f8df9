"""Where jobs may run: what is declared and asked for, drawn by itself so that no other draw moves,
and read plainly, node by node."""

from random import Random
from typing import Any, Final

from coplace.v1.control_pb2 import ClusterDeclared, NodeClass, Partition
from coplace.v1.jobs_pb2 import JobSubmitted

from shared.domain.hostlist import expand

PARTITIONS: Final = ("debug", "batch", "long")
# Fields that are distorted where there are places: another field moves all that is drawn behind it.
OF_PLACES: Final = frozenset(
    {
        *("partitions", "features", "nodes_wanted", "nodes_excluded", "clusters"),
        *("refused_nodes", "refused_kind", "refused_name"),
    }
)
_FEATURES: Final = ("x", "y")
_EXPRESSIONS: Final = ("", "", "", "x", "x&y", "x|y")


def names_of(declared: ClusterDeclared) -> list[str]:
    """The names of a cluster's nodes, by index."""
    if declared.node_names:
        return expand(",".join(declared.node_names))
    return [f"{declared.cluster}-{index:04d}" for index in range(declared.nodes)]


def add_partitions(declared: ClusterDeclared, now_us: int) -> None:
    """Declare partitions that overlap, and features."""
    rng = Random(f"partitions {declared.cluster} {now_us}")
    names = names_of(declared)
    for name in rng.sample(PARTITIONS, rng.randint(0, len(PARTITIONS))):
        declared.partitions.append(
            Partition(
                name=name,
                nodes=rng.choice([[], rng.sample(names, rng.randint(1, len(names)))]),
                most_nodes=rng.choice([0, 0, 0, 4]),
                most_walltime_s=rng.choice([0, 0, 0, 1800]),
                exclusive=rng.random() < 0.2,
                down=rng.random() < 0.1,
                default=rng.random() < 0.1,
            )
        )
    if not declared.node_classes:
        declared.node_classes.append(
            NodeClass(nodes=declared.nodes, memory_gib=declared.memory_gib_per_node)
        )
    for each in declared.node_classes:
        each.features.extend(name for name in _FEATURES if rng.random() < 0.7)


def wishes(job_id: str, units: int, reference: ClusterDeclared) -> dict[str, Any]:
    """What a job asks for; nothing, most of the time."""
    rng = Random(f"wishes {job_id}")
    if rng.random() < 0.5:
        return {}
    names = rng.sample(names_of(reference), min(2, reference.nodes))
    wanted = names[: min(units, 1)] if rng.random() < 0.2 else []
    return {
        "partitions": rng.choice([[], ["batch"], ["debug"], ["debug", "long"], ["none"]]),
        "features": rng.choice(_EXPRESSIONS),
        "nodes_wanted": wanted,
        "nodes_excluded": [name for name in names if name not in wanted and rng.random() < 0.4],
        "clusters": rng.choice([[], [], [], [reference.cluster]]),
    }


def has_wishes(job: JobSubmitted, declared: ClusterDeclared) -> bool:
    """Whether not all nodes of a cluster are the same to a job."""
    asks = job.partitions or job.features or job.nodes_wanted or job.nodes_excluded
    return bool(asks) or any(each.default for each in declared.partitions)


def allowed(
    job: JobSubmitted, declared: ClusterDeclared, nodes: int, *, up: bool
) -> list[set[int]]:
    """The nodes, by index, of each partition in which a job of so many nodes may be; those of
    partitions that are `up` alone where that is asked for."""
    if job.clusters and declared.cluster not in job.clusters:
        return []
    names, everywhere = names_of(declared), set(range(declared.nodes))
    asked = [p for p in declared.partitions if p.name in job.partitions]
    if not job.partitions:
        asked = [p for p in declared.partitions if p.default]
    offered = [everywhere]
    if job.partitions or asked:
        offered = [
            {names.index(name) for name in p.nodes} or everywhere
            for p in asked
            if not (up and p.down)
            and (not p.most_nodes or nodes <= p.most_nodes)
            and (not p.most_walltime_s or job.walltime_s <= p.most_walltime_s)
        ]
    excluded, wanted = {*job.nodes_excluded}, {*job.nodes_wanted}
    right = {n for n in everywhere if names[n] not in excluded and _has(job, declared, n)}
    found = [there & right for there in offered]
    return [there for there in found if wanted <= {names[node] for node in there}]


def _has(job: JobSubmitted, declared: ClusterDeclared, node: int) -> bool:
    """Whether a node has the features of a job."""
    features = [name for each in declared.node_classes for name in [each.features] * each.nodes]
    has = {*features[node]} if features else set[str]()
    match job.features:
        case "":
            return True
        case "x|y":
            return bool(has & {"x", "y"})
        case text:
            return {*text.split("&")} <= has
