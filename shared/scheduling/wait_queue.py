"""The one priority queue of a region: (job, cluster) entries in order, a queue a cluster.

Entries are in the order (tier, arrival of the job, rank of the cluster for the job). Arrival
numbers are unique, so no two entries are equal in it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from math import inf
from sys import maxsize
from typing import Final, NamedTuple

_ARRIVAL_BITS: Final = 40
_RANK_BITS: Final = 8
# Entries of a block before it is cut in two: short enough to shift, long enough to skip.
_BLOCK: Final = 128
# The part of the entries that may leave before bounds of all of them are worked out anew.
_MANY_LEFT: Final = 16


class OtherMode(NamedTuple):
    """Another P-state at which an entry may start: its limit, and its draw beyond idle."""

    limit_s: float
    draw_mw: int


class LaterTasks(NamedTuple):
    """Tasks of an array behind its next one: the first has this arrival number, which is in the
    `run`th of the `runs`; behind it are the rest of that run and the later ones. Each run is the
    arrival number of its first task, and that behind its last."""

    arrival: int
    runs: tuple[tuple[int, int], ...]
    run: int = 0

    def behind(self) -> "LaterTasks | None":
        """Return the tasks behind the first of these; None where there is none."""
        arrival, run = self.arrival + 1, self.run
        if arrival == self.runs[run][1]:
            run += 1
            if run == len(self.runs):
                return None
            arrival = self.runs[run][0]
        return LaterTasks(arrival, self.runs, run)


class Entry(NamedTuple):
    """A job that may run on one cluster for at most `limit_s`; of an array its next task.

    `kind` is the caller's number of jobs that are alike, and `in_parts` means that it matters:
    counting nodes is not enough. `draw_mw` is what the job would draw there beyond idle, and counts
    where there is a cap: where that refuses it, it may start in one of the `others`, which are
    tried in their order. Once the task of an array starts, the first of the `later` ones is in its
    place.
    """

    order: int
    arrival: int
    nodes: int
    limit_s: float
    in_parts: bool = False
    kind: int = -1
    draw_mw: int = 0
    others: tuple[OtherMode, ...] = ()
    later: LaterTasks | None = None

    def next_task(self) -> "Entry | None":
        """Return the entry of the next task of an array; None where there is none."""
        later = self.later
        if later is None:
            return None
        return self.of_arrival(later.arrival)._replace(later=later.behind())

    def of_arrival(self, arrival: int) -> "Entry":
        """Return the entry of the task of the same array that has this arrival number, alone."""
        order = self.order + ((arrival - self.arrival) << _RANK_BITS)
        return self._replace(order=order, arrival=arrival, later=None)

    def task(self, arrival: int) -> "Entry | None":
        """Return the entry of the task that has this arrival number, alone, where it is one of
        these; None where it is not."""
        if arrival == self.arrival:
            return self._replace(later=None)
        later = self.later
        if later is None or arrival < later.arrival:
            return None
        is_there = any(first <= arrival < behind for first, behind in later.runs[later.run :])
        return self.of_arrival(arrival) if is_there else None

    def tasks_before(self, order: int) -> int:
        """Return how many of its tasks, or jobs, are before an order."""
        if self.order >= order:
            return 0
        later = self.later
        if later is None:
            return 1
        # The first arrival number at which a task would not be before it.
        end = self.arrival + -((self.order - order) >> _RANK_BITS)
        runs = later.runs[later.run :]
        counts = [min(behind, end) - max(first, later.arrival) for first, behind in runs]
        return 1 + sum(count for count in counts if count > 0)

    def in_mode(self, mode: OtherMode) -> "Entry":
        """Return the entry as it starts in another mode."""
        return self._replace(limit_s=mode.limit_s, draw_mw=mode.draw_mw, others=())


def order_of(tier: int, arrival: int, rank: int) -> int:
    """Return the sort key (tier, arrival, rank) as one integer of 63 bits: rank below 256."""
    return (tier << (_ARRIVAL_BITS + _RANK_BITS)) | (arrival << _RANK_BITS) | rank


def tier_of(order: int) -> int:
    """Return the tier of a sort key."""
    return order >> (_ARRIVAL_BITS + _RANK_BITS)


# The least that entries of each kind ask for: nodes and limit.
LeastByKind = dict[int, tuple[int, float]]


def bound(least: LeastByKind, kind: int, nodes: int, limit_s: float) -> None:
    """Extend the bounds of a kind to what one more of it asks for."""
    known = least.get(kind)
    if known is None:
        least[kind] = nodes, limit_s
        return
    least_nodes, least_s = known
    if nodes < least_nodes or limit_s < least_s:
        least[kind] = min(nodes, least_nodes), min(limit_s, least_s)


def lower(front: list[tuple[float, int]], point: tuple[float, int]) -> None:
    """Add a point to a Pareto front, which ascends in the first and descends in the second."""
    place = end = bisect_left(front, point)
    _, draw_mw = point
    if place:
        _, before_mw = front[place - 1]
        if before_mw <= draw_mw:
            return
    for _, later_mw in front[place:]:
        if later_mw < draw_mw:
            break
        end += 1
    front[place:end] = [point]


class Block:
    """Adjacent entries of a queue; the `kinds` and `nodes` of all of them are columns beside them,
    since walks look at these of thousands. No entry asks for less than the `least_...`: a walk may
    skip them all.

    The bounds are not raised when an entry leaves, which costs nothing but skips.
    """

    __slots__ = (
        "_is_loose",
        "_least_by_kind",
        "_least_draws",
        "entries",
        "first_order",
        "kinds",
        "last_order",
        "least_limit_s",
        "least_nodes",
        "nodes",
    )

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.kinds: list[int] = []
        self.nodes: list[int] = []
        self.clear()

    def clear(self) -> None:
        """Forget the bounds: the last entry was taken out."""
        self.least_nodes, self.least_limit_s = maxsize, inf
        self._least_by_kind: LeastByKind | None = None
        self._least_draws: list[tuple[float, int]] | None = None
        self._is_loose = False  # these are of an entry that was taken out
        # No entry is before or behind these.
        self.first_order, self.last_order = maxsize, -1

    def bound(self) -> None:
        """Set the bounds to what the entries ask for."""
        self.first_order, self.last_order = self.entries[0].order, self.entries[-1].order
        self.least_nodes = min(self.nodes)
        self.least_limit_s = min([entry.limit_s for entry in self.entries])
        self._least_by_kind = self._least_draws = None

    def least_by_kind(self) -> LeastByKind:
        """Return the bounds of each kind of which there is an entry."""
        if self._least_by_kind is None:
            self._least_by_kind = {}
            for entry in self.entries:
                bound(self._least_by_kind, entry.kind, entry.nodes, entry.limit_s)
        return self._least_by_kind

    def least_draws(self) -> list[tuple[float, int]]:
        """Return limits, ascending, with draws: in no mode of an entry it draws less for a shorter
        time than in one of these (a Pareto front)."""
        if self._least_draws is None:
            self._least_draws, self._is_loose = [], False
            least_mw = maxsize
            for limit_s, draw_mw in self._modes():
                if draw_mw < least_mw:
                    least_mw = draw_mw
                    self._least_draws.append((limit_s, draw_mw))
        return self._least_draws

    def least_draws_now(self) -> list[tuple[float, int]] | None:
        """Return the least draws anew, where they are of an entry that has left; None where they
        are not."""
        if not self._is_loose:
            return None
        self._least_draws = None
        return self.least_draws()

    def _modes(self) -> list[tuple[float, int]]:
        """Return limits, ascending, with draws, of each entry in each of its modes."""
        modes = [(entry.limit_s, entry.draw_mw) for entry in self.entries]
        modes += [mode for entry in self.entries if entry.others for mode in entry.others]
        modes.sort()
        return modes

    def forget_kinds(self) -> None:
        """Forget the bounds by kind: kinds of entries that have left mean nothing any more."""
        self._least_by_kind = None

    def remove(self, place: int) -> Entry:
        """Take out the entry on a place, and return it."""
        entry = self.entries.pop(place)
        del self.kinds[place], self.nodes[place]
        least = self._least_draws
        if least is not None and not self._is_loose:
            self._is_loose = (entry.limit_s, entry.draw_mw) in least
            for mode in entry.others:
                self._is_loose |= mode in least
        return entry

    def insert(self, entry: Entry) -> None:
        """Put an entry into its place."""
        place = len(self.entries)
        if place and entry.order < self.entries[-1].order:
            place = self.place_of(entry.order)
        self.entries.insert(place, entry)
        self.kinds.insert(place, entry.kind)
        self.nodes.insert(place, entry.nodes)
        self.first_order = min(self.first_order, entry.order)
        self.last_order = max(self.last_order, entry.order)
        if entry.nodes < self.least_nodes:
            self.least_nodes = entry.nodes
        if entry.limit_s < self.least_limit_s:
            self.least_limit_s = entry.limit_s
        if self._least_by_kind is not None:
            bound(self._least_by_kind, entry.kind, entry.nodes, entry.limit_s)
        if self._least_draws is not None:
            lower(self._least_draws, (entry.limit_s, entry.draw_mw))
            for mode in entry.others:
                lower(self._least_draws, (mode.limit_s, mode.draw_mw))

    def copy(self) -> "Block":
        """Return a copy, which is changed by itself."""
        other = Block()
        other.entries = self.entries.copy()
        other.kinds, other.nodes = self.kinds.copy(), self.nodes.copy()
        other.least_nodes, other.least_limit_s = self.least_nodes, self.least_limit_s
        other.first_order, other.last_order = self.first_order, self.last_order
        return other

    def place_of(self, order: int) -> int:
        """Return how many entries are before `order`. Compiled, this is twice as fast as `bisect`,
        which compares tuples."""
        entries = self.entries
        low, high = 0, len(entries)
        if not high or entries[0].order >= order:
            return 0
        while low < high:
            middle = (low + high) >> 1
            if entries[middle].order < order:
                low = middle + 1
            else:
                high = middle
        return low

    def entry_of(self, order: int) -> Entry | None:
        """Return the entry of this order; None where there is none."""
        place = self.place_of(order)
        if place == len(self.entries) or self.entries[place].order != order:
            return None
        return self.entries[place]

    def halved(self) -> "Block":
        """Split off the later half, and return it."""
        middle = len(self.entries) // 2
        later = Block()
        later.entries = self.entries[middle:]
        later.kinds, later.nodes = self.kinds[middle:], self.nodes[middle:]
        later.bound()
        del self.entries[middle:], self.kinds[middle:], self.nodes[middle:]
        self.bound()
        return later


class WaitQueue:
    """Waiting entries of one cluster, kept in order while entries are added and removed.

    There is always a block; those behind the first are never empty.
    """

    __slots__ = ("_firsts", "_least_by_kind", "_left", "_orders", "blocks", "in_parts")

    def __init__(self) -> None:
        self.blocks = [Block()]
        self._firsts = [0]  # the lowest order that belongs into each block
        self._orders: dict[int, int] = {}  # by arrival
        self.in_parts = 0  # entries for which counting nodes is not enough
        self._least_by_kind: LeastByKind | None = None
        self._left = 0  # entries, since these bounds were worked out

    def least_by_kind(self) -> LeastByKind:
        """Return the bounds of each kind of all entries: worked out anew when many have left."""
        if self._least_by_kind is None or self._left * _MANY_LEFT > len(self._orders):
            self._least_by_kind, self._left = {}, 0
            for block in self.blocks:
                for entry in block.entries:
                    bound(self._least_by_kind, entry.kind, entry.nodes, entry.limit_s)
        return self._least_by_kind

    def copy(self) -> "WaitQueue":
        """Return a copy, which is changed by itself."""
        other = WaitQueue()
        other.blocks = [block.copy() for block in self.blocks]
        other._firsts, other._orders = self._firsts.copy(), self._orders.copy()
        other.in_parts = self.in_parts
        return other

    def __len__(self) -> int:
        return len(self._orders)

    def __iter__(self) -> Iterator[Entry]:
        return (entry for block in self.blocks for entry in block.entries)

    def order_of(self, arrival: int) -> int | None:
        """Return the order of a job's entry, None where it has none."""
        return self._orders.get(arrival)

    def __contains__(self, arrival: int) -> bool:
        return arrival in self._orders

    @property
    def last_order(self) -> int:
        """Return the order of the last entry; below 0 where there is none."""
        entries = self.blocks[-1].entries
        return entries[-1].order if entries else -1

    def position(self, order: int) -> int:
        """Return how many entries are before an order."""
        number = self.block_of(order)
        within = self.blocks[number].place_of(order)
        return within + sum(len(block.entries) for block in self.blocks[:number])

    def first(self, most_nodes: int, order: int = 0) -> Entry | None:
        """Return the first entry, from an order on, that asks for so many nodes at most."""
        for block in self.blocks_from(order) if order else self.blocks:
            for entry in block.entries:
                if entry.nodes <= most_nodes and entry.order >= order:
                    return entry
        return None

    def blocks_from(self, order: int) -> list[Block]:
        """Return the blocks that an entry of this order, or a later one, belongs into, as they are
        now."""
        return self.blocks[self.block_of(order) :]

    def block_of(self, order: int) -> int:
        """Return the number of the block that an entry of this order belongs into."""
        return bisect_right(self._firsts, order) - 1 if len(self._firsts) > 1 else 0

    def add(self, entry: Entry) -> None:
        """Put an entry into its place."""
        order = entry.order
        self._orders[entry.arrival] = order
        number = self.block_of(order)
        block = self.blocks[number]
        block.insert(entry)
        if entry.in_parts:
            self.in_parts += 1
        if self._least_by_kind is not None:
            bound(self._least_by_kind, entry.kind, entry.nodes, entry.limit_s)
        if len(block.entries) > _BLOCK:
            self._halve(number)

    def forget_kinds(self) -> None:
        """Forget the bounds by kind: kinds of entries that have left mean nothing any more."""
        self._least_by_kind = None
        for block in self.blocks:
            block.forget_kinds()

    def _halve(self, number: int) -> None:
        later = self.blocks[number].halved()
        self.blocks.insert(number + 1, later)
        self._firsts.insert(number + 1, later.entries[0].order)

    def start(self, arrival: int) -> None:
        """Take the entry of a job that starts out, if it has one; where it is a task of an array,
        the next task is in its place."""
        order = self._orders.get(arrival)
        if order is None:
            return
        number = self.block_of(order)
        block = self.blocks[number]
        place = block.place_of(order)
        entry = block.entries[place]
        task = entry.next_task()
        if task is None:
            self._remove(arrival, number, place)
        elif self._is_behind(task.order, number, place):
            self._remove(arrival, number, place)
            self.add(task)
        else:
            # It asks for the same: no bound but this changes, and who walks through the block finds
            # it where it is.
            block.entries[place] = task
            block.last_order = max(block.last_order, task.order)
            del self._orders[arrival]
            self._orders[task.arrival] = task.order

    def _is_behind(self, order: int, number: int, place: int) -> bool:
        """Return whether an order is behind the entry that follows on a place of a block."""
        entries = self.blocks[number].entries
        if place + 1 < len(entries):
            return entries[place + 1].order < order
        return number + 1 < len(self.blocks) and self._firsts[number + 1] <= order

    def remove(self, arrival: int) -> None:
        """Take a job's entry out, if it has one."""
        order = self._orders.get(arrival)
        if order is None:
            return
        number = self.block_of(order)
        self._remove(arrival, number, self.blocks[number].place_of(order))

    def _remove(self, arrival: int, number: int, place: int) -> None:
        del self._orders[arrival]
        block = self.blocks[number]
        removed = block.remove(place)
        self._left += 1
        if removed.in_parts:
            self.in_parts -= 1
        if not block.entries:
            self._close(number)

    def _close(self, number: int) -> None:
        if number:
            del self.blocks[number], self._firsts[number]
        else:
            self.blocks[0].clear()


class WaitQueues:
    """Queues by cluster, kept in order between rounds so that a round costs what changed."""

    def __init__(self) -> None:
        self._queues: dict[str, WaitQueue] = {}

    def queue(self, cluster: str) -> WaitQueue:
        """Return the cluster's queue."""
        return self._queues.setdefault(cluster, WaitQueue())

    def add(self, cluster: str, entries: Iterable[Entry]) -> None:
        """Put entries into the cluster's queue."""
        queue = self.queue(cluster)
        for entry in entries:
            queue.add(entry)

    def remove(self, arrivals: Iterable[int]) -> None:
        """Take all entries of these jobs out."""
        for arrival in arrivals:
            for queue in self._queues.values():
                queue.remove(arrival)

    def forget_kinds(self) -> None:
        """Forget the bounds by kind: a cluster was declared anew."""
        for queue in self._queues.values():
            queue.forget_kinds()
