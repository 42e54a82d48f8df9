"""The nodes of a Slurm as the clusters that they are to Coplace: pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from coplace.v1.control_pb2 import ClusterDeclared, NodeClass, Partition

from coplace_client.bounds import (
    CORES_PER_NODE,
    LENGTHS,
    NODE_MEMORY_GIB,
    NODES,
    WALLTIME_S,
)
from coplace_client.errors import RejectedError, UnusableError
from shared.domain.features import require_feature
from shared.domain.few_classes import MOST_CLASSES, few_classes, less_exact
from shared.domain.folding import fold
from shared.domain.hostlist import expand
from shared.domain.printable import printable
from shared.domain.resources import MOST_NAME as MOST_RESOURCE_NAME
from shared.slurm.answers import mapping, number, text, texts
from shared.slurm.gres import gres_counts
from shared.slurm.tres import Tres, is_of_nodes, most_important

_MOST_SHOWN: Final = 200
_MOST_ACCOUNTS: Final = LENGTHS["allowed"].most
_MINUTE_S: Final = 60
_GRES: Final = "gres/"
_TRES: Final = re.compile(r"(?:^|,)gres/([^=,]+)=")


class NodeHardware(NamedTuple):
    """What Slurm does not know of the nodes of its cluster; `tdp_w` is the thermal design power of
    one accelerator by its name in Gres, `processors_tdp_w` that of a node's processors together,
    and `nameplate_power_w` what a node draws at most, W; `boot_s` and `boot_energy_j` are how long
    it boots, and what it uses meanwhile; 0: nobody said."""

    node_model: str
    pstates_ghz: Sequence[float]
    idle_power_w: float
    peak_bandwidth_gbps: float
    tdp_w: Mapping[str, float] = MappingProxyType({})
    nameplate_power_w: float = 0.0
    processors_tdp_w: float = 0.0
    boot_s: float = 0.0
    boot_energy_j: float = 0.0


class UnlikeNodesError(UnusableError):
    """Nodes of several models are in one cluster, which has one."""


class ClusterShare(NamedTuple):
    """The nodes of a Slurm that are one cluster of Coplace: those of these names, in this
    partition, or with this feature; all that are of no share before where it names none."""

    cluster: str
    hardware: NodeHardware
    nodes: Set[str] = frozenset()
    partition: str = ""
    feature: str = ""

    def has(self, node: Mapping[str, Any]) -> bool:
        """Return whether a node is one of them."""
        if self.nodes:
            return node.get("name") in self.nodes
        if self.partition:
            return self.partition in texts(node.get("partitions"))
        return not self.feature or self.feature in texts(node.get("features"))


def shared_out(
    nodes: Iterable[Mapping[str, Any]], shares: Sequence[ClusterShare]
) -> dict[str, list[Mapping[str, Any]]]:
    """Return the nodes of each cluster: a node is of the first share that has it."""
    found: dict[str, list[Mapping[str, Any]]] = {share.cluster: [] for share in shares}
    for node in nodes:
        share = next((each for each in shares if is_node(node) and each.has(node)), None)
        if share is not None:
            found[share.cluster].append(node)
    return found


def declared_clusters(
    nodes: Sequence[Mapping[str, Any]],
    site: str,
    architecture: str,
    shares: Sequence[ClusterShare],
    partitions: Sequence[Mapping[str, Any]] = (),
    *,
    shares_nodes: bool = False,
) -> list[ClusterDeclared]:
    """Return the clusters that a Slurm is. Raises UnlikeNodesError where nodes of one differ in
    their cores, or it has none."""
    of_share = shared_out(nodes, shares)
    return [
        declared_cluster(
            *(of_share[share.cluster], share.cluster, site, architecture),
            *(share.hardware, partitions),
            shares_nodes=shares_nodes,
        )
        for share in shares
    ]


def declared_cluster(
    nodes: Iterable[Mapping[str, Any]],
    cluster: str,
    site: str,
    architecture: str,
    of: NodeHardware,
    partitions: Iterable[Mapping[str, Any]] = (),
    *,
    shares_nodes: bool = False,
) -> ClusterDeclared:
    """Return the cluster that `sinfo --json` shows, in its order, with the partitions that its
    nodes are in, and what is shown of these. `shares_nodes` says that Slurm gives single cores.

    Raises UnlikeNodesError where nodes differ in their cores.
    """
    listed = [node for node in nodes if is_node(node) and _has_cores(node)]
    placed = few_classes(list(zip(listed, _kinds_of_nodes(listed), strict=True)))
    shown = [node for node, _ in placed]
    cores = {number(node["cpus"]) or 0 for node in shown}
    if len(cores) != 1:
        told = ", ".join(map(str, sorted(cores))) or "no node"
        raise UnlikeNodesError(
            f"{cluster} has nodes of {told} cores, and a cluster is of one node model: say in the "
            "file of clusters which nodes are of which"
        )
    found = ClusterDeclared(
        cluster=cluster,
        site=site,
        node_model=of.node_model,
        nodes=len(shown),
        cores_per_node=cores.pop(),
        pstates_ghz=of.pstates_ghz,
        idle_power_w=of.idle_power_w,
        peak_bandwidth_gbps=of.peak_bandwidth_gbps,
        nameplate_power_w=of.nameplate_power_w,
        processors_tdp_w=of.processors_tdp_w,
        architecture=architecture,
        shares_unpredicted=shares_nodes,
        node_names=fold(node["name"] for node in shown),
    )
    for kind, alike in groupby(kind for _, kind in placed):
        resources = dict(kind.resources)
        found.node_classes.append(
            NodeClass(
                nodes=len(list(alike)),
                memory_gib=kind.memory_gib,
                resources=resources,
                tdp_w={name: of.tdp_w[name] for name in resources if name in of.tdp_w},
                features=kind.features,
            )
        )
    found.partitions.extend(_partitions(shown, partitions))
    return found


class _NodeKind(NamedTuple):
    """What nodes of a class have in common."""

    memory_gib: float
    resources: tuple[tuple[str, int], ...]
    features: tuple[str, ...]


def _kinds_of_nodes(nodes: Sequence[Mapping[str, Any]]) -> list[_NodeKind]:
    """Return the kinds of nodes: where there would be more than a cluster can have, without the
    features that no partition has on all of its nodes, then without any, then with less exact
    memory."""
    kinds = [_kind(node) for node in nodes]
    if len(set(kinds)) > MOST_CLASSES:
        shared = _shared_features(nodes, kinds)
        kept = [tuple(name for name in kind.features if name in shared) for kind in kinds]
        kinds = [
            kind._replace(features=features) for kind, features in zip(kinds, kept, strict=True)
        ]
    if len(set(kinds)) > MOST_CLASSES:
        kinds = [kind._replace(features=()) for kind in kinds]
    if len(set(kinds)) > MOST_CLASSES:
        kinds = [kind._replace(memory_gib=_less_gib(kind.memory_gib)) for kind in kinds]
    return kinds


def _shared_features(
    nodes: Sequence[Mapping[str, Any]], kinds: Sequence[_NodeKind]
) -> frozenset[str]:
    """Return the features that all nodes of a partition have."""
    shared: dict[str, frozenset[str]] = {}
    for node, kind in zip(nodes, kinds, strict=True):
        features = frozenset(kind.features)
        for name in texts(node.get("partitions")):
            shared[name] = shared.get(name, features) & features
    return frozenset().union(*shared.values())


def _less_gib(memory_gib: float) -> float:
    """Return less exact memory; 0, which is not known, where no node has so little."""
    less_gib = less_exact(memory_gib)
    return less_gib if NODE_MEMORY_GIB.has(less_gib) else 0.0


def undeclared(
    nodes: Iterable[Mapping[str, Any]],
    partitions: Iterable[Mapping[str, Any]],
    found: ClusterDeclared,
) -> Iterator[str]:
    """Yield what a declaration leaves out since there is too much of it, in words."""
    features = {name for node in nodes if is_node(node) for name in _features(node)}
    features.difference_update(*(each.features for each in found.node_classes))
    if features:
        names = printable(", ".join(sorted(features)), _MOST_SHOWN)
        yield f"features of too many kinds of nodes, jobs that ask for them wait: {names}"
    open_to_all = {each.name for each in found.partitions if not each.accounts}
    for each in partitions:
        name = text(each.get("name"))
        if name in open_to_all and _accounts(each):
            yield f"accounts of partition {printable(name)}: more than {_MOST_ACCOUNTS}"


def _partitions(
    nodes: Sequence[Mapping[str, Any]], shown: Iterable[Mapping[str, Any]]
) -> Iterator[Partition]:
    """Yield the partitions of nodes, by name, as far as there may be."""
    by_name: dict[str, list[str]] = {}
    for node in nodes:
        for name in texts(node.get("partitions")):
            by_name.setdefault(name, []).append(node["name"])
    known = {text(each.get("name")): each for each in shown}
    for name in sorted(by_name)[: LENGTHS["partitions"].most]:
        yield _partition(name, by_name[name], known.get(name, {}))


def _partition(name: str, nodes: Sequence[str], shown: Mapping[str, Any]) -> Partition:
    """Return a partition with the limits that Slurm shows of it."""
    most, state = mapping(shown, "maximums"), mapping(shown, "partition").get("state")
    walltime_s = (number(most.get("time")) or 0) * _MINUTE_S
    most_nodes, accounts = number(most.get("nodes")) or 0, _accounts(shown)
    return Partition(
        name=name,
        nodes=fold(nodes),
        most_walltime_s=walltime_s if WALLTIME_S.has(walltime_s) else 0.0,
        most_nodes=most_nodes if NODES.has(most_nodes) else 0,
        exclusive=number(most.get("shares")) == 0,
        down=not {"DOWN", "INACTIVE"}.isdisjoint(texts(state)),
        accounts=accounts if len(accounts) <= _MOST_ACCOUNTS else (),
    )


def _accounts(shown: Mapping[str, Any]) -> list[str]:
    """Return the accounts that a partition is for; none: for all."""
    allowed = texts(mapping(shown, "accounts").get("allowed"))
    return [account for account in allowed if account.upper() != "ALL"]


def uncounted_resources(nodes: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return what nodes have that is not declared of them, such as disks that are counted in
    bytes: a job that was said to need it would wait for ever."""
    shown = [_tres(node) for node in nodes if is_node(node)]
    names = {name for tres in shown for name in _kinds_of(tres)}
    counted = {name for tres in shown for name in _counted(tres)}
    return frozenset(names - counted)


def is_node(node: Any) -> bool:
    """Return whether this is a node whose name can be published."""
    name = node.get("name") if isinstance(node, Mapping) else None
    try:
        return isinstance(name, str) and expand(name) == [name]
    except RejectedError:
        return False


def _has_cores(node: Mapping[str, Any]) -> bool:
    return CORES_PER_NODE.has(number(node.get("cpus")) or 0)


def _tres(node: Mapping[str, Any]) -> str:
    """What a node has: generic resources that the site does not account for too."""
    said = text(node.get("tres"))
    known = set(_TRES.findall(said))
    more = gres_counts(text(node.get("gres")))
    found = (f"{_GRES}{name}={count}" for name, count in more.items() if name not in known)
    return ",".join([said, *found] if said else found)


def _counted(tres: str) -> dict[str, int]:
    """What of a node's resources can be counted."""
    gres = Tres.parse(tres).gres
    return most_important(
        {
            name: count
            for name, count in gres.items()
            if is_of_nodes(count) and len(name) <= MOST_RESOURCE_NAME
        }
    )


def _kinds_of(tres: str) -> Iterator[str]:
    """The names of all generic resources in a list, whatever their counts are."""
    for entry in tres.split(","):
        kind, is_there, _ = entry.partition("=")
        if is_there and kind.startswith(_GRES):
            yield kind.removeprefix(_GRES)


def _gib(memory_mib: int) -> float:
    """0, unknown, for the 1 MiB that Slurm has where nobody said how much there is, and for what no
    node has."""
    memory_gib = memory_mib / 1024
    return memory_gib if memory_mib > 1 and NODE_MEMORY_GIB.has(memory_gib) else 0.0


def _kind(node: Mapping[str, Any]) -> _NodeKind:
    resources = tuple(sorted(_counted(_tres(node)).items()))
    features = tuple(_features(node)[: LENGTHS["features"].most])
    return _NodeKind(_gib(number(node.get("real_memory")) or 0), resources, features)


def _features(node: Mapping[str, Any]) -> list[str]:
    return [name for name in texts(node.get("features")) if _is_feature(name)]


def _is_feature(name: str) -> bool:
    """Return whether a job can ask for a feature."""
    try:
        require_feature("features", name)
    except RejectedError:
        return False
    return True
