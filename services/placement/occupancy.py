"""Which nodes of a cluster are held, by how many jobs."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


class Occupancy:
    """Holders of each node, by index. A resource manager may hold a node that we gave away: it is
    free again when all its holders have left."""

    def __init__(self) -> None:
        self._declared = 0
        self._holders: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._factors: NDArray[np.float64] = np.ones(0)

    @property
    def nodes(self) -> int:
        """How many nodes the cluster has."""
        return self._declared

    @property
    def free(self) -> int:
        """How many of them nobody holds."""
        return int(np.count_nonzero(self._holders[: self._declared] == 0))

    def resize(self, nodes: int) -> None:
        """The cluster was declared anew; who holds nodes that are gone keeps them to its end."""
        self._declared = nodes
        self._reach(nodes)

    def prefer(self, factors: Mapping[int, float]) -> None:
        """What nodes draw against the mean node: those that draw less are given away first."""
        self._factors[:] = 1.0
        self._reach(max(factors, default=-1) + 1)
        self._factors[list(factors)] = list(factors.values())

    def best_free(self, count: int) -> tuple[int, ...]:
        """The `count` free nodes that draw least, ties by index, ascending by index; fewer when
        there are not as many."""
        free = np.flatnonzero(self._holders[: self._declared] == 0)
        best = free[self._factors[free].argsort(kind="stable")[:count]]
        return tuple(np.sort(best).tolist())

    def most_holders(self, nodes: Sequence[int]) -> int:
        """The largest number of jobs that hold one of these nodes."""
        return int(self._holders[list(nodes)].max(initial=0))

    def hold(self, nodes: Sequence[int]) -> None:
        """One more job holds these nodes."""
        self._reach(max(nodes, default=-1) + 1)
        self._holders[list(nodes)] += 1

    def release(self, nodes: Sequence[int]) -> None:
        """A job that held these nodes has left."""
        self._holders[list(nodes)] -= 1

    def _reach(self, nodes: int) -> None:
        if nodes > len(self._holders):
            added = nodes - len(self._holders)
            self._holders = np.pad(self._holders, (0, added))
            self._factors = np.pad(self._factors, (0, added), constant_values=1.0)
