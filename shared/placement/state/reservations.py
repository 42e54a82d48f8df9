"""Reservations and maintenance: which nodes are kept for whom, from when until when. A fold over
what operators and resource managers declare.

What ended or was removed stays known for some days: jobs that name it say so, and a copy of an
earlier declaration counts no more.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from coplace.v1.control_pb2 import ReservationDeclared, ReservationRemoved

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.cluster import Cluster
from shared.domain.folding import fold
from shared.domain.job import Job
from shared.domain.node import NodeNames
from shared.placement.state.stamps import Stamp, is_ahead, require_newer, set_back, stamp_of
from shared.scheduling.eligibility import (
    NodeBits,
    all_nodes,
    nodes_named,
    nodes_of_partition,
)
from shared.scheduling.windows import NO_WINDOWS, Window, Windows, late_start_s
from shared.streams.state.state import State

_TABLE: Final = "reservation"
_SEPARATOR: Final = "|"
# Of one cluster, that have not ended; and of these with what ended or was removed.
_MOST: Final = 256
_MOST_ROWS: Final = 1024
_MOST_TEXT: Final = 256
# Partitions that an error names.
_MOST_NAMED: Final = 10
_REMEMBERED_S: Final = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class NodeReservation:
    """The newest declaration of a name on a cluster. `nodes` are host lists, of nodes that were
    named or chosen; without any it has all of its partition or its cluster."""

    declared: Stamp
    by: str
    cluster: str
    name: str
    nodes: tuple[str, ...]
    node_count: int
    partition: str
    from_us: int
    until_us: int
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    reason: str
    declared_at_us: int
    is_removed: bool = False
    # How many of its turns are past, as of the last round.
    turned: int = 0

    @property
    def turns_s(self) -> tuple[float, float, float]:
        """Return when resource managers may answer otherwise than before: at its begin, soon after,
        since their clocks differ from ours, and at its end."""
        late_s = late_start_s(self.from_s, self.until_s)
        return self.from_s, (self.from_s + late_s) / 2, self.until_s

    @property
    def is_over(self) -> bool:
        """Return whether it was removed, or had ended by the last round."""
        return self.is_removed or self.turned == len(self.turns_s)

    @property
    def from_s(self) -> float:
        """Return when it begins."""
        return self.from_us / 1e6

    @property
    def until_s(self) -> float:
        """Return when it ends."""
        return self.until_us / 1e6

    @property
    def is_maintenance(self) -> bool:
        """Return whether its nodes are kept for nobody."""
        return not (self.users or self.accounts)

    def admits(self, job: Job) -> bool:
        """Return whether a job may be of it."""
        return job.user in self.users or job.account in self.accounts

    def message(self) -> ReservationDeclared:
        """Return it as it was declared, with the nodes that were chosen."""
        return ReservationDeclared(
            cluster=self.cluster,
            name=self.name,
            nodes=self.nodes,
            node_count=self.node_count,
            partition=self.partition,
            from_us=self.from_us,
            until_us=self.until_us,
            users=self.users,
            accounts=self.accounts,
            reason=self.reason,
            declared_at_us=self.declared_at_us,
        )


class Reservations:
    """Folds declarations and removals; `clusters` and `names` are those of now, and `free_from` is
    when each node of a cluster is expected to be free."""

    def __init__(
        self,
        state: State,
        clusters: Callable[[], Mapping[str, Cluster]],
        names: Callable[[], Mapping[str, NodeNames]],
        free_from: Callable[[str], Mapping[int, float]],
    ) -> None:
        self._clusters, self._names, self._free_from = clusters, names, free_from
        self._rows = state.table(_TABLE, NodeReservation)
        # Those that were not removed, by cluster and name.
        self._known: dict[str, dict[str, NodeReservation]] = {}
        self._windows: dict[str, Windows] = {}
        # Saved since the last round ended; after a restart all.
        self._saved_now: set[str] = set()
        self._now_s = 0.0
        # Whether the last round forgot some, which jobs may name.
        self.has_forgotten = False
        for key, row in self._rows.items():
            self._saved_now.add(key)
            self._note(row)

    def declare(self, event: Event, message: ReservationDeclared) -> None:
        """Take a declaration in, and choose its nodes where it names none. Raises RejectedError for
        what no cluster has, AlreadyAppliedError for a copy, and OvertakenError."""
        cluster = self._declared(message.cluster)
        key = _key(message.cluster, message.name)
        before = self._rows.get(key)
        if before is not None:
            require_newer(event, before.declared)
        self._require_room(message)
        asked = NodeReservation(
            declared=stamp_of(event),
            by=event.source[:_MOST_TEXT],
            cluster=message.cluster,
            name=message.name,
            nodes=tuple(message.nodes),
            node_count=message.node_count,
            partition=message.partition,
            from_us=message.from_us,
            until_us=message.until_us,
            users=tuple(message.users),
            accounts=tuple(message.accounts),
            reason=message.reason,
            declared_at_us=message.declared_at_us,
        )
        within = self._offered(asked, cluster)
        if message.nodes:
            self._require_nodes(cluster, message)
        elif message.node_count:
            kept = 0 if before is None or before.is_removed else self.nodes_of(before)
            asked = replace(asked, nodes=self._chosen(asked, cluster, within, kept))
        self._save(key, asked)

    def remove(self, event: Event, message: ReservationRemoved) -> None:
        """Remove a reservation. Raises RejectedError where there is none, AlreadyAppliedError for a
        copy, and OvertakenError."""
        self._declared(message.cluster)
        key = _key(message.cluster, message.name)
        before = self._rows.get(key)
        if before is None:
            problem = f"{message.name[:80]!r} is no reservation of {message.cluster}"
            raise RejectedError("name", problem)
        require_newer(event, before.declared)
        self._save(key, replace(before, declared=stamp_of(event), is_removed=True))

    def set_back(self, ended_us: int) -> None:
        """Set back what was declared from a clock ahead of the end of this round."""
        for key in sorted(self._saved_now):
            row = self._rows.get(key)
            if row is not None and is_ahead(row.declared[0], ended_us):
                self._save(key, replace(row, declared=set_back(row.declared, ended_us)))
        self._saved_now.clear()

    def begin_round(self, now_s: float) -> set[str]:
        """Let time pass: what ended keeps no nodes any more, and is forgotten after some days.
        Return the clusters on which a reservation had a turn."""
        ended = {row.cluster for row in self._live() if self._now_s < row.until_s <= now_s}
        self._now_s = now_s
        for cluster in ended:
            self._windows.pop(cluster, None)
        turned: set[str] = set()
        self.has_forgotten = False
        for key, row in list(self._rows.items()):
            past = sum(turn_s <= now_s for turn_s in row.turns_s)
            if past != row.turned:
                self._rows.put(key, row := replace(row, turned=past))
                self._note(row)
                turned.add(row.cluster)
            newest_s = max(row.declared[0] / 1e6, 0.0 if row.is_removed else row.until_s)
            if newest_s + _REMEMBERED_S < now_s:
                self._forget(key, row)
                self.has_forgotten = True
        return turned

    def forget_cluster(self, cluster: str) -> None:
        """Forget what was declared of a cluster that was undeclared."""
        for key, row in list(self._rows.items()):
            if row.cluster == cluster:
                self._forget(key, row)

    def touch(self, cluster: str) -> None:
        """Note that a cluster is declared otherwise than before."""
        self._windows.pop(cluster, None)

    def find(self, cluster: str, name: str) -> NodeReservation | None:
        """Return a reservation that was not removed; None where there is none."""
        return self._known.get(cluster, {}).get(name)

    def listed(self) -> list[NodeReservation]:
        """Return all that were not removed, by cluster, then by when they begin."""
        return sorted(self._live(), key=lambda row: (row.cluster, row.from_us, row.name))

    def windows(self, cluster: str) -> Windows:
        """Return from when until when which nodes of a cluster are kept for others."""
        if cluster not in self._known or cluster not in self._clusters():
            return NO_WINDOWS
        found = self._windows.get(cluster)
        if found is None:
            there = self._known[cluster].values()
            found = self._windows[cluster] = Windows(
                Window(each.name, each.from_s, each.until_s, self.nodes_of(each))
                for each in there
                if each.until_s > self._now_s
            )
        return found

    def nodes_of(self, reservation: NodeReservation) -> NodeBits:
        """Return the nodes that a reservation has as its cluster is declared now."""
        cluster = self._clusters()[reservation.cluster]
        if reservation.nodes:
            nodes, _ = nodes_named(cluster, reservation.nodes)
            return nodes
        return self._offered(reservation, cluster)

    def due_s(self) -> Iterator[float]:
        """Yield when reservations have their next turns."""
        for row in self._live():
            yield from (time_s for time_s in row.turns_s if time_s > self._now_s)

    def _live(self) -> Iterator[NodeReservation]:
        return (row for named in self._known.values() for row in named.values())

    def _declared(self, cluster: str) -> Cluster:
        found = self._clusters().get(cluster)
        if found is None:
            raise RejectedError("cluster", f"{cluster[:80]!r} is not declared")
        return found

    def _offered(self, asked: NodeReservation, cluster: Cluster) -> NodeBits:
        """Return the nodes of its partition, or of its cluster; none where the cluster has no such
        partition any more."""
        if not asked.partition:
            return all_nodes(cluster)
        if asked.partition not in {each.name for each in cluster.partitions}:
            return 0
        return nodes_of_partition(cluster, asked.partition)

    def _require_room(self, message: ReservationDeclared) -> None:
        cluster = self._clusters()[message.cluster]
        known = self._known.get(message.cluster, {}).values()
        live = [each for each in known if not each.is_over]
        if len(live) >= _MOST and message.name not in {each.name for each in live}:
            problem = f"{message.cluster} has {_MOST} reservations: remove one first"
            raise RejectedError("name", problem)
        partitions = [each.name for each in cluster.partitions]
        if message.partition and message.partition not in partitions:
            named = ", ".join(partitions[:_MOST_NAMED]) or "none"
            problem = f"{message.partition[:80]!r} is no partition of {cluster.name}: known are"
            raise RejectedError("partition", f"{problem} {named}")

    def _require_nodes(self, cluster: Cluster, message: ReservationDeclared) -> None:
        """Raise RejectedError for nodes that nobody declared."""
        names = self._names()[cluster.name]
        beyond = [index for index in names.indices(message.nodes) if index >= cluster.nodes]
        if beyond:
            problem = f"{names.name(beyond[0])[:80]!r} is not a node of {cluster.name}"
            raise RejectedError("nodes", f"{problem}, which has {cluster.nodes}")

    def _chosen(
        self, asked: NodeReservation, cluster: Cluster, within: NodeBits, kept: NodeBits
    ) -> tuple[str, ...]:
        """Return as many nodes as are asked for, as host lists: those that the reservation had,
        then those that are expected to be free first, then by index; none that another reservation
        has at that time. Raises RejectedError where there are too few."""
        for each in self._known.get(asked.cluster, {}).values():
            overlaps = each.from_us < asked.until_us and asked.from_us < each.until_us
            if overlaps and each.name != asked.name:
                within &= ~self.nodes_of(each)
        free_from = self._free_from(asked.cluster)
        there = [
            (not (kept >> node) & 1, free_from.get(node, -inf), node)
            for node in range(cluster.nodes)
            if (within >> node) & 1 and free_from.get(node, -inf) < inf
        ]
        if len(there) < asked.node_count:
            problem = f"{len(there)} nodes are there that no other reservation has then"
            raise RejectedError("node_count", f"must be at most {len(there)}: {problem}")
        there.sort()
        names = self._names()[asked.cluster]
        chosen = sorted(node for _, _, node in there[: asked.node_count])
        return tuple(fold(names.name(node) for node in chosen))

    def _drop_oldest(self, cluster: str) -> None:
        """Forget what was declared first of what is over, where a cluster has too many rows."""
        rows = [(row.declared, key) for key, row in self._rows.items() if row.cluster == cluster]
        if len(rows) >= _MOST_ROWS:
            over = [(declared, key) for declared, key in rows if self._rows.rows[key].is_over]
            for _, key in sorted(over)[: len(rows) - _MOST_ROWS + 1]:
                self._forget(key, self._rows.rows[key])

    def _save(self, key: str, row: NodeReservation) -> None:
        if key not in self._rows.rows:
            self._drop_oldest(row.cluster)
        self._rows.put(key, row)
        self._saved_now.add(key)
        self._note(row)

    def _note(self, row: NodeReservation) -> None:
        """Note a row among those that are known, or that it is removed."""
        named = self._known.setdefault(row.cluster, {})
        if row.is_removed:
            named.pop(row.name, None)
        else:
            named[row.name] = row
        self._windows.pop(row.cluster, None)

    def _forget(self, key: str, row: NodeReservation) -> None:
        self._rows.drop(key)
        self._note(replace(row, is_removed=True))
        if not self._known[row.cluster]:
            del self._known[row.cluster]


def _key(cluster: str, name: str) -> str:
    """Return the key of a row. With the length, names that hold the separator differ too."""
    return f"{len(cluster)}{_SEPARATOR}{cluster}{_SEPARATOR}{name}"
