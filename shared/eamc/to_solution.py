"""EAR's own two policies: least energy within a limit of time, more speed while it pays.

Both start from the P-state that a job runs at when nobody chooses, and take no step that no
projection backs.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.models.projection import Projection

Ints = NDArray[np.int64]

MIN_ENERGY_THRESHOLD: Final = 0.05
MIN_TIME_THRESHOLD: Final = 0.7


def min_energy_to_solution(
    projection: Projection, default: Ints, threshold: float = MIN_ENERGY_THRESHOLD
) -> Ints:
    """Return the P-state of least energy among those that stay within a limit of time.

    E' < E_ref and T' < T_ref (1 + threshold), the reference being the P-state `default`, shape
    (signatures,), which is also the answer where no other will do. Ties: the lowest frequency.
    """
    row = np.arange(len(default))
    energy_j, time_s = projection.energy_j, projection.time_s
    reference_j = energy_j[row, default, np.newaxis]
    limit_s = time_s[row, default, np.newaxis] * (1 + threshold)
    saves = (energy_j < reference_j) & (time_s < limit_s)
    cheapest = np.where(saves, energy_j, np.inf).argmin(axis=1)
    return np.where(saves.any(axis=1), cheapest, default)


def min_time_to_solution(
    projection: Projection, default: Ints, threshold: float = MIN_TIME_THRESHOLD
) -> Ints:
    """Return the highest P-state whose gain in time is worth its gain in frequency.

    Upwards from `default`, shape (signatures,): a P-state is taken when (T - T') / T is at least
    `threshold` (f' - f) / f, with T and f of the last one taken. One that is not worth it is
    passed over; one without projection ends the search.
    """
    row, taken = np.arange(len(default)), default.copy()
    is_searching = projection.available[row, default]
    clocks_ghz = np.asarray(projection.pstates_ghz)
    for pstate in range(int(default.min(initial=len(clocks_ghz))) + 1, len(clocks_ghz)):
        is_above = pstate > default
        is_searching &= projection.available[:, pstate] | ~is_above
        time_gain = 1 - projection.time_s[:, pstate] / projection.time_s[row, taken]
        clock_gain = clocks_ghz[pstate] / clocks_ghz[taken] - 1
        is_worth_it = is_searching & is_above & (time_gain >= threshold * clock_gain)
        taken[is_worth_it] = pstate
    return taken
