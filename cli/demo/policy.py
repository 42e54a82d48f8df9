"""The policies that a demo can be told."""

from enum import StrEnum


class DemoPolicy(StrEnum):
    """Those of the paper, and look-ahead: a planner beside PriorityInc-V."""

    BASE = "base"
    MIN_RUNTIME = "min-runtime"
    MIN_ENERGY = "min-energy"
    REORDER = "reorder"
    PRIORITY_INC = "priority-inc"
    PRIORITY_INC_V = "priority-inc-v"
    LOOK_AHEAD = "look-ahead"
