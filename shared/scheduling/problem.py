"""The problem of scheduling: units of jobs over the nodes of a cluster. Frozen, and solver-free.

Amounts are whole numbers (thousandths of a core, MiB, counts), so that no order of sums changes a
decision.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coplace_client.bounds import UNITS_PER_NODE
from coplace_client.millicores import millicores
from shared.domain.cluster import Cluster
from shared.domain.job import Job, jobs_of_parts
from shared.domain.resources import Resources
from shared.scheduling.eligibility import (
    NOTHING_REFUSED,
    NodeBits,
    RefusedToJob,
    Where,
    has_everywhere,
    is_restricted,
    members,
    node_set,
    where_on,
)
from shared.scheduling.part_matching import MatchedParts, NodeGroup, match_parts

Ints = NDArray[np.int64]

MIB_PER_GIB: Final = 1024
# What a node has of a resource that was not declared: more than any job asks for.
UNKNOWN: Final = 2**40
_MOST_UNITS: Final = int(UNITS_PER_NODE.most)
CORES: Final = "cores"
MEMORY: Final = "memory_mib"


class Shape(NamedTuple):
    """One unit of a job on one cluster: what it needs of each of the cluster's resources.

    No other job may be on the nodes of an `exclusive` one; `most_per_node` units of one job go onto
    a node, 0 is as many as fit. All units of a job are in one of the places of `where`; it is empty
    where any nodes will do.

    Of a gang the units are whole nodes, so many of the shape of each of its `parts`; what fits of
    it is as many of these as there are nodes for at once. `where` then has the nodes of all parts.
    """

    needs: tuple[int, ...]
    exclusive: bool
    most_per_node: int
    where: tuple[Where, ...] = ()
    parts: "tuple[PartShape, ...]" = ()

    @property
    def millicores(self) -> int:
        """Return its thousandths of a core, the first of what it needs."""
        return self.needs[0]


class PartShape(NamedTuple):
    """So many nodes of a gang, and what each of them has to have."""

    nodes: int
    shape: Shape


class Kind(NamedTuple):
    """Jobs that are alike to a cluster: the application, which neighbours ask for, the shape of
    their units, and the licences that each job needs in all."""

    app: str
    shape: Shape
    licences: Resources = ()


class Allocation(NamedTuple):
    """Nodes of a cluster, ascending by index, and how many units are on each."""

    nodes: tuple[int, ...]
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NodeTable:
    """Resources of the nodes of a cluster: `amounts` of the shape (resources, nodes), by `names`,
    the first two of which are cores and memory."""

    names: tuple[str, ...]
    amounts: Ints

    @classmethod
    def build(cls, cluster: Cluster) -> "NodeTable":
        """Return the nodes as declared."""
        names, amounts, nodes = _classes(cluster)
        return cls(names, np.ascontiguousarray(np.repeat(amounts, nodes, axis=1)))

    @staticmethod
    def names_of(cluster: Cluster) -> tuple[str, ...]:
        """Return the names of a cluster's resources."""
        return _names_of(cluster) if cluster.declared_classes else (CORES, MEMORY)

    @property
    def nodes(self) -> int:
        """Return how many nodes there are."""
        return int(self.amounts.shape[1])

    def fitting(self, shape: Shape) -> Ints:
        """Return how many units of a shape each node takes when it is empty, (nodes,)."""
        return units_in(self.amounts, shape)


@lru_cache(maxsize=1024)
def _names_of(cluster: Cluster) -> tuple[str, ...]:
    named = {name for each in cluster.node_classes for name, _ in each.resources}
    return CORES, MEMORY, *sorted(named)


@lru_cache(maxsize=1024)
def _classes(cluster: Cluster) -> tuple[tuple[str, ...], Ints, Ints]:
    """Return the names of the resources, what a node of each class has of them, (resources,
    classes), and how many nodes each class is of, (classes,)."""
    names = NodeTable.names_of(cluster)
    columns = [
        [
            each.millicores_per_node or cluster.millicores_per_node,
            mib(each.memory_gib) if each.memory_gib else UNKNOWN,
            *(dict(each.resources).get(name, 0) for name in names[2:]),
        ]
        for each in cluster.node_classes
    ]
    nodes = [each.nodes for each in cluster.node_classes]
    return names, np.array(columns, dtype=np.int64).T, np.array(nodes, dtype=np.int64)


def units_in(free: Ints, shape: Shape) -> Ints:
    """Return how many units of a shape fit into what is free, (nodes,) of (resources, nodes): the
    least over the resources. A resource manager that overcommits leaves less than nothing, which is
    0."""
    fitting: Ints | None = None
    for amount, need in zip(free, shape.needs, strict=True):
        if need:
            units = amount // need
            fitting = units if fitting is None else np.minimum(fitting, units, out=fitting)
    if fitting is None:
        fitting = np.full(free.shape[1], UNKNOWN, dtype=np.int64)
    np.maximum(fitting, 0, out=fitting)
    return np.minimum(fitting, shape.most_per_node) if shape.most_per_node else fitting


def shape_on(
    job: Job, cluster: Cluster, names: Sequence[str], where: tuple[Where, ...] = ()
) -> Shape | None:
    """Return a unit of the job on this cluster, in one of these places if any; None where no node
    has a resource that it needs."""
    others: tuple[int, ...] = (0,) * (len(names) - 2)
    if job.resources_per_unit:
        wanted = dict(job.resources_per_unit)
        if not wanted.keys() <= set(names):
            return None
        others = tuple([wanted.get(name, 0) for name in names[2:]])
    amounts = (unit_millicores(job, cluster), _memory_mib(job, cluster), *others)
    return Shape(amounts, not job.shareable, _most_per_node(job), where)


def _most_per_node(job: Job) -> int:
    """Return how many units go onto a node, 0 as many as fit: of parts of a core more might than a
    start can name."""
    if not job.cores_per_unit:
        return 1
    return job.units_per_node or (_MOST_UNITS if job.millicores_per_unit else 0)


def _memory_mib(job: Job, cluster: Cluster) -> int:
    """Return what a unit needs: as submitted, its part of what the job needs, or half of a node for
    half."""
    if job.memory_gib_per_unit:
        return mib(job.memory_gib_per_unit)
    if job.memory_gib:
        return mib(job.memory_gib / job.nodes_on(cluster))
    if job.shareable and not job.cores_per_unit:
        return mib(min(each.memory_gib for each in cluster.node_classes)) // 2
    return 0


def mib(gib: float) -> int:
    """Return whole MiB, rounded up."""
    return ceil(gib * MIB_PER_GIB)


def kind_on(
    job: Job,
    cluster: Cluster,
    names: Sequence[str],
    refused: RefusedToJob = NOTHING_REFUSED,
    *,
    with_down: bool = False,
) -> Kind | None:
    """Return the kind of a job on this cluster; None where no node has a resource that it needs, or
    it may be on none. A job that is alone has no neighbours, so that its application makes no
    difference."""
    if job.parts:
        return _gang_on(job, cluster, names, refused, with_down=with_down)
    where = _where(job, cluster, refused, with_down=with_down)
    if where is not None and not where:
        return None
    if job.is_of_nodes and not (job.memory_gib and (where or cluster.declared_classes)):
        return _licensed(whole_of(cluster, len(names), where or ()), job)
    shape = shape_on(job, cluster, names, where or ())
    if shape is None:
        return None
    return Kind("" if shape.exclusive else job.app_id, shape, job.licences)


def _licensed(kind: Kind, job: Job) -> Kind:
    """Return a kind with the licences of a job: the same where it needs none."""
    return kind._replace(licences=job.licences) if job.licences else kind


def _gang_on(
    job: Job, cluster: Cluster, names: Sequence[str], refused: RefusedToJob, *, with_down: bool
) -> Kind | None:
    """Return the kind of a gang; None where a part of it may be on no node."""
    found: list[PartShape] = []
    for part, alone in zip(job.parts, jobs_of_parts(job), strict=True):
        kind = kind_on(alone, cluster, names, refused, with_down=with_down)
        if kind is None or part.millicores_per_node > cluster.millicores_per_node:
            return None
        found.append(PartShape(part.nodes, kind.shape))
    whole = whole_of(cluster, len(names))
    if all(part.shape == whole.shape for part in found):
        return _licensed(whole, job)
    return _licensed(_kind_of_parts(whole, found), job)


def _kind_of_parts(whole: Kind, parts: Sequence[PartShape]) -> Kind:
    """Return the kind of a gang with these parts, which takes nodes as a whole one."""
    there, reservation = 0, ""
    for part in parts:
        nodes = 0 if part.shape.where else -1
        for each in part.shape.where:
            nodes |= each.nodes
            reservation = each.reservation
        there |= nodes
    where = (Where(there, reservation=reservation),) if there >= 0 else ()
    return Kind("", whole.shape._replace(where=where, parts=tuple(parts)))


def gang_without(kind: Kind, shut: NodeBits, nodes: int) -> Kind:
    """Return the kind of a gang without some nodes of a cluster that has so many."""
    parts: list[PartShape] = []
    for part in kind.shape.parts:
        places = part.shape.where or (Where((1 << nodes) - 1),)
        left = tuple([without(each, shut) for each in places])
        parts.append(part._replace(shape=part.shape._replace(where=left)))
    return _kind_of_parts(Kind("", kind.shape._replace(where=(), parts=())), parts)


def without(where: Where, shut: NodeBits) -> Where:
    """Return a place without some nodes: empty where one of them is wanted."""
    nodes = where.nodes & ~shut
    if where.wanted & ~nodes:
        return where._replace(nodes=0)
    return where._replace(nodes=nodes)


def _where(
    job: Job, cluster: Cluster, refused: RefusedToJob, *, with_down: bool
) -> tuple[Where, ...] | None:
    """Return the places of a job on a cluster; None where all nodes are the same to it."""
    if not is_restricted(job, cluster) and refused == NOTHING_REFUSED:
        return None
    nodes = nodes_worth(job, cluster, job.nodes_on(cluster))
    places = where_on(job, cluster, nodes, refused, with_down=with_down)
    return None if job.is_of_nodes and has_everywhere(places, cluster) else places


def held_kind(job: Job, cluster: Cluster, names: Sequence[str], nodes: Iterable[int]) -> Kind:
    """Return the kind of a job that has these nodes, wherever it might have been: in a partition
    that is up, else in one that is down, else all of its nodes where the cluster has no more what
    it needs."""
    if job.parts:
        return _licensed(whole_of(cluster, len(names)), job)
    allocated = tuple(nodes)
    kind = kind_on(job, cluster, names)
    if kind is not None:
        ways = ways_of(kind)
        if _is_within(ways, allocated):
            return held_by(ways, allocated)
    kind = kind_on(job, cluster, names, with_down=True)
    if kind is not None:
        return held_by(ways_of(kind), allocated)
    shape = shape_on(job, cluster, names)
    if shape is None:
        return _licensed(whole_of(cluster, len(names)), job)
    return Kind("" if shape.exclusive else job.app_id, shape, job.licences)


def _is_within(ways: "Sequence[Way]", nodes: Sequence[int]) -> bool:
    """Return whether nodes are all of one of the places."""
    if any(way.nodes < 0 for way in ways):
        return True
    allocated = node_set(nodes)
    return any(not allocated & ~way.nodes for way in ways)


def held_by(ways: "Sequence[Way]", nodes: Iterable[int]) -> Kind:
    """Return the kind of a job as it has these nodes: alone only where they are of exclusive places
    and no others."""
    if len(ways) == 1:
        return ways[0].held
    allocated = node_set(nodes)
    there = [way.held for way in ways if not allocated & ~way.nodes]
    shared = [held for held in there if not held.shape.exclusive]
    return (shared or there or [ways[0].held])[0]


class Way:
    """One of the places where jobs of a kind may be: the `kind` there alone, and as it is `held`,
    once it has its nodes. `nodes` are below 0 where any will do. Licences make no difference to
    nodes."""

    def __init__(self, kind: Kind, held: Kind, nodes: int, wanted: int) -> None:
        self.kind, self.held, self.nodes, self.wanted = kind, held, nodes, wanted


def ways_of(kind: Kind) -> list[Way]:
    """Return the places of a kind, one or more, in its order."""
    app, shape, licences = kind
    if shape.parts:
        return _ways_of_gang(kind)
    if not shape.where:
        return [Way(kind._replace(licences=()) if licences else kind, kind, -1, 0)]
    found: list[Way] = []
    for where in shape.where:
        exclusive = shape.exclusive or where.exclusive
        its_app = "" if exclusive else app
        held = Shape(shape.needs, exclusive, shape.most_per_node)
        alone = Shape(shape.needs, exclusive, shape.most_per_node, (where,))
        as_held = Kind(its_app, held, licences)
        found.append(Way(Kind(its_app, alone), as_held, where.nodes, where.wanted))
    return found


def _ways_of_gang(kind: Kind) -> list[Way]:
    """Return the choices of a place for each part of a gang."""
    whole = Kind("", kind.shape._replace(where=(), parts=()))
    each: list[list[PartShape]] = [
        [part._replace(shape=way.kind.shape) for way in ways_of(Kind("", part.shape))]
        for part in kind.shape.parts
    ]
    found: list[Way] = []
    for parts in product(*each):
        chosen = _kind_of_parts(whole, parts)
        where = chosen.shape.where
        held = whole._replace(licences=kind.licences)
        found.append(Way(chosen, held, where[0].nodes if where else -1, 0))
    return found


def most_of(fitting: Ints, where: Sequence[Where]) -> int:
    """Return how many units fit in the place where most do, of those that fit on each node,
    (nodes,): none where a wanted node takes none."""
    if not where:
        return int(fitting.sum())
    most = 0
    for each in where:
        if not each.wanted or bool((fitting[members(each.wanted, len(fitting))] > 0).all()):
            most = max(most, int(fitting[members(each.nodes, len(fitting))].sum()))
    return most


@lru_cache(maxsize=1024)
def whole_node(amount: int, resources: int, where: tuple[Where, ...] = ()) -> Kind:
    """Return the kind of jobs that take nodes of such an amount of the first resource, of any kind,
    in such places."""
    return Kind("", Shape((amount, *(0,) * (resources - 1)), True, 1, where))


def whole_of(cluster: Cluster, resources: int, where: tuple[Where, ...] = ()) -> Kind:
    """Return the kind of jobs that take nodes of a cluster, of any kind, in such places."""
    return whole_node(cluster.millicores_per_node, resources, where)


def counts_nodes(job: Job, kind: Kind, cluster: Cluster) -> bool:
    """Return True where a job of this kind takes whole nodes, any will do, and only how many are
    free counts."""
    return job.is_of_nodes and kind == whole_of(cluster, len(kind.shape.needs))


def takes_nodes(table: NodeTable, shape: Shape) -> bool:
    """Return True where a unit is a node, of which no other job has anything."""
    return (
        shape.exclusive and shape.most_per_node == 1 and shape.millicores == _most_of_first(table)
    )


@lru_cache(maxsize=64)  # there are few tables, and each entry that waits is asked about
def _most_of_first(table: NodeTable) -> int:
    return int(table.amounts[0].max())


def nodes_worth(job: Job, cluster: Cluster, units: int) -> int:
    """Return the nodes that so many of its units are worth there by their cores, rounded up."""
    if not job.cores_per_unit:
        return units
    return -(-units * job.unit_millicores // cluster.millicores_per_node)


def core_share(job: Job, cluster: Cluster) -> float:
    """Return the part of a node that one unit of the job is, by its cores."""
    return unit_millicores(job, cluster) / cluster.millicores_per_node


def unit_millicores(job: Job, cluster: Cluster) -> int:
    """Return the thousandths of a core of one unit of the job."""
    if job.cores_per_unit:
        return job.unit_millicores
    return millicores(cluster.cores_for(shareable=job.shareable))


def most_units(job: Job, cluster: Cluster) -> int:
    """Return how many units of the job the cluster takes when nothing runs and all partitions are
    up."""
    if job.parts or is_restricted(job, cluster):
        kind = kind_on(job, cluster, NodeTable.names_of(cluster), with_down=True)
        return most_units_of(kind.shape, cluster) if kind is not None else 0
    if job.is_of_nodes and not job.memory_gib:
        return cluster.nodes
    shape = shape_on(job, cluster, NodeTable.names_of(cluster))
    return most_units_of(shape, cluster) if shape is not None else 0


def fits_when_empty(
    job: Job, cluster: Cluster, units: int, refused: RefusedToJob = NOTHING_REFUSED
) -> bool:
    """Return True where so many units of the job fit on the cluster when nothing runs, in
    partitions that are up, without what was refused."""
    kind = kind_on(job, cluster, NodeTable.names_of(cluster), refused)
    return kind is not None and units <= most_units_of(kind.shape, cluster)


@lru_cache(maxsize=4096)
def most_units_of(shape: Shape, cluster: Cluster) -> int:
    """Return how many units of a shape the cluster takes. Jobs are evaluated again and again, and
    there are few shapes."""
    _, amounts, nodes = _classes(cluster)
    if shape.parts:
        return most_of_gang(shape, np.repeat(amounts, nodes, axis=1))
    fitting = units_in(amounts, shape)
    if not shape.where:
        return int((fitting * nodes).sum())
    return most_of(np.repeat(fitting, nodes), shape.where)


def most_of_gang(shape: Shape, free: Ints) -> int:
    """Return how many nodes the parts of a gang have at once where so much is free on each node,
    (resources, nodes), in the places where these are most."""
    most = 0
    for way in ways_of(Kind("", shape)):
        matched, _ = match_on(way.kind.shape.parts, free)
        most = max(most, matched.nodes)
    return most


def match_on(parts: Sequence[PartShape], free: Ints) -> tuple[MatchedParts, list[list[int]]]:
    """Return the nodes that parts, each in one place, have at once where so much is free on each
    node, (resources, nodes), with the nodes of each group."""
    count = free.shape[1]
    bits, apart = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    wanted = wanted_of(parts)
    for number, part in enumerate(parts):
        fits = units_in(free, part.shape) > 0
        for where in part.shape.where:
            fits &= members(where.nodes, count)
        bits |= fits.astype(np.int64) << number
        apart |= members(wanted[number], count).astype(np.int64) << number
    alike: dict[tuple[int, int], list[int]] = {}
    for node, key in enumerate(zip(bits.tolist(), apart.tolist(), strict=True)):
        alike.setdefault(key, []).append(node)
    groups = [NodeGroup(nodes[0], len(nodes), fitting) for (fitting, _), nodes in alike.items()]
    return match_parts([part.nodes for part in parts], wanted, groups), list(alike.values())


def wanted_of(parts: Sequence[PartShape]) -> list[NodeBits]:
    """Return the nodes that each part wants, each in one place."""
    return [part.shape.where[0].wanted if part.shape.where else 0 for part in parts]
