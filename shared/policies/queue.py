"""The one priority queue of a region: (job, cluster) entries in order, a line a cluster.

Entries stand in the order (tier, arrival of the job, rank of the cluster for the job). Arrival
numbers are unique, so no two entries are equal in it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from sys import maxsize
from typing import Final, NamedTuple

_ARRIVAL_BITS: Final = 40
_RANK_BITS: Final = 8
# Entries of a block before it is cut in two: short enough to shift, long enough to skip.
_BLOCK: Final = 128


class Entry(NamedTuple):
    """A job that may run on one cluster for at most `limit_s`.

    `app` is the caller's number of the application, an index into Pairing.gbps; `power_w` is what
    the job would draw there beyond idle, and counts where the cluster has a cap.
    """

    order: int
    arrival: int
    nodes: int
    limit_s: float
    shareable: bool = False
    app: int = -1
    power_w: float = 0.0


def order_of(tier: int, arrival: int, rank: int) -> int:
    """The sort key (tier, arrival, rank) as one integer of 63 bits: rank below 256."""
    return (tier << (_ARRIVAL_BITS + _RANK_BITS)) | (arrival << _RANK_BITS) | rank


class Block:
    """Neighbours in a line. No entry asks for less than the `least_...`: a walk may skip them all.

    The bounds are not raised when an entry leaves, which costs nothing but skips.
    """

    __slots__ = ("entries", "least_limit_s", "least_nodes", "sharing")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.bound()

    def bound(self) -> None:
        """Set the bounds to what the entries ask for."""
        self.least_nodes = min((e.nodes for e in self.entries), default=maxsize)
        self.least_limit_s = min((e.limit_s for e in self.entries), default=inf)
        self.sharing = any(e.shareable for e in self.entries)

    def add(self, entry: Entry) -> None:
        """Put an entry into its place."""
        entries = self.entries
        if not entries or entry.order > entries[-1].order:
            entries.append(entry)
        else:
            entries.insert(bisect_left(entries, (entry.order,)), entry)
        self.least_nodes = min(self.least_nodes, entry.nodes)
        self.least_limit_s = min(self.least_limit_s, entry.limit_s)
        self.sharing = self.sharing or entry.shareable

    def halved(self) -> "Block":
        """The later half, which this block gives up."""
        middle = len(self.entries) // 2
        later = Block(self.entries[middle:])
        del self.entries[middle:]
        self.bound()
        return later


class Line:
    """What waits for one cluster, kept in order while entries come and go."""

    __slots__ = ("_blocks", "_firsts", "_orders")

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._blocks: list[Block] = []
        self._firsts: list[int] = []  # lowest order that belongs into each block
        self._orders: dict[int, int] = {}  # by arrival
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._orders)

    def __iter__(self) -> Iterator[Entry]:
        return (entry for block in self._blocks for entry in block.entries)

    def order_of(self, arrival: int) -> int | None:
        """The order of a job's entry, None where it has none."""
        return self._orders.get(arrival)

    def add(self, entry: Entry) -> None:
        """Put an entry into its place."""
        self._orders[entry.arrival] = entry.order
        if not self._blocks:
            self._blocks, self._firsts = [Block([entry])], [0]
            return
        index = bisect_right(self._firsts, entry.order) - 1
        block = self._blocks[index]
        block.add(entry)
        if len(block.entries) > _BLOCK:
            later = block.halved()
            self._blocks.insert(index + 1, later)
            self._firsts.insert(index + 1, later.entries[0].order)

    def remove(self, arrival: int) -> None:
        """Take a job's entry out, if it has one."""
        order = self._orders.pop(arrival, None)
        if order is None:
            return
        index = bisect_right(self._firsts, order) - 1
        entries = self._blocks[index].entries
        del entries[bisect_left(entries, (order,))]
        if not entries and index:
            del self._blocks[index], self._firsts[index]
        elif not entries:
            self._blocks[0].bound()

    def blocks_from(self, order: int) -> Iterator[tuple[Block, Sequence[Entry]]]:
        """Each block with its entries that do not stand before `order`."""
        if not self._blocks:
            return
        first = bisect_right(self._firsts, order) - 1
        block = self._blocks[first]
        yield block, block.entries[bisect_left(block.entries, (order,)) :]
        for block in self._blocks[first + 1 :]:
            yield block, block.entries


class Queue:
    """What waits, by cluster, kept in order between rounds so that a round costs what changed."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}

    def line(self, cluster: str) -> Line:
        """The cluster's entries."""
        return self._lines.setdefault(cluster, Line())

    def add(self, cluster: str, entries: Iterable[Entry]) -> None:
        """Put entries into the cluster's line."""
        line = self.line(cluster)
        for entry in entries:
            line.add(entry)

    def remove(self, arrivals: Iterable[int]) -> None:
        """Take all entries of these jobs out."""
        for arrival in arrivals:
            for line in self._lines.values():
                line.remove(arrival)
