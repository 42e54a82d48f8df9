"""The profile of a cluster: free nodes and watts from now on, as a step function of time."""

from bisect import bisect_left, bisect_right
from math import inf

from shared.scheduling.power import Cap


class Profile:
    """Steps of constant (nodes, milliwatts); the last one never ends."""

    def __init__(self, now_s: float, nodes: int, cap: Cap) -> None:
        self._times_s = [now_s, *(from_s for from_s, _ in cap.steps if from_s > now_s)]
        self._nodes = [nodes for _ in self._times_s]
        self._power_mw = [cap.limit_mw(time_s) for time_s in self._times_s]

    def forget_before(self, now_s: float) -> None:
        """Drop what lies behind."""
        passed = bisect_right(self._times_s, now_s) - 1
        del self._times_s[:passed], self._nodes[:passed], self._power_mw[:passed]
        self._times_s[0] = now_s

    def earliest(self, nodes: int, draw_mw: int, duration_s: float, from_s: float = -inf) -> float:
        """Return the first time, from one on, from which so much is free for so long; infinite if
        none is."""
        times_s, start_s, last = self._times_s, inf, len(self._times_s) - 1
        for step, free in enumerate(self._nodes):
            if free < nodes or self._power_mw[step] < draw_mw:
                start_s = inf
                continue
            if start_s == inf:
                start_s = max(times_s[step], from_s)
            if step == last or start_s + duration_s <= times_s[step + 1]:
                return start_s
        return inf

    def free_at(self, time_s: float) -> int:
        """Return how many nodes are free at a time, now or later."""
        return self._nodes[bisect_right(self._times_s, time_s) - 1]

    def take(self, start_s: float, end_s: float, nodes: int, draw_mw: int) -> None:
        """Have less free in between; negative amounts give back."""
        first, last = self._cut(start_s), self._cut(end_s)
        for step in range(first, last):
            self._nodes[step] -= nodes
            self._power_mw[step] -= draw_mw
        self._join_equal(last)
        self._join_equal(first)

    def _cut(self, time_s: float) -> int:
        """Return the step that begins at a time, made if there is none."""
        step = bisect_left(self._times_s, time_s)
        if step == len(self._times_s) or self._times_s[step] != time_s:
            self._times_s.insert(step, time_s)
            self._nodes.insert(step, self._nodes[step - 1])
            self._power_mw.insert(step, self._power_mw[step - 1])
        return step

    def _join_equal(self, step: int) -> None:
        """Remove the border of two steps that have the same free."""
        same_nodes = step > 0 and self._nodes[step] == self._nodes[step - 1]
        if same_nodes and self._power_mw[step] == self._power_mw[step - 1]:
            del self._times_s[step], self._nodes[step], self._power_mw[step]
