"""Names of the policies of EAMC, and of the readings of its equations."""

from enum import StrEnum


class Policy(StrEnum):
    """The policies that the paper compares."""

    BASE = "base"
    MIN_RUNTIME = "min-runtime"
    MIN_ENERGY = "min-energy"
    REORDER = "reorder"
    PRIORITY_INC = "priority-inc"
    PRIORITY_INC_V = "priority-inc-v"


class Reading(StrEnum):
    """What equations 4 and 5 and the threshold of PriorityInc-V are taken to say.

    Given are the squares of the distance; how each ranks clusters is in shared/eamc/ranking.py.
    """

    DIMENSIONLESS = "dimensionless"  # (E / E_min)^2 + w (T / T_min)^2: the text beside them
    PRINTED = "printed"  # E^2 / E_min + w T^2 / T_min: depends on the units of E and T
    AUTHORS = "authors"  # (E / E_min)^2 + (w T / T_min)^2: the code that the authors published
