"""Where a job may run on a cluster: the nodes of its partitions that have its features, but those
that it excludes.

Sets of nodes are whole numbers with a bit for each node, by index. They are worked out once for a
declaration, and a job's in a few operations; the scheduler distinguishes nodes only where the sets
of its jobs do.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.domain.cluster import Cluster
from shared.domain.features import parse_features
from shared.domain.job import Job, named_nodes
from shared.domain.node import NodeNames
from shared.domain.partition import Partition

# A set of nodes.
NodeBits = int
_BITS_PER_BYTE: Final = 8


class Where(NamedTuple):
    """Nodes on which all units of a job may be, of one partition where there are any; some unit is
    on each of the `wanted` ones. No other job may be there where it is `exclusive`. They are those
    of a `reservation`, by its name, where the job asks for one."""

    nodes: NodeBits
    wanted: NodeBits = 0
    exclusive: bool = False
    reservation: str = ""


class RefusedToJob(NamedTuple):
    """What a job may not have on a cluster: nodes, and partitions by name. It has nodes of a
    `reservation` alone where that is not empty: all others are among the refused ones."""

    nodes: NodeBits = 0
    partitions: tuple[str, ...] = ()
    reservation: str = ""


NOTHING_REFUSED: Final = RefusedToJob()


# What decides where a job may be on a cluster: the partitions that it may be in, None where it is
# in none; what it says of features, of nodes that it excludes and of those that it wants; and what
# it was refused.
_Wishes = tuple[tuple[str, ...] | None, str, tuple[str, ...], tuple[str, ...], RefusedToJob]


class _Declared(NamedTuple):
    """A cluster's sets of nodes as declared; `with_features`, `named` and `places` are those that
    were asked for."""

    cluster: Cluster
    names: NodeNames
    everywhere: NodeBits
    partitions: dict[str, Partition]
    by_partition: dict[str, NodeBits]
    by_features: tuple[tuple[frozenset[str], NodeBits], ...]
    with_features: dict[str, NodeBits]
    named: dict[tuple[str, ...], tuple[NodeBits, str]]
    places: dict[_Wishes, tuple[Where, ...]]


# By the identity of a cluster: each comparison would go through all that was declared.
_KNOWN: Final[dict[int, _Declared]] = {}
_MOST_KNOWN: Final = 256
_MOST_ASKED: Final = 4096
# Each may have as many bits as the cluster has nodes, once a partition.
_MOST_PLACES: Final = 1024


def node_set(indices: Iterable[int]) -> NodeBits:
    """Return the set of nodes with these indices."""
    found = first = behind = 0  # the last ones are from `first` to before `behind`
    for index in indices:
        if index != behind:
            found |= ((1 << (behind - first)) - 1) << first
            first = index
        behind = index + 1
    return found | ((1 << (behind - first)) - 1) << first


def members(nodes: NodeBits, count: int) -> NDArray[np.bool_]:
    """Return which of so many nodes are in a set, (nodes,)."""
    within = nodes & ((1 << count) - 1)
    raw = np.frombuffer(within.to_bytes(ceil(count / _BITS_PER_BYTE), "little"), dtype=np.uint8)
    return np.unpackbits(raw, count=count, bitorder="little").astype(np.bool_)


def _declared(cluster: Cluster) -> _Declared:
    known = _KNOWN.get(id(cluster))
    if known is None or known.cluster is not cluster:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[id(cluster)] = _declare(cluster)
    return known


def _declare(cluster: Cluster) -> _Declared:
    names, everywhere = cluster.names(), (1 << cluster.nodes) - 1
    by_partition = {
        partition.name: node_set(names.indices(partition.nodes)) if partition.nodes else everywhere
        for partition in cluster.partitions
    }
    by_features: dict[frozenset[str], NodeBits] = {}
    first = 0
    for each in cluster.node_classes:
        features, nodes = frozenset(each.features), ((1 << each.nodes) - 1) << first
        by_features[features] = by_features.get(features, 0) | nodes
        first += each.nodes
    partitions = {partition.name: partition for partition in cluster.partitions}
    sets = everywhere, partitions, by_partition, tuple(by_features.items())
    return _Declared(cluster, names, *sets, {}, {}, {})


def nodes_with(cluster: Cluster, features: str) -> NodeBits:
    """Return the nodes of a cluster for which an expression holds."""
    declared = _declared(cluster)
    known = declared.with_features.get(features)
    if known is not None:
        return known
    expression, found = parse_features(features), 0
    for there, nodes in declared.by_features:
        if expression.holds(there):
            found |= nodes
    if len(declared.with_features) >= _MOST_ASKED:
        declared.with_features.clear()
    declared.with_features[features] = found
    return found


def nodes_named(cluster: Cluster, host_lists: tuple[str, ...]) -> tuple[NodeBits, str]:
    """Return those nodes of a cluster that host lists name, and the first name that it has not;
    empty where it has them all."""
    declared = _declared(cluster)
    known = declared.named.get(host_lists)
    if known is not None:
        return known
    names, unknown = declared.names, ""
    found: list[int] = []
    for name in named_nodes(host_lists):
        index = names.find(name)
        if index is not None and index < cluster.nodes:
            found.append(index)
        elif not unknown:
            unknown = name
    if len(declared.named) >= _MOST_ASKED:
        declared.named.clear()
    declared.named[host_lists] = node_set(found), unknown
    return declared.named[host_lists]


def all_nodes(cluster: Cluster) -> NodeBits:
    """Return all nodes of a cluster."""
    return (1 << cluster.nodes) - 1


def nodes_of_partition(cluster: Cluster, name: str) -> NodeBits:
    """Return the nodes of a partition."""
    return _declared(cluster).by_partition[name]


def is_restricted(job: Job, cluster: Cluster) -> bool:
    """Return whether not all nodes of a cluster are the same to a job there."""
    return job.has_wishes or cluster.has_default_partition


def partitions_of(job: Job, cluster: Cluster) -> list[Partition]:
    """Return the partitions of a cluster that a job asks for, in its order; else the default
    ones."""
    if not job.partitions:
        return [partition for partition in cluster.partitions if partition.default]
    known = _declared(cluster).partitions
    return [known[name] for name in job.partitions if name in known]


def admits(partition: Partition, job: Job, nodes: int) -> bool:
    """Return whether a job of so many nodes keeps to the limits of a partition, and may use it."""
    fits = not partition.most_nodes or nodes <= partition.most_nodes
    in_time = not partition.most_walltime_s or job.walltime_s <= partition.most_walltime_s
    is_open = not (partition.accounts or partition.users)
    return fits and in_time and (is_open or partition.admits(job.account, job.user))


def where_on(
    job: Job,
    cluster: Cluster,
    nodes: int,
    refused: RefusedToJob = NOTHING_REFUSED,
    *,
    with_down: bool = False,
) -> tuple[Where, ...]:
    """Return where a job of so many nodes may run on a cluster that restricts it, each in another
    partition; empty where it may not. Partitions that are down count where asked for."""
    partitions = _offered(job, cluster, nodes, refused, with_down)
    asked = partitions, job.features, job.nodes_excluded, job.nodes_wanted, refused
    known = _declared(cluster).places
    found = known.get(asked)
    if found is None:
        if len(known) >= _MOST_PLACES:
            known.clear()
        found = known[asked] = _places(asked, cluster)
    return found


def _places(asked: _Wishes, cluster: Cluster) -> tuple[Where, ...]:
    sets, (names, features, nodes_excluded, nodes_wanted, refused) = _declared(cluster), asked
    allowed = sets.everywhere & ~refused.nodes
    if features:
        allowed &= nodes_with(cluster, features)
    if nodes_excluded:
        excluded, _ = nodes_named(cluster, nodes_excluded)
        allowed &= ~excluded
    wanted, unknown = nodes_named(cluster, nodes_wanted) if nodes_wanted else (0, "")
    if unknown:
        return ()
    if names is None:
        for name in refused.partitions:
            allowed &= ~sets.by_partition.get(name, 0)
        offered = [(sets.everywhere, False)]
    else:
        offered = [(sets.by_partition[name], sets.partitions[name].exclusive) for name in names]
    found: list[Where] = []
    for there, exclusive in offered:
        where = Where(there & allowed, wanted, exclusive, refused.reservation)
        if where.nodes and not wanted & ~where.nodes and where not in found:
            found.append(where)
    return tuple(found)


def has_everywhere(places: Sequence[Where], cluster: Cluster) -> bool:
    """Return whether one of these places is all nodes of a cluster, none of which is wanted, and of
    no reservation."""
    everywhere = _declared(cluster).everywhere
    return any(
        each.nodes == everywhere and not (each.wanted or each.reservation) for each in places
    )


def _offered(
    job: Job, cluster: Cluster, nodes: int, refused: RefusedToJob, with_down: bool
) -> tuple[str, ...] | None:
    """Return the partitions that a job may be in; None where it is in none, on any nodes."""
    if not (job.partitions or cluster.has_default_partition):
        return None
    return tuple(
        [
            partition.name
            for partition in partitions_of(job, cluster)
            if (with_down or not partition.down)
            and partition.name not in refused.partitions
            and admits(partition, job, nodes)
        ]
    )
