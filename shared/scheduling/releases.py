"""What running jobs hold of a cluster, in the order in which it is expected back."""

from bisect import bisect_left, insort

# Nodes that are expected back: (release_s, holder, nodes).
HeldNodes = tuple[float, int, int]


class Releases:
    """What is held; `in_order` is the soonest first."""

    __slots__ = ("_by_holder", "in_order")

    def __init__(self) -> None:
        self.in_order: list[HeldNodes] = []
        self._by_holder: dict[int, HeldNodes] = {}

    def hold(self, held: HeldNodes) -> None:
        """A job holds this until it lets go."""
        insort(self.in_order, held)
        self._by_holder[held[1]] = held

    def let_go(self, holder: int) -> HeldNodes:
        """What the job `holder` held, which is nobody's now."""
        held = self._by_holder.pop(holder)
        del self.in_order[bisect_left(self.in_order, held)]
        return held
