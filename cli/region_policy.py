"""The policies of a region."""

from enum import StrEnum


class RegionPolicy(StrEnum):
    """Those of the paper, and look-ahead: a planner beside PriorityInc-V."""

    BASE = "base"
    MIN_RUNTIME = "min-runtime"
    MIN_ENERGY = "min-energy"
    REORDER = "reorder"
    PRIORITY_INC = "priority-inc"
    PRIORITY_INC_V = "priority-inc-v"
    LOOK_AHEAD = "look-ahead"

    @property
    def is_planned(self) -> bool:
        """Return whether a planner is at work beside placement."""
        return self is RegionPolicy.LOOK_AHEAD

    @property
    def without_plan(self) -> "RegionPolicy":
        """Return what placement decides by where no plan is in force."""
        return RegionPolicy.PRIORITY_INC_V if self.is_planned else self
