"""Nodes whose meters are silent, by placement's own word, and what their jobs count for."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from coplace.v1.control_pb2 import ClusterDeclared, ClusterUndeclared
from coplace.v1.placement_pb2 import NodeMetersSilent, PlacementDecided

from shared.catalogue.event import Event
from shared.domain.hostlist import expand
from tests.chaos.audit.evidence import Evidence, events_of
from tests.chaos.audit.nodes import names_of

_NOBODY: frozenset[int] = frozenset()


def most_node_w(cluster: ClusterDeclared) -> float:
    """What a node draws at most: as declared, or else idle and with all of its processors. Nodes
    with accelerators declare it here."""
    return cluster.nameplate_power_w or cluster.idle_power_w + cluster.processors_tdp_w


def cores_of_unit(decided: PlacementDecided) -> float:
    """The cores of one unit of a start."""
    return decided.millicores_per_unit / 1000 or decided.cores_per_node


class Nodes(NamedTuple):
    """What a start took: units on each node, and the cores of one."""

    units: dict[int, int]
    cores_per_node: float

    @classmethod
    def of(cls, decided: PlacementDecided) -> "Nodes":
        """What was decided."""
        units = [*decided.node_units] or [1] * len(decided.node_indices)
        return cls(dict(zip(decided.node_indices, units, strict=True)), cores_of_unit(decided))

    def counted_w(self, drawn_w: float, silent: Collection[int], cluster: ClusterDeclared) -> float:
        """Beyond idle: by nameplate on silent nodes and as drawn on the others, but no less than as
        drawn; what is rounded, rounded down."""
        unseen = sum(count for node, count in self.units.items() if node in silent)
        if not unseen:
            return drawn_w
        unseen_nodes = unseen * self.cores_per_node / cluster.cores_per_node
        nameplate_w = (most_node_w(cluster) - cluster.idle_power_w) * unseen_nodes
        seen_w = drawn_w * (1 - unseen / sum(self.units.values()))
        return max(drawn_w, nameplate_w + seen_w - 0.002)


@dataclass(slots=True)
class SilentMeters:
    """Of each cluster the nodes that placement called silent last. A placement whose state was put
    back counts silence anew, and its words come again: nothing is demanded of it."""

    told: dict[int, list[NodeMetersSilent]] = field(default_factory=dict)
    _nodes: dict[str, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, evidence: Evidence) -> "SilentMeters":
        """By what placement published."""
        found, world = cls(), evidence.world
        if not world.journal.mended["placement"]:
            for event in events_of(world.log, world.codec, "placement.decisions"):
                if isinstance(event.payload, NodeMetersSilent):
                    found.told.setdefault(event.payload.round, []).append(event.payload)
        return found

    def learn(self, event: Event) -> None:
        """Nodes that were removed are not silent any more."""
        match event.payload:
            case ClusterUndeclared() as gone:
                self._nodes.pop(gone.cluster, None)
            case ClusterDeclared() as declared:
                kept = range(declared.nodes)
                self._nodes[declared.cluster] = self.on(declared.cluster).intersection(kept)

    def end_round(self, number: int, clusters: dict[str, ClusterDeclared]) -> None:
        """What is published at its end applies to its own starts."""
        for told in self.told.get(number, []):
            if told.cluster in clusters:
                names = names_of(clusters[told.cluster])
                silent = expand(",".join(told.nodes)) if told.nodes else []
                self._nodes[told.cluster] = frozenset(names.index(name) for name in silent)

    def on(self, cluster: str) -> frozenset[int]:
        """The silent nodes of a cluster, by index."""
        return self._nodes.get(cluster, _NOBODY)
