"""The one priority queue of a region: (job, cluster) entries as columns, sorted, a block a cluster.

Entries stand in the order (tier, arrival of the job, rank of the cluster for the job). Arrival
numbers are unique, so no two entries are equal in it.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Block = NDArray[np.void]

_COLUMNS: Final = np.dtype(
    [
        ("order", np.int64),
        ("arrival", np.int64),
        ("nodes", np.int64),
        ("limit_s", np.float64),
        ("shareable", np.bool_),
        ("app", np.int64),
    ]
)
_ARRIVAL_BITS: Final = 40
_RANK_BITS: Final = 8


class Entry(NamedTuple):
    """One row: a job that may run on one cluster for at most `limit_s`.

    `app` is the caller's number of the application, an index into Pairing.gbps.
    """

    order: int
    arrival: int
    nodes: int
    limit_s: float
    shareable: bool
    app: int


def order_of(tier: int, arrival: int, rank: int) -> int:
    """The sort key (tier, arrival, rank) as one integer of 63 bits: rank below 256."""
    return (tier << (_ARRIVAL_BITS + _RANK_BITS)) | (arrival << _RANK_BITS) | rank


class Queue:
    """What waits, kept sorted between rounds so that a round costs what changed."""

    def __init__(self) -> None:
        self._blocks: dict[str, Block] = {}

    def block(self, cluster: str) -> Block:
        """The cluster's entries in order, columns as in Entry."""
        return self._blocks.get(cluster, np.empty(0, dtype=_COLUMNS))

    def add(self, cluster: str, entries: Sequence[Entry]) -> None:
        """Put entries into the cluster's block."""
        block, added = self.block(cluster), np.array(entries, dtype=_COLUMNS)
        added.sort(order="order")
        self._blocks[cluster] = np.insert(block, block["order"].searchsorted(added["order"]), added)

    def remove(self, arrivals: Iterable[int]) -> None:
        """Take all entries of these jobs out."""
        gone = np.fromiter(arrivals, dtype=np.int64)
        if gone.size:
            for cluster, block in self._blocks.items():
                self._blocks[cluster] = block[~np.isin(block["arrival"], gone)]
