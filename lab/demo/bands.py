"""Where the jobs that share a node are drawn: beside each other, from the bottom up."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

_ROUNDING: Final = 1e-9


class Band(NamedTuple):
    """A part of a node's height, of 1, until a time."""

    ended_at_us: int
    low: float
    high: float


class Bands:
    """The parts that are taken, by node; jobs come in the order of their starts."""

    def __init__(self) -> None:
        self._taken: dict[int, list[Band]] = defaultdict(list)

    def place(
        self, nodes: Sequence[int], share: float, started_at_us: int, ended_at_us: int
    ) -> float:
        """Return the lowest part of this share that is free on all of the nodes: where it begins. 0
        where there is none, since others left holes between them."""
        there = [band for node in nodes for band in self._left(node, started_at_us)]
        starts = sorted({0.0, *(band.high for band in there)})
        low = next((low for low in starts if _is_free(low, share, there)), 0.0)
        for node in nodes:
            self._taken[node].append(Band(ended_at_us, low, low + share))
        return low

    def _left(self, node: int, now_us: int) -> list[Band]:
        self._taken[node] = [band for band in self._taken[node] if band.ended_at_us > now_us]
        return self._taken[node]


def _is_free(low: float, share: float, there: Iterable[Band]) -> bool:
    high = low + share
    if high > 1 + _ROUNDING:
        return False
    return all(band.high <= low + _ROUNDING or high <= band.low + _ROUNDING for band in there)
