"""What is known of a run in a group before it begins, as numbers to learn from.

Dauwe et al., "HPC node performance and energy modeling with the co-location of applications", J.
Supercomputing 72, 2016, Tables 1 to 3: a target beside applications on the other cores of a node,
each measured by counters of its run alone.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Features in the order in which feature sets take more of them (Table 2).
FEATURES: Final = (
    "baseExTime", "numCoApp", "coAppMem", "targetMem", "coAppCM/CA", "coAppCA/NI",
    "targetCM/CA", "targetCA/NI",
)  # fmt: skip
# How many of them each set has.
FEATURE_SETS: Final = {"A": 1, "B": 2, "C": 3, "D": 4, "E": 6, "F": 8}

CLASSES: Final = ("I", "II", "III", "IV", "V")
# Memory intensities between the classes: amid the gaps of Table 3.
_CLASS_BOUNDS: Final = (2e-8, 4e-6, 2e-4, 5e-3)


class AppAlone(NamedTuple):
    """A run alone at one P-state: seconds, mean power of the node, and what was counted: of the
    last-level cache the accesses and the misses."""

    time_s: float
    power_w: float
    instructions: float
    llc_accesses: float
    llc_misses: float

    @property
    def memory_intensity(self) -> float:
        """Return misses of the last-level cache an instruction."""
        return self.llc_misses / self.instructions


class GroupRun(NamedTuple):
    """A run of a target beside others that begin again whenever they end: the target's run time,
    and the energy of the node in it."""

    target: str
    neighbours: tuple[str, ...]
    freq_ghz: float
    time_s: float
    energy_j: float


# Runs alone by application and P-state, GHz.
Alone = Mapping[tuple[str, float], AppAlone]


def features(runs: Sequence[GroupRun], alone: Alone) -> Floats:
    """Return all FEATURES of each run, (runs, features). Raises KeyError for an application that
    was not measured alone at the run's P-state."""
    return np.array([_features(run, alone) for run in runs]).reshape(len(runs), len(FEATURES))


def _features(run: GroupRun, alone: Alone) -> list[float]:
    target = alone[run.target, run.freq_ghz]
    others = [alone[app, run.freq_ghz] for app in run.neighbours]
    return [
        target.time_s,
        len(others),
        sum(each.memory_intensity for each in others),
        target.memory_intensity,
        sum(each.llc_misses / each.llc_accesses for each in others),
        sum(each.llc_accesses / each.instructions for each in others),
        target.llc_misses / target.llc_accesses,
        target.llc_accesses / target.instructions,
    ]


def intensity_class(memory_intensity: float) -> str:
    """Return one of CLASSES: I misses the last-level cache most often, V hardly ever."""
    return CLASSES[len(CLASSES) - 1 - bisect_right(_CLASS_BOUNDS, memory_intensity)]


def class_intensities(alone: Alone, without: str) -> dict[str, float]:
    """Return the mean memory intensity of each class over its applications but one. A class without
    another application is left out."""
    found: dict[str, list[float]] = {}
    for (app, _), each in alone.items():
        if app != without:
            intensity = each.memory_intensity
            found.setdefault(intensity_class(intensity), []).append(intensity)
    return {name: float(np.mean(values)) for name, values in found.items()}


def mean_percent_error(said: Floats, actual: Floats) -> float:
    """Return equation 4, %."""
    return float(100 * np.abs((said - actual) / actual).mean())


def normalized_rmse(said: Floats, actual: Floats) -> float:
    """Return equation 5: root mean square error as a share of the range of what was measured."""
    return float(np.sqrt(np.square(said - actual).mean()) / np.ptp(actual))
