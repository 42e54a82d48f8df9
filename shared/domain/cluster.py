"""Clusters: nodes of one model under one resource manager."""

from dataclasses import dataclass
from functools import lru_cache
from math import fsum
from typing import Final, Protocol

from coplace_client.bounds import (
    CLOCK_GHZ,
    LENGTHS,
    NODE_MEMORY_GIB,
    NODE_POWER_W,
    QUANTITIES,
    TDP_W,
)
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from coplace_client.millicores import PER_CORE
from shared.domain.features import require_feature
from shared.domain.folding import MOST_HOST_LIST_BYTES, always_fit
from shared.domain.node import NodeNames
from shared.domain.partition import Partition
from shared.domain.resources import (
    DesignPowers,
    Resources,
    require_design_powers,
    require_resources,
)

MOST_PSTATES: Final = LENGTHS["pstates_ghz"].most
# Of emulated clusters: a secure installation lets their emulator speak for it.
EMULATED_SITE: Final = "demo"
# What a job may choose from is kept with each job that waits.
MOST_CLUSTERS: Final = 128
# Of one kind in a node that draw power: what a node has more of is no device, but memory of some.
_MOST_DEVICES: Final = 10_000
# Characters of the host lists of all partitions of a cluster: its declaration is one message.
_MOST_PARTITIONS_TEXT: Final = 262_144


class Names(Protocol):
    """A container that knows names: a dictionary, a table."""

    def __contains__(self, name: str, /) -> bool: ...

    def __len__(self) -> int: ...


def require_few_clusters(known: Names, name: str) -> None:
    """Raise RejectedError where `name` would be one more than a region can have."""
    if name not in known and len(known) >= MOST_CLUSTERS:
        raise RejectedError("cluster", f"must be one of the {MOST_CLUSTERS} that a region can have")


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes of a cluster that are alike in memory (0: unknown) and in what else they have; `tdp_w`
    is the thermal design power of one of each resource that was declared, W, `features` are what
    jobs may ask for by name, and
    `millicores_per_node` what they may use of its cores (0: all). Raises
    RejectedError on construction."""

    nodes: int
    memory_gib: float = 0.0
    resources: Resources = ()
    tdp_w: DesignPowers = ()
    features: tuple[str, ...] = ()
    millicores_per_node: int = 0

    def __post_init__(self) -> None:
        QUANTITIES["nodes"].require("nodes", self.nodes)
        NODE_MEMORY_GIB.require_if_known("memory_gib", self.memory_gib)
        require_resources("resources", self.resources)
        require_design_powers("tdp_w", self.tdp_w, self.resources)
        LENGTHS["features"].require("features", len(self.features))
        for feature in self.features:
            require_feature("features", feature)


def _has_unrated_gpu(nodes: NodeClass) -> bool:
    """Return whether nodes have GPUs of which neither the kind nor a type has a design power."""
    rated = {name.partition(":")[0] for name, _ in nodes.tdp_w}
    kinds = {name.partition(":")[0] for name, _ in nodes.resources}
    return any(kind.lower().endswith("gpu") and kind not in rated for kind in kinds)


@lru_cache(maxsize=1024)
def _alike(nodes: int, memory_gib: float) -> tuple[NodeClass]:
    return (NodeClass(nodes, memory_gib),)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as its operator declared it. Raises RejectedError on construction.

    `memory_gib_per_node`, `nameplate_power_w`, what a node draws at most, and `processors_tdp_w`,
    the thermal design power of its processors together, are 0, and `architecture` and `node_names`
    (host lists) are empty, where the operator does not say. `declared_classes` are empty where all
    nodes are alike, `partitions` where its resource manager has none. With `shares_unpredicted`
    jobs that accept others do so where nothing is predicted of these too.
    """

    name: str
    site: str
    node_model: str
    nodes: int
    cores_per_node: int
    pstates_ghz: tuple[float, ...]
    idle_power_w: float
    peak_bandwidth_gbps: float
    memory_gib_per_node: float = 0.0
    architecture: str = ""
    node_names: tuple[str, ...] = ()
    declared_classes: tuple[NodeClass, ...] = ()
    nameplate_power_w: float = 0.0
    processors_tdp_w: float = 0.0
    partitions: tuple[Partition, ...] = ()
    shares_unpredicted: bool = False

    def __hash__(self) -> int:
        """Return the same for equal clusters, without going through all that was declared: what
        follows from a cluster is kept by it, and asked for again and again."""
        return hash(self.name)

    def __post_init__(self) -> None:
        for field in ("name", "site", "node_model"):
            require_text(field, getattr(self, field))
        for field in ("nodes", "cores_per_node", "idle_power_w", "peak_bandwidth_gbps"):
            QUANTITIES[field].require(field, getattr(self, field))
        if not 1 <= len(self.pstates_ghz) <= MOST_PSTATES:
            raise RejectedError("pstates_ghz", f"must name 1 to {MOST_PSTATES} frequencies")
        for freq_ghz in self.pstates_ghz:
            CLOCK_GHZ.require("pstates_ghz", freq_ghz)
        if list(self.pstates_ghz) != sorted(set(self.pstates_ghz)):
            raise RejectedError("pstates_ghz", "must be ascending without repetition")
        self._check_optional()

    def _check_optional(self) -> None:
        NODE_MEMORY_GIB.require_if_known("memory_gib_per_node", self.memory_gib_per_node)
        self._check_nameplate()
        if self.architecture:
            require_text("architecture", self.architecture)
        if self.node_names:
            self._check_names(self.names())
        if self.declared_classes:
            self._check_classes()
        if self.partitions:
            self._check_partitions(self.names())

    def _check_nameplate(self) -> None:
        most_w = QUANTITIES["nameplate_power_w"]
        most_w.require_if_known("nameplate_power_w", self.nameplate_power_w)
        if 0 < self.nameplate_power_w < self.idle_power_w:
            problem = f"must not be below idle_power_w, {self.idle_power_w:g} W"
            raise RejectedError("nameplate_power_w", problem)
        TDP_W.require_if_known("processors_tdp_w", self.processors_tdp_w)

    def _check_names(self, names: NodeNames) -> None:
        if (named := len(names)) != self.nodes:
            raise RejectedError("node_names", f"must be {self.nodes} as the nodes, got {named}")
        if not always_fit(names.declared):
            problem = f"may fill more than {MOST_HOST_LIST_BYTES} bytes as host lists"
            raise RejectedError("node_names", f"{problem}: number the nodes")

    def _check_classes(self) -> None:
        LENGTHS["node_classes"].require("node_classes", len(self.declared_classes))
        if (nodes := sum(each.nodes for each in self.declared_classes)) != self.nodes:
            raise RejectedError("node_classes", f"must be {self.nodes} nodes, got {nodes}")
        if any(
            each.millicores_per_node > self.millicores_per_node for each in self.declared_classes
        ):
            problem = f"must be at most the {self.cores_per_node} cores of a node"
            raise RejectedError("node_classes.millicores_per_node", problem)

    def _check_partitions(self, names: NodeNames) -> None:
        LENGTHS["partitions"].require("partitions", len(self.partitions))
        if len({each.name for each in self.partitions}) < len(self.partitions):
            raise RejectedError("partitions", "must have names that differ")
        if sum(len(text) for p in self.partitions for text in p.nodes) > _MOST_PARTITIONS_TEXT:
            problem = f"must name nodes in at most {_MOST_PARTITIONS_TEXT} characters together"
            raise RejectedError("partitions", problem)
        for partition in self.partitions:
            if any(index >= self.nodes for index in names.indices(partition.nodes)):
                problem = f"of {partition.name[:80]!r} must be of the cluster's {self.nodes} nodes"
                raise RejectedError("partitions.nodes", problem)

    @property
    def has_default_partition(self) -> bool:
        """Return whether jobs that name no partition are in some all the same."""
        return bool(self.partitions) and any(partition.default for partition in self.partitions)

    @property
    def node_classes(self) -> tuple[NodeClass, ...]:
        """Return its nodes in the order of their indices, those that are alike together."""
        return self.declared_classes or _alike(self.nodes, self.memory_gib_per_node)

    def names(self) -> NodeNames:
        """Return the names of its nodes, expanded anew."""
        return NodeNames(self.name, self.node_names)

    @property
    def nominal_ghz(self) -> float:
        """Return the frequency that jobs run at when nobody chooses: the highest P-state."""
        return self.pstates_ghz[-1]

    @property
    def most_node_w(self) -> float:
        """Return what any of its nodes draws at most, W: its nameplate power, or else what follows
        from the design power of its processors and accelerators; 0 where neither is known."""
        return self.nameplate_power_w or self._derived_w()

    @property
    def nameplate_is_derived(self) -> bool:
        """Return whether what its nodes draw at most follows from design powers."""
        return not self.nameplate_power_w and bool(self.processors_tdp_w)

    def _derived_w(self) -> float:
        """Return idle and design power together: nothing that idles draws less under load. A GPU
        without a design power may draw anything."""
        classes = self.declared_classes
        if not self.processors_tdp_w or any(_has_unrated_gpu(each) for each in classes):
            return 0.0
        accelerators_w = max((self.accelerators_w(c.resources) for c in classes), default=0.0)
        together_w = self.idle_power_w + self.processors_tdp_w + accelerators_w
        return min(together_w, NODE_POWER_W.most)

    def accelerators_w(self, resources: Resources) -> float:
        """Return the thermal design power of so many accelerators together, W; of a kind whose
        nodes differ the highest, since nobody knows where a job will run. What declares none has 0.
        Those of a type (`gpu:a100`) are among those of their kind (`gpu`), and count once."""
        highest_w: dict[str, float] = {}
        for name, tdp_w in (pair for each in self.declared_classes for pair in each.tdp_w):
            highest_w[name] = max(tdp_w, highest_w.get(name, 0.0))
        counts = dict(resources)
        for name, count in resources:
            kind, _, of_type = name.partition(":")
            if of_type and name in highest_w and kind in counts:
                counts[kind] = max(0, counts[kind] - count)
        return fsum(
            min(count, _MOST_DEVICES) * highest_w.get(name, 0.0) for name, count in counts.items()
        )

    def accelerators_of_node_w(
        self, resources_per_unit: Resources, unit_millicores: int, *, shareable: bool
    ) -> float:
        """Return the design power of a node used whole by units of so many accelerators and
        thousandths of a core (0: all, or half of a node that is shared), W: a unit's share of its
        cores has a unit's accelerators."""
        if not resources_per_unit:
            return 0.0
        cores = unit_millicores / PER_CORE or self.cores_for(shareable=shareable)
        return self.accelerators_w(resources_per_unit) * self.cores_per_node / cores

    @property
    def millicores_per_node(self) -> int:
        """Return the thousandths of a core that each of its nodes has."""
        return self.cores_per_node * PER_CORE

    def cores_for(self, *, shareable: bool) -> int:
        """Return the cores that a job uses on each of its nodes: half when it shares, but one, else
        all."""
        return max(1, self.cores_per_node // 2) if shareable else self.cores_per_node

    def memory_gib_for(self, *, shareable: bool) -> float:
        """Return the memory that a job may use on each of its nodes, half of it when it shares,
        where a node has most; 0 where it is not declared."""
        most_gib = max(each.memory_gib for each in self.node_classes)
        return most_gib / 2 if shareable else most_gib
