"""The rules of EASY backfill written as plainly as they are said: one entry at a time, no arrays.

Slow on purpose, and independent of the code that it is compared with.
"""

from dataclasses import dataclass, field

from shared.scheduling.load import Load, NodeSet
from shared.scheduling.wait_queue import Entry


@dataclass
class PlainCluster:
    """One cluster; `reservation` is (arrival, shadow time, extra nodes)."""

    load: Load
    entries: list[Entry]
    reservation: tuple[int, float, int] | None = None
    visited: set[int] = field(default_factory=set)
    # Free nodes and reservation when an entry was refused last, by order.
    refused: dict[int, tuple[int, tuple[int, float, int] | None]] = field(default_factory=dict)

    def next(self) -> Entry | None:
        left = [e for e in self.entries if e.order not in self.visited]
        return min(left, default=None)

    def allowed(self, nodes: int, end_s: float) -> bool:
        """EASY's rule."""
        if self.reservation is None:
            return True
        _, shadow_s, extra = self.reservation
        return end_s <= shadow_s or nodes <= extra

    def take_extra(self, nodes: int, end_s: float) -> None:
        if self.reservation is None:
            return
        arrival, shadow_s, extra = self.reservation
        if end_s > shadow_s:
            self.reservation = (arrival, shadow_s, extra - nodes)

    def shadow(self, nodes: int, now_s: float) -> tuple[float, int]:
        for time_s in sorted({now_s, *(s.release_s for s in self.load.node_sets)}):
            back = sum(s.nodes for s in self.load.node_sets if s.release_s <= time_s)
            if self.load.free + back >= nodes:
                return time_s, self.load.free + back - nodes
        raise AssertionError("a job that fits the cluster starts some day")


def plain_schedule(now_s: float, clusters: dict[str, PlainCluster]) -> list[tuple[int, str]]:
    """(arrival, cluster) of each start, in order."""
    starts: list[tuple[int, str]] = []
    while turns := [(e, name) for name, c in clusters.items() if (e := c.next())]:
        entry, name = min(turns)
        cluster = clusters[name]
        cluster.visited.add(entry.order)
        cluster.refused[entry.order] = cluster.load.free, cluster.reservation
        if _starts(now_s, cluster, entry):
            starts.append((entry.arrival, name))
            _forget(clusters, entry.arrival)
    return starts


def _starts(now_s: float, cluster: PlainCluster, entry: Entry) -> bool:
    load, end_s = cluster.load, now_s + entry.limit_s
    if entry.nodes > load.nodes:
        return False
    if entry.nodes <= load.free and cluster.allowed(entry.nodes, end_s):
        cluster.take_extra(entry.nodes, end_s)
        load.free -= entry.nodes
        load.node_sets.append(NodeSet(entry.nodes, end_s))
        return True
    if cluster.reservation is None:
        cluster.reservation = (entry.arrival, *cluster.shadow(entry.nodes, now_s))
    return False


def _forget(clusters: dict[str, PlainCluster], arrival: int) -> None:
    for cluster in clusters.values():
        gone = [e.order for e in cluster.entries if e.arrival == arrival]
        cluster.entries = [e for e in cluster.entries if e.arrival != arrival]
        if cluster.reservation and cluster.reservation[0] == arrival:
            cluster.reservation = None
            cluster.visited = {order for order in cluster.visited if order < gone[0]}
