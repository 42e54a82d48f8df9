"""Which nodes are switched off to save power, and which boot: a fold over what resource managers
declare.

It keeps no job from any node. Nodes that are on come first, and what starts on others starts later
by the time that they boot. Nodes that placement does not know count for nothing: a manager names
all of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from coplace.v1.control_pb2 import NodePowerDeclared

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.cluster import Cluster
from shared.domain.hostlist import expand
from shared.domain.node import NodeNames
from shared.placement.state.stamps import Stamp, is_ahead, require_newer, set_back, stamp_of
from shared.scheduling.eligibility import NodeBits
from shared.streams.state.state import State

_TABLE: Final = "node-power"


@dataclass(frozen=True, slots=True)
class DeclaredPower:
    """The newest declaration of a cluster: host lists of nodes that are off and of those that boot,
    how long that takes a node, and what it uses meanwhile."""

    declared: Stamp
    off: tuple[str, ...]
    booting: tuple[str, ...]
    boot_s: float
    boot_energy_j: float


class SwitchedNodes(NamedTuple):
    """The nodes of a cluster that are not on, by index: `booting` ones are on sooner than those
    that are `off`. `boot_s` and `boot_energy_j` are of one node."""

    off: frozenset[int] = frozenset()
    booting: frozenset[int] = frozenset()
    boot_s: float = 0.0
    boot_energy_j: float = 0.0

    @property
    def not_on(self) -> frozenset[int]:
        """Return the nodes that run no job yet."""
        return self.off | self.booting

    def level(self, node: int) -> int:
        """Return the place of a node in the order of what starts soonest."""
        return 2 if node in self.off else int(node in self.booting)

    def boots(self, nodes: Iterable[int]) -> list[int]:
        """Return those of some nodes that a job would wait for, ascending."""
        return sorted(self.not_on.intersection(nodes))

    def boot_time_s(self, nodes: Iterable[int]) -> float:
        """Return how much later a job starts on some nodes."""
        return 0.0 if self.not_on.isdisjoint(nodes) else self.boot_s

    @property
    def sets(self) -> tuple[NodeBits, ...]:
        """Return the nodes of each level but those that are on, in the order of levels."""
        return tuple(_bits(nodes) for nodes in (self.booting, self.off)) if self.not_on else ()


ALL_ON: Final = SwitchedNodes()


class NodePowers:
    """Folds declarations; `clusters` and `names` are those of now."""

    def __init__(
        self,
        state: State,
        clusters: Callable[[], Mapping[str, Cluster]],
        names: Callable[[], Mapping[str, NodeNames]],
    ) -> None:
        self._clusters, self._names = clusters, names
        self._rows = state.table(_TABLE, DeclaredPower)
        # Saved since the last round ended; after a restart all.
        self._saved_now = {cluster for cluster, _ in self._rows.items()}

    def declare(self, event: Event, message: NodePowerDeclared) -> None:
        """Take a declaration in. Raises RejectedError for a cluster that nobody declared,
        AlreadyAppliedError for a copy, and OvertakenError."""
        if message.cluster not in self._clusters():
            raise RejectedError("cluster", f"{message.cluster[:80]!r} is not declared")
        before = self._rows.get(message.cluster)
        if before is not None:
            require_newer(event, before.declared)
        row = DeclaredPower(
            stamp_of(event),
            tuple(message.off),
            tuple(message.booting),
            message.boot_s,
            message.boot_energy_j,
        )
        self._rows.put(message.cluster, row)
        self._saved_now.add(message.cluster)

    def set_back(self, ended_us: int) -> None:
        """Set back what was declared from a clock ahead of the end of this round."""
        for cluster in sorted(self._saved_now):
            row = self._rows.get(cluster)
            if row is not None and is_ahead(row.declared[0], ended_us):
                declared = set_back(row.declared, ended_us)
                self._rows.put(cluster, replace(row, declared=declared))
        self._saved_now.clear()

    def forget(self, cluster: str) -> None:
        """Forget a cluster that was undeclared."""
        self._rows.drop(cluster)

    def of(self, cluster: str) -> SwitchedNodes:
        """Return what is known of the nodes of a cluster."""
        row = self._rows.get(cluster)
        if row is None or not (row.off or row.booting):
            return ALL_ON
        booting = self._indices(cluster, row.booting)
        off = self._indices(cluster, row.off) - booting
        return SwitchedNodes(off, booting, row.boot_s, row.boot_energy_j)

    def _indices(self, cluster: str, hosts: Iterable[str]) -> frozenset[int]:
        """Return the indices of the nodes that are declared."""
        names, nodes = self._names()[cluster], self._clusters()[cluster].nodes
        found = (names.find(name) for each in hosts for name in expand(each))
        return frozenset(index for index in found if index is not None and index < nodes)


def _bits(nodes: Iterable[int]) -> NodeBits:
    found = 0
    for node in nodes:
        found |= 1 << node
    return found
