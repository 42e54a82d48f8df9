"""The training set of Zacarias et al. (2021), section 3.2: what was counted of the target alone, of
the neighbour alone, and how much longer the target took beside it.

Degradation is a share here, T_co / T_alone - 1, at least 0: equation 1 without its 100.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from coplace_client.errors import UnusableError
from lab.evaluate.pair_files import rows_of
from shared.colocation.history import Ints, Mask
from shared.colocation.measured import Floats, Profiles
from shared.colocation.model import Cells

STATISTICS: Final = ("mean", "min", "max", "sd")
COUNTERS: Final = (
    "run_s", "user_s", "system_s", "minor_faults", "major_faults", "blocks_in", "blocks_out",
    "voluntary_switches", "involuntary_switches", "peak_rss_kib",
)  # fmt: skip
# What a machine without hardware counters has of Table 3, and the run time, as in section
# 3.2: CPU usage, page faults and context switches, of two kinds each.
GENERIC: Final = (
    "run_s", "user_s", "system_s", "minor_faults", "major_faults", "voluntary_switches",
    "involuntary_switches",
)  # fmt: skip

HELD_SHARE: Final = 0.3
FOLDS: Final = 5


def counted(path: Path, profiles: Profiles, columns: Sequence[str]) -> Floats:
    """Read columns of `alone.csv` of each machine and application, (machines, applications,
    columns).

    Raises UnusableError where a column or an application is missing, or a value is no count.
    """
    rows = {(row["config"], row["app"]): row for row in rows_of(path, "config", "app", *columns)}
    found = np.empty((len(profiles.machines), len(profiles.apps), len(columns)))
    for machine, app, column in np.ndindex(found.shape):
        key = profiles.machines[machine], profiles.apps[app]
        if key not in rows:
            raise UnusableError(f"{path} has no row of {key[1]} in {key[0]}: measure it alone")
        text = rows[key][columns[column]]
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            about = f"{columns[column]} of {key[1]} in {key[0]}"
            raise UnusableError(f"{path}: {about} is not a number of 0 or more: {text[:40]!r}")
        found[machine, app, column] = value
    return found


def counter_sets(path: Path, profiles: Profiles) -> dict[str, Floats]:
    """Return all counters and the generic ones, each with and without their spread (Table 5)."""
    found = {}
    for name, counters in ("all counters", COUNTERS), ("generic counters", GENERIC):
        for statistics in (STATISTICS, STATISTICS[:1]):
            columns = [f"{counter}_{each}" for counter in counters for each in statistics]
            found[f"{name}, {'/'.join(statistics)}"] = counted(path, profiles, columns)
    return found


def profile_sets(profiles: Profiles) -> dict[str, Floats]:
    """Return what replaces counters where none were published: the sensitivity curve with
    contentiousness and run time, and the curve by its statistics alone."""
    curves = profiles.filled_curves()
    of_curve = [curves.mean(axis=2), curves.min(axis=2), curves.max(axis=2), curves.std(axis=2)]
    columns = profiles.columns()
    others = columns[:, :, -3:]  # contentiousness, run time, the machine's median
    spread = np.concatenate([np.stack(of_curve, axis=2), others], axis=2)
    return {"profile": columns, "profile, mean/min/max/sd of the curve": spread}


def rows_of_cells(features: Floats, cells: Cells) -> Floats:
    """Return columns of the target and of its neighbour."""
    machine, target, neighbour = cells
    return np.concatenate([features[machine, target], features[machine, neighbour]], axis=1)


def of_cells(degradation: Floats, cells: Cells) -> Floats:
    """Return what the targets suffered; noise below 0 counts as 0."""
    return np.maximum(degradation[cells], 0.0)


def ranks(degradation: Floats, seed: int) -> Ints:
    """Return a number for each pair of applications that was measured, drawn by the seed,
    (applications, applications): the same in both directions and on all machines. -1 of all
    others."""
    measured = ~np.isnan(degradation).all(axis=0)
    first, second = np.nonzero(np.triu(measured | measured.T))
    found = np.full(measured.shape, -1)
    drawn = np.random.default_rng(seed).permutation(len(first))
    found[first, second] = found[second, first] = drawn
    return found


def held_out(degradation: Floats, rank: Ints) -> Mask:
    """Return 30 % of the pairs, (machines, targets, neighbours): no direction and no machine of
    them is learned from."""
    pairs = int(rank.max()) + 1
    return np.broadcast_to(rank < round(HELD_SHARE * pairs), degradation.shape)
