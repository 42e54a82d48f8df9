"""One cluster under EASY backfill: what runs, what waits, and which entry acts next.

Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling"
(2001), section 2. Two resources are counted: nodes, and watts where the cluster has a cap.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import inf, isfinite
from sys import maxsize
from typing import Final, NamedTuple

from shared.policies.load import Load, NodeSet, Reservation, Standing
from shared.policies.pairing import Pairing
from shared.policies.queue import Block, Entry, Line

# The next order of a lane in which no entry will act before something changes.
DONE: Final = maxsize


_Standing = tuple[int, int, int, int, Reservation | None]


class Held(NamedTuple):
    """Nodes and watts that are expected back at `release_s`; sorts by it, ties by holder."""

    release_s: float
    holder: int
    nodes: int
    power_w: float


class Served(NamedTuple):
    """An entry that starts now, on free nodes or beside a host; before a blocked one or not."""

    entry: Entry
    host: NodeSet | None
    backfilled: bool


class Lane:
    """Starts, joins and reserves in the order of its line.

    An entry starts when its nodes are free and it delays no reservation: it ends by the shadow
    time, or takes extra nodes only, which it uses up. Joining a job takes no free node, but the
    nodes are released when both have ended: where the reservation counts on them, which means
    that they are due by the shadow time, a guest that ends later takes them from the extra ones.

    A pass is `begin`, then `serve` while `next_order` is not DONE. An entry that was refused stays
    refused until nodes come back: what it lacked only grows less. So a lane that lives on looks at
    new entries alone, and begins anew after a `release`.

    `backfills` False makes it first come, first served: nothing passes the reservation. `job_ids`,
    by arrival number, are needed where jobs share nodes: they name hosts.
    """

    def __init__(
        self,
        load: Load,
        line: Line,
        pairing: Pairing | None = None,
        job_ids: Mapping[int, str] | None = None,
        *,
        backfills: bool = True,
        cap_w: float = inf,
    ) -> None:
        self.total, self.free, self.headroom_w = load.nodes, load.free, cap_w
        self.line, self.pairing, self._job_ids = line, pairing, job_ids or {}
        self.reservation: Reservation | None = None
        self.extra, self._extra_w = 0, 0.0
        self.next_order = DONE
        self._next: Entry | None = None
        self._backfills, self._is_capped = backfills, cap_w < inf
        self._now_s, self._from, self._reserved_order = 0.0, 0, 0
        self._held: list[Held] = []
        self._held_by: dict[int, Held] = {}
        self._hosts: dict[int, list[NodeSet]] = defaultdict(list)
        # What became of the cluster entry by entry; plain tuples, as few are ever looked at.
        self._trail: list[_Standing] = []
        for number, node_set in enumerate(load.node_sets):
            node_set.holder = -1 - number  # no arrival number of a job that starts is below 0
            self._hold(Held(node_set.release_s, node_set.holder, node_set.nodes, 0.0))
            self._offer(node_set)

    # The life of a lane -------------------------------------------------------------------------

    def begin(self, now_s: float) -> None:
        """Start a pass."""
        self._now_s = now_s
        if self.reservation is not None and self.reservation.start_s < now_s:
            self._unsettle()  # a running job is overdue: it is expected to end at any moment
        self._trail = [(-1, 0, self.free, self.extra, self.reservation)]
        if self._from != DONE:
            self._seek(self._from)
            self._from = DONE

    def serve(self) -> Served | None:
        """Let the next entry join, start, or have nodes promised: what started, if any did."""
        entry = self._next
        assert entry is not None
        backfilled = self.reservation is not None
        host = self.host_for(entry) if entry.shareable else None
        if host is not None:
            self._join(entry, host)
        elif self.fits(entry):
            self._start(entry)
        else:
            self._reserve(entry)
            return None
        return Served(entry, host, backfilled)

    def add(self, entry: Entry) -> None:
        """An entry arrived."""
        self.line.add(entry)
        if self.reservation is not None and entry.order < self._reserved_order:
            self._unsettle()
        if entry.order < self._from:
            self._from = entry.order

    def drop(self, arrival: int) -> None:
        """Take out the entry of a job that started elsewhere, and what it was promised."""
        order = self.line.order_of(arrival)
        if order is None:
            return
        self.line.remove(arrival)
        if self.reservation is not None and self.reservation.arrival == arrival:
            self._cancel(order)
        elif self.next_order == order:
            self._seek(order)

    def release(self, holder: int) -> None:
        """What the job `holder` holds is free again."""
        held = self._held_by.pop(holder)
        del self._held[bisect_left(self._held, held)]
        self.free += held.nodes
        self.headroom_w += held.power_w
        self._unsettle()

    # What it answers ----------------------------------------------------------------------------

    @property
    def standing(self) -> Standing:
        """The cluster as it is now."""
        return Standing(*self._trail[-1])

    def standing_before(self, order: int) -> Standing:
        """The cluster when the turn of an entry came."""
        return Standing(*self._trail[bisect_left(self._trail, (order,)) - 1])

    def end_s(self, entry: Entry) -> float:
        """When the entry ends at the latest if it starts now."""
        return self._now_s + entry.limit_s

    def fits(self, entry: Entry) -> bool:
        """True when free nodes and watts suffice and no reservation is delayed."""
        if entry.nodes > self.free or entry.power_w > self.headroom_w:
            return False
        if self.reservation is None or self.end_s(entry) <= self.reservation.start_s:
            return True
        return entry.nodes <= self.extra and entry.power_w <= self._extra_w

    def host_for(self, entry: Entry) -> NodeSet | None:
        """The lone job to join: least summed slowdown, ties by job id; None if none may be."""
        hosts = self._hosts.get(entry.nodes)
        if not hosts or self.pairing is None or entry.power_w > self.headroom_w:
            return None
        now = self.standing
        in_time = now.in_time(self.end_s(entry))
        options = [
            (self.pairing.summed_slowdowns(host.app)[entry.app], host.host, host)
            for host in hosts
            if host.since <= now.tick < host.until and (in_time or not now.counts_on(host))
        ]
        best = min(options, key=lambda option: option[:2], default=None)
        return best[2] if best and isfinite(best[0]) else None

    def hosts_at(self, tick: int, nodes: int) -> Iterator[NodeSet]:
        """The jobs that ran alone on so many nodes at a tick and accept a co-runner."""
        return (host for host in self._hosts.get(nodes, ()) if host.since <= tick < host.until)

    # What it does -------------------------------------------------------------------------------

    def _start(self, entry: Entry) -> None:
        end_s = self._now_s + entry.limit_s
        if self.reservation is not None and end_s > self.reservation.start_s:
            self.extra -= entry.nodes
            self._extra_w -= entry.power_w
        self.free -= entry.nodes
        self.headroom_w -= entry.power_w
        self._leave(entry)
        self._hold(Held(end_s, entry.arrival, entry.nodes, entry.power_w))
        if entry.shareable:
            name, tick = self._job_ids[entry.arrival], self.standing.tick
            self._offer(NodeSet(entry.nodes, end_s, name, entry.app, tick, holder=entry.arrival))
            self._from = 0  # in the next pass those before it may join it
        self._seek(entry.order)

    def _join(self, entry: Entry, host: NodeSet) -> None:
        end_s, promise = self.end_s(entry), self.reservation
        if promise is not None and host.release_s <= promise.start_s < end_s:
            self.extra -= entry.nodes
        self.headroom_w -= entry.power_w
        self._leave(entry)
        held = self._held_by.pop(host.holder)
        del self._held[bisect_left(self._held, held)]
        host.release_s, host.until = max(host.release_s, end_s), self.standing.tick
        self._hold(Held(host.release_s, *held[1:3], held.power_w + entry.power_w))
        self._seek(entry.order)

    def _reserve(self, entry: Entry) -> None:
        """Promise nodes to the next entry: the first on this cluster that cannot start."""
        shadow_s, available, headroom_w = self._shadow(entry)
        self.reservation = Reservation(entry.arrival, entry.nodes, shadow_s)
        self._reserved_order = entry.order
        self.extra, self._extra_w = available - entry.nodes, headroom_w - entry.power_w
        self._note(entry.order)
        self._seek(entry.order + 1)

    def _shadow(self, entry: Entry) -> tuple[float, int, float]:
        """When there will be enough for an entry if limits hold, and all that is free then."""
        available, headroom_w, shadow_s = self.free, self.headroom_w, self._now_s
        needed, needed_w = entry.nodes, entry.power_w
        for release_s, _, nodes, power_w in self._held:
            if available >= needed and headroom_w >= needed_w and release_s > shadow_s:
                break
            available += nodes
            headroom_w += power_w
            if release_s > shadow_s:  # an overdue job is expected to end at any moment
                shadow_s = release_s
        return shadow_s, available, headroom_w

    def _cancel(self, order: int) -> None:
        """Forget the promise to an entry that is gone: those behind it get their turn again."""
        self.reservation, self.extra = None, 0
        tick = self.standing.tick + 1
        del self._trail[bisect_left(self._trail, (order,)) :]
        self._trail.append((order, tick, self.free, 0, None))
        self._seek(order)

    def _unsettle(self) -> None:
        """Nodes came back: every entry gets its turn again."""
        self.reservation, self.extra, self._from = None, 0, 0

    def _leave(self, entry: Entry) -> None:
        self.line.remove(entry.arrival)
        self._note(entry.order)

    def _note(self, order: int) -> None:
        tick = self._trail[-1][1] + 1
        self._trail.append((order, tick, self.free, self.extra, self.reservation))

    def _hold(self, held: Held) -> None:
        insort(self._held, held)
        self._held_by[held.holder] = held

    def _offer(self, node_set: NodeSet) -> None:
        if node_set.host:
            self._hosts[node_set.nodes].append(node_set)

    # The next entry -----------------------------------------------------------------------------

    def _seek(self, order: int) -> None:
        """Find the next entry, from an order on, that will start, join or reserve."""
        found = self._first() if self.reservation is None else self._first_to_pass(order)
        self._next, self.next_order = found, DONE if found is None else found.order

    def _first(self) -> Entry | None:
        """The first entry that the cluster is large enough for: without a reservation it acts."""
        for block in self.line.blocks:
            for entry in block.entries:
                if entry[2] <= self.total:
                    return entry
        return None

    def _first_to_pass(self, order: int) -> Entry | None:
        """The next entry, from an order on, that may start before the reserved one."""
        if not self._backfills or not (self.free or self._hosts):
            return None
        line = self.line
        number = line.block_of(order)
        entries = line.blocks[number].entries
        if len(line.blocks) == 1 and (not entries or entries[-1][0] < order):
            return None  # nothing waits behind the reserved entry
        for later in range(number, len(line.blocks)):
            block = line.blocks[later]
            begin = bisect_left(block.entries, (order,)) if later == number else 0
            found = self._first_of(block, begin)
            if found is not None:
                return found
        return None

    def _first_of(self, block: Block, begin: int) -> Entry | None:
        """The next entry of a block to pass the reserved one: the loop that time goes into."""
        assert self.reservation is not None
        free, extra, now_s = self.free, self.extra, self._now_s
        shadow_s = self.reservation.start_s
        joins = block.sharing and self._hosts
        in_time = now_s + block.least_limit_s <= shadow_s
        if not joins and (block.least_nodes > free or not (in_time or block.least_nodes <= extra)):
            return None
        for entry in block.entries[begin:] if begin else block.entries:
            nodes = entry[2]
            if (
                nodes <= free
                and (nodes <= extra or now_s + entry[3] <= shadow_s)
                and (not self._is_capped or self.fits(entry))
            ) or (joins and entry.shareable and self.host_for(entry) is not None):
                return entry
        return None
