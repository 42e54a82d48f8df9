"""Progress of a job at a speed that its neighbours change."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Final

# Slowdowns of a suspended job, and of one that does no more of its work: it ends at once.
SUSPENDED: Final = inf
ENDED: Final = 0.0


@dataclass(slots=True)
class Progress:
    """Work left, in seconds of running alone, done at the slowdown of the moment.

    `slowdown_ratio` is T_co / T_solo: a second of the clock does 1 / `slowdown_ratio` of work.
    """

    solo_s_left: float
    slowdown_ratio: float = 1.0

    @property
    def remaining_s(self) -> float:
        """Return how long the rest takes if nothing changes; by rounding there may be less than
        none."""
        if self.slowdown_ratio in (SUSPENDED, ENDED):
            return self.slowdown_ratio
        return max(self.solo_s_left, 0.0) * self.slowdown_ratio

    def advance(self, elapsed_s: float) -> None:
        """Go on by a time at the slowdown so far."""
        self.solo_s_left -= elapsed_s / self.slowdown_ratio


def slowest(slowdown_ratios: Iterable[float]) -> float:
    """Return the slowdown of a job from those of its nodes: it advances at the pace of its slowest
    node, and undisturbed where none has a neighbour."""
    return max(slowdown_ratios, default=1.0)
