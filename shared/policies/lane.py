"""One cluster's entries during a scheduling pass, walked in order."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from shared.policies.load import Load, NodeSet, Reservation, Standing
from shared.policies.pairing import Pairing
from shared.policies.queue import Block, Entry

Mask = NDArray[np.bool_]


class Lane:
    """Starts, joins and reserves; knows which entry is the next to do so.

    An entry starts when its nodes are free and it delays no reservation: it ends by the shadow
    time, or takes extra nodes only, which it uses up. Joining a job takes no free node, but the
    nodes are released when both have ended: where the reservation counts on them, which means
    that they are due by the shadow time, a guest that ends later takes them from the extra ones.
    """

    def __init__(self, now_s: float, load: Load, block: Block, pairing: Pairing) -> None:
        self.total, self.pairing, self._now_s = load.nodes, pairing, now_s
        self._block = block
        self._order = np.ascontiguousarray(block["order"])
        self._arrival = np.ascontiguousarray(block["arrival"])
        self._nodes = np.ascontiguousarray(block["nodes"])
        self._app = np.ascontiguousarray(block["app"])
        self._ends_s = now_s + block["limit_s"]
        self._sharing = np.flatnonzero(block["shareable"])
        self._open = self._nodes <= self.total
        self._node_sets: list[NodeSet] = []
        self._hosts: dict[int, list[NodeSet]] = defaultdict(list)
        self._trail = [Standing(-1, 0, load.free)]
        for node_set in load.node_sets:
            # An overdue job is expected to end at any moment.
            node_set.release_s = max(node_set.release_s, now_s)
            self._hold(node_set)
        self._next = self._advance(0)

    @property
    def standing(self) -> Standing:
        """The cluster as it is now."""
        return self._trail[-1]

    @property
    def next_order(self) -> int | None:
        """Order of the next entry that will start, join or reserve; None when there is none."""
        return int(self._order[self._next]) if self._next < len(self._order) else None

    def next_entry(self) -> Entry:
        """The entry that `next_order` speaks of."""
        return self._entry_at(self._next)

    def end_s(self, entry: Entry) -> float:
        """When the entry ends at the latest if it starts now."""
        return self._now_s + entry.limit_s

    def fits(self, entry: Entry) -> bool:
        """True when free nodes suffice and no reservation is delayed."""
        now = self.standing
        spare = now.in_time(self.end_s(entry)) or entry.nodes <= now.extra
        return entry.nodes <= now.free and spare

    def host_for(self, entry: Entry) -> NodeSet | None:
        """The lone job to join: least summed slowdown, ties by job id; None if none may be."""
        if not entry.shareable:
            return None
        in_time = self.standing.in_time(self.end_s(entry))
        options = [
            (self.pairing.summed_slowdowns(host.app)[entry.app], host.host, host)
            for host in self.hosts_at(self.standing.tick, entry.nodes)
            if in_time or not self.standing.counts_on(host)
        ]
        best = min(options, key=lambda option: option[:2], default=None)
        return best[2] if best and np.isfinite(best[0]) else None

    def start(self, entry: Entry, job_id: str) -> None:
        """Give the next entry free nodes."""
        now, end_s = self.standing, self.end_s(entry)
        used = 0 if now.in_time(end_s) else entry.nodes
        self._note(entry, free=now.free - entry.nodes, extra=now.extra - used)
        host = job_id if entry.shareable else ""
        self._hold(NodeSet(entry.nodes, end_s, host, entry.app, since=self.standing.tick))
        self._open[self._next] = False
        self._next = self._advance(self._next + 1)

    def join(self, entry: Entry, host: NodeSet) -> None:
        """Put the next entry beside a job that runs alone."""
        now, end_s = self.standing, self.end_s(entry)
        promised = now.reservation is not None and host.release_s <= now.reservation.start_s
        used = entry.nodes if promised and not now.in_time(end_s) else 0
        self._note(entry, free=now.free, extra=now.extra - used)
        host.release_s, host.until = max(host.release_s, end_s), self.standing.tick
        self._open[self._next] = False
        self._next = self._advance(self._next + 1)

    def reserve(self, entry: Entry) -> None:
        """Promise nodes to the next entry: the first on this cluster that cannot start."""
        shadow_s, available = self._shadow(entry.nodes)
        promise = Reservation(entry.arrival, entry.nodes, shadow_s)
        now = self.standing
        self._note(entry, free=now.free, extra=available - entry.nodes, reservation=promise)
        self._next = self._advance(self._next + 1)

    def drop(self, arrival: int) -> None:
        """Take out the entry of a job that started elsewhere, and what it was promised."""
        found = np.flatnonzero(self._arrival == arrival)
        if not found.size:
            return
        index = int(found[0])
        self._open[index] = False
        promise = self.standing.reservation
        if promise is not None and promise.arrival == arrival:
            self._next = self._cancel(index)
        elif self._next == index:
            self._next = self._advance(index)

    def standing_before(self, order: int) -> Standing:
        """The cluster when the turn of an entry came."""
        return self._trail[bisect_left(self._trail, order, key=lambda s: s.order) - 1]

    def hosts_at(self, tick: int, nodes: int) -> Iterator[NodeSet]:
        """The jobs that ran alone on so many nodes at a tick and accept a co-runner."""
        return (host for host in self._hosts.get(nodes, ()) if host.since <= tick < host.until)

    def _entry_at(self, index: int) -> Entry:
        return Entry(*self._block[index].item())

    def _hold(self, node_set: NodeSet) -> None:
        self._node_sets.append(node_set)
        if node_set.host:
            self._hosts[node_set.nodes].append(node_set)

    def _note(
        self, entry: Entry, *, free: int, extra: int, reservation: Reservation | None = None
    ) -> None:
        now = self.standing
        promise = reservation or now.reservation
        self._trail.append(Standing(entry.order, now.tick + 1, free, extra, promise))

    def _shadow(self, needed: int) -> tuple[float, int]:
        """When `needed` nodes will be free if limits hold, and how many are free then."""
        available, shadow_s = self.standing.free, self._now_s
        for node_set in sorted(self._node_sets, key=lambda s: s.release_s):
            if available >= needed and node_set.release_s > shadow_s:
                break
            available, shadow_s = available + node_set.nodes, node_set.release_s
        return shadow_s, available

    def _cancel(self, index: int) -> int:
        """Forget the promise to an entry that is gone: those behind it get their turn again."""
        now, order = self.standing, int(self._order[index])
        kept = bisect_left(self._trail, order, key=lambda s: s.order)
        del self._trail[kept:]
        self._trail.append(Standing(order, now.tick + 1, now.free))
        return self._advance(index)

    def _advance(self, index: int) -> int:
        """The next entry, from `index` on, that will start, join or reserve; else their number."""
        acts = self._acts(index)
        first = int(acts.argmax()) if acts.size else 0
        return index + first if acts.size and acts[first] else len(self._order)

    def _acts(self, index: int) -> Mask:
        """Which entries from `index` on could act if their turn came now."""
        now, present = self.standing, self._open[index:]
        if now.reservation is None:
            return present
        in_time = self._ends_s[index:] <= now.reservation.start_s
        nodes = self._nodes[index:]
        acts = (nodes <= now.free) & (in_time | (nodes <= now.extra))
        joins = self._sharing[np.searchsorted(self._sharing, index) :]
        acts[joins - index] |= self._may_join(joins, in_time[joins - index])
        return np.asarray(acts & present)

    def _may_join(self, joins: NDArray[np.int64], in_time: Mask) -> Mask:
        """Which of these shareable entries have a job to join, exactly as `host_for` says."""
        shape = (len(self.pairing.gbps), self.total + 1)
        always, if_in_time = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        kinds = {
            (host.app, host.nodes, self.standing.counts_on(host))
            for hosts in self._hosts.values()
            for host in hosts
            if host.until == np.inf
        }
        for app, nodes, counted_on in kinds:
            accepted = np.isfinite(self.pairing.summed_slowdowns(app))
            (if_in_time if counted_on else always)[:, nodes] |= accepted
        apps, wanted = self._app[joins], np.minimum(self._nodes[joins], self.total)
        return np.asarray(always[apps, wanted] | (if_in_time[apps, wanted] & in_time))
