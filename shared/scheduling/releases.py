"""Nodes of a cluster that are allocated to running jobs, in the order in which they are expected
back."""

from bisect import bisect_left, insort
from math import inf

# Nodes that are expected back: (release_s, holder, nodes).
AllocatedNodes = tuple[float, int, int]


class Releases:
    """Allocated nodes; `in_order` is the soonest first."""

    __slots__ = ("_by_holder", "in_order")

    def __init__(self) -> None:
        self.in_order: list[AllocatedNodes] = []
        self._by_holder: dict[int, AllocatedNodes] = {}

    def hold(self, allocated: AllocatedNodes) -> None:
        """Allocate nodes to a job until it is released."""
        _, holder, _ = allocated
        insort(self.in_order, allocated)
        self._by_holder[holder] = allocated

    @property
    def first(self) -> AllocatedNodes | None:
        """Return what is expected back first; None where nothing is allocated."""
        return self.in_order[0] if self.in_order else None

    @property
    def last_s(self) -> float:
        """Return when all is expected back."""
        if not self.in_order:
            return -inf
        release_s, _, _ = self.in_order[-1]
        return release_s

    def release(self, holder: int) -> AllocatedNodes:
        """Free the nodes of the job `holder`, and return what it had."""
        allocated = self._by_holder.pop(holder)
        del self.in_order[bisect_left(self.in_order, allocated)]
        return allocated
