"""Nodes as the API server has them: the cluster that they are, and those that take no pods."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from math import floor
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from coplace.v1.control_pb2 import (
    ClusterDeclared,
    NodeClass,
    NodesDrained,
    NodesResumed,
    Partition,
)
from coplace.v1.ingest_service_pb2 import Envelope

from coplace_client.bounds import CORES_PER_NODE, NODE_MEMORY_GIB
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError, UnusableError
from coplace_client.facts import fact
from coplace_client.millicores import PER_CORE
from shared.domain.few_classes import MOST_CLASSES, few_classes, less_exact
from shared.domain.folding import fold
from shared.domain.hostlist import expand
from shared.kubernetes.names import HOSTNAME
from shared.kubernetes.node_terms import NodeTerm, labels_of
from shared.kubernetes.objects import mapping_of, texts_of
from shared.kubernetes.texts import shown
from shared.kubernetes.tolerations import UNTAINTED, Tolerations, lasting_taints
from shared.kubernetes.units import PODS, amounts, count_resources

_GIB: Final = 1024**3
# What kubelets take by default.
_PODS_OF_KUBELETS: Final = Fraction(110)
PodAmounts = Mapping[str, Fraction]
_READY: Final = "Ready"
_READ: Final[Mapping[str, tuple[str, ...]]] = {
    "metadata": ("name", "creationTimestamp", "deletionTimestamp"),
    "spec": ("taints", "unschedulable"),
    "status": ("allocatable", "conditions"),
}


class MixedNodesError(UnusableError):
    """Nodes of several sizes are in one cluster, which is of one node model."""


@dataclass(frozen=True, slots=True)
class NodeTraits:
    """What Kubernetes does not know of a cluster's nodes; `tdp_w` is the thermal design power of
    one of a resource by its name, `processors_tdp_w` that of a node's processors together, and
    `nameplate_power_w` what a node draws at most, W; 0: nobody said."""

    cluster: str
    site: str
    node_model: str
    pstates_ghz: tuple[float, ...]
    idle_power_w: float
    peak_bandwidth_gbps: float
    architecture: str
    tdp_w: Mapping[str, float] = field(default_factory=dict)
    nameplate_power_w: float = 0.0
    processors_tdp_w: float = 0.0


def trimmed_node(node: Mapping[str, Any], *, has_labels: bool = False) -> Mapping[str, Any]:
    """Return what is read of a node: most of it is images. Labels by which pods select nodes are
    read where it `has_labels`."""
    if not isinstance(node, Mapping):
        return node
    labels = texts_of(mapping_of(node.get("metadata")).get("labels"))
    found: dict[str, Any] = {}
    for name, names in _READ.items():
        told = node.get(name)
        if isinstance(told, Mapping):
            told = {key: told[key] for key in names if key in told}
        found[name] = told
    status = found["status"]
    if isinstance(status, Mapping) and "conditions" in status:
        found["status"] = {**status, "conditions": _trimmed_conditions(status["conditions"])}
    if not has_labels:
        labels = {HOSTNAME: labels[HOSTNAME]} if HOSTNAME in labels else {}
    if labels and isinstance(found["metadata"], Mapping):
        found["metadata"] = {**found["metadata"], "labels": labels}
    return found


def _trimmed_conditions(told: object) -> object:
    """Of all conditions one is read, and of that no time."""
    if not isinstance(told, list) or not all(isinstance(each, Mapping) for each in told):
        return told
    names = ("type", "status", "reason", "message")
    return [
        {name: each[name] for name in names if name in each}
        for each in told
        if each.get("type") == _READY
    ]


def hostname(node: Mapping[str, Any]) -> str:
    """Return the label by which pods ask for a node; empty where it has none."""
    return texts_of(node["metadata"].get("labels")).get(HOSTNAME, "")


def require_readable(node: Mapping[str, Any]) -> None:
    """Raise RejectedError, which names the field, for a node that is not as nodes are."""
    if not isinstance(node, Mapping):
        raise RejectedError("node", "must be an object")
    metadata, spec = mapping_of(node.get("metadata")), mapping_of(node.get("spec"))
    for name in ("name", "creationTimestamp"):
        told = metadata.get(name)
        require_text(f"metadata.{name}", told if isinstance(told, str) else "")
    for name in ("spec", "status"):
        if not isinstance(node.get(name), Mapping):
            raise RejectedError(name, "must be set")
    if len(expand(str(metadata["name"]))) != 1:
        raise RejectedError("metadata.name", "must be the name of one node")
    taints, conditions = spec.get("taints") or (), node["status"].get("conditions") or ()
    _require_texts("spec.taints", taints, ("key", "effect"))
    _require_texts("status.conditions", conditions, ("type", "status"))
    _allocatable(node)


def _require_texts(field: str, told: object, names: Sequence[str]) -> None:
    if not isinstance(told, list | tuple):
        raise RejectedError(field, "must be a list")
    for each in told:
        if not all(isinstance(mapping_of(each).get(name), str) for name in names):
            raise RejectedError(field, f"must have {' and '.join(names)} each")


def is_worker(node: Mapping[str, Any], tolerated: Iterable[Tolerations] = ()) -> bool:
    """Return whether Jobs may go there, now or once it is well: no lasting taint keeps all of them
    away, of whom some have these tolerations."""
    taints = lasting_taints(node)
    return not taints or any(each.allow(taints) for each in tolerated)


def age_of(node: Mapping[str, Any]) -> tuple[str, str]:
    """Return a key that sorts nodes, the oldest first, so that a new one changes no other's index;
    last in it is the node's name."""
    return node["metadata"]["creationTimestamp"], node_name(node)


def cluster_declared(
    nodes: Sequence[Mapping[str, Any]],
    traits: NodeTraits,
    terms: Iterable[NodeTerm] = (),
    tolerated: Iterable[Tolerations] = (),
    taken: Mapping[str, PodAmounts] = MappingProxyType({}),
) -> ClusterDeclared:
    """Return the cluster of these nodes, in their order, with these terms as features and the nodes
    of each of the tolerations as partitions. Jobs have what is not `taken` of each by other pods.

    Raises MixedNodesError where they differ in their cores, and RejectedError for amounts that
    cannot be understood.
    """
    told = [_allocatable(node) for node in nodes]
    cores = _cores_of_all(told, traits)
    features = _features(nodes, list(terms))
    kinds = [
        _NodeLeft.read(has, cores, taken.get(node_name(node), {}), names)
        for node, has, names in zip(nodes, told, features, strict=True)
    ]
    placed = few_classes(list(zip(map(node_name, nodes), _fewer(kinds), strict=True)))
    declared = ClusterDeclared(
        cluster=traits.cluster,
        site=traits.site,
        node_model=traits.node_model,
        nodes=len(nodes),
        cores_per_node=cores,
        pstates_ghz=traits.pstates_ghz,
        idle_power_w=traits.idle_power_w,
        peak_bandwidth_gbps=traits.peak_bandwidth_gbps,
        nameplate_power_w=traits.nameplate_power_w,
        processors_tdp_w=traits.processors_tdp_w,
        architecture=traits.architecture,
        # Kubernetes gives pods cores of nodes on which others have cores, whoever these are.
        shares_unpredicted=True,
        node_names=fold(name for name, _ in placed),
    )
    declared.node_classes.extend(_classes((kind for _, kind in placed), traits))
    declared.partitions.extend(_partitions(nodes, list(tolerated)))
    return declared


class _NodeLeft(NamedTuple):
    """What jobs may have of a node; `millicores` of its cores, 0: all of them."""

    memory_gib: float
    resources: tuple[tuple[str, int], ...]
    features: tuple[str, ...]
    millicores: int

    @classmethod
    def read(
        cls, told: PodAmounts, cores: int, taken: PodAmounts, features: tuple[str, ...]
    ) -> Self:
        """Return what is left of a node with so many cores beside what others have taken. A little
        is left of what is taken wholly: nothing would mean that it is not known."""
        free = {name: amount - taken.get(name, Fraction(0)) for name, amount in told.items()}
        memory_gib = float(free.get("memory", Fraction(0)) / _GIB)
        if "memory" in told and "memory" in taken:
            memory_gib = max(memory_gib, NODE_MEMORY_GIB.least)
        millicores = max(1, floor(free["cpu"] * PER_CORE))
        return cls(
            memory_gib,
            tuple(sorted(count_resources(free).items())),
            features,
            millicores if millicores < cores * PER_CORE else 0,
        )

    def less_exact(self) -> Self:
        """Return it with amounts that are powers of two, or the least that nodes have."""
        resources = tuple(
            (name, round(less_exact(count)) if name == PODS else count)
            for name, count in self.resources
        )
        memory_gib = less_exact(self.memory_gib)
        if memory_gib:
            memory_gib = max(memory_gib, NODE_MEMORY_GIB.least)
        return self._replace(
            memory_gib=memory_gib,
            resources=resources,
            millicores=round(less_exact(self.millicores)),
        )


def _fewer(kinds: Sequence[_NodeLeft]) -> Sequence[_NodeLeft]:
    """Return kinds of nodes, with less exact amounts where a cluster cannot have so many."""
    if len(set(kinds)) <= MOST_CLASSES:
        return kinds
    return [kind.less_exact() for kind in kinds]


def _classes(kinds: Iterable[_NodeLeft], traits: NodeTraits) -> Iterable[NodeClass]:
    """Yield the classes of nodes of these kinds, in their order."""
    for kind, alike in groupby(kinds):
        yield NodeClass(
            nodes=len(list(alike)),
            memory_gib=kind.memory_gib,
            resources=dict(kind.resources),
            tdp_w={name: traits.tdp_w[name] for name, _ in kind.resources if name in traits.tdp_w},
            features=kind.features,
            millicores_per_node=kind.millicores,
        )


def _features(
    nodes: Sequence[Mapping[str, Any]], terms: Sequence[NodeTerm]
) -> list[tuple[str, ...]]:
    """The terms that each of the nodes meets."""
    labels = (labels_of(node) if terms else {} for node in nodes)
    return [tuple(sorted(str(term) for term in terms if term.holds(each))) for each in labels]


def _partitions(
    nodes: Sequence[Mapping[str, Any]], tolerated: Sequence[Tolerations]
) -> Iterable[Partition]:
    """One of each of the tolerations, and that of nodes without taints; none where nobody tolerates
    any."""
    if not tolerated:
        return
    taints = {node_name(node): lasting_taints(node) for node in nodes}
    for each in (Tolerations(), *sorted(tolerated, key=lambda one: one.partition)):
        found = fold(name for name, of in taints.items() if each.allow(of))
        name = each.partition or UNTAINTED
        # Without names a partition is all nodes.
        yield Partition(name=name, nodes=found, default=not each.each, down=not found)


def _allocatable(node: Mapping[str, Any]) -> PodAmounts:
    """What pods may have of a node."""
    told = amounts("status.allocatable", node["status"].get("allocatable") or {})
    told.setdefault(PODS, _PODS_OF_KUBELETS)
    if "cpu" not in told:
        raise RejectedError("status.allocatable.cpu", "must be set")
    return told


def _cores_of_all(told: Iterable[PodAmounts], traits: NodeTraits) -> int:
    """The whole cores of each of these nodes, which are of one model."""
    cores = {floor(each["cpu"]) for each in told}
    for each in cores:
        CORES_PER_NODE.require_if_known("status.allocatable.cpu", each)
    if len(cores) != 1 or not cores.isdisjoint({0}):
        shown_cores = ", ".join(map(str, sorted(cores))) or "no node"
        problem = (
            f"{traits.cluster} has nodes of {shown_cores} cores: a cluster is of one node model"
        )
        raise MixedNodesError(f"{problem}: choose nodes by node_selector")
    return cores.pop()


def node_name(node: Mapping[str, Any]) -> str:
    """Return the name of a node."""
    return str(node["metadata"]["name"])


def why_out(node: Mapping[str, Any]) -> str:
    """Return why a node takes no pods; empty where it does."""
    if node["metadata"].get("deletionTimestamp"):
        return "the node was deleted"
    if node["spec"].get("unschedulable"):
        return "cordoned in Kubernetes"
    conditions = node["status"].get("conditions") or ()
    ready = next((each for each in conditions if each["type"] == _READY), None)
    if ready is not None and ready["status"] == "True":
        return ""
    said = ready and (ready.get("message") or ready.get("reason"))
    return shown(f"not ready in Kubernetes: {said or 'nothing is known of it'}")


def declaration(declared: ClusterDeclared, source: str, now_us: int) -> Envelope:
    """Return the event that the cluster is there, or has changed."""
    return fact(source, declared, f"{declared.cluster}/{now_us}", now_us)


def drain(cluster: str, names: Sequence[str], reason: str, source: str, now_us: int) -> Envelope:
    """Return the event that some nodes take nothing."""
    drained = NodesDrained(cluster=cluster, nodes=fold(names), reason=reason, drained_at_us=now_us)
    return fact(source, drained, f"{cluster}/{names[0]}/{now_us}", now_us)


def resumption(cluster: str, names: Sequence[str], source: str, now_us: int) -> Envelope:
    """Return the event that some nodes are back."""
    resumed = NodesResumed(cluster=cluster, nodes=fold(names), resumed_at_us=now_us)
    return fact(source, resumed, f"{cluster}/{names[0]}/{now_us}", now_us)
