"""Which clusters a job may go to, in which order and from which queue.

D'Amico and Corbalan (2021), equation 5 and section 4.2. Arrays have the shape (jobs, clusters),
clusters in the order in which they were declared; ties go to the one declared first.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.domain.eamc_policy import Policy, Reading
from shared.eamc.frequency import EVEN, FrequencyRule, Weighing, distance

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

# The rank of a cluster that a job has no queue entry for.
EXCLUDED: Final = -1
NO_PREFERENCE: Final = -1
# What the authors' code ranks by, whatever the weight in the choice of a frequency.
AUTHORS_TIME_WEIGHT: Final = 1.5


FREQUENCY_RULES: Final = {
    Policy.BASE: FrequencyRule.NOMINAL,
    Policy.MIN_RUNTIME: FrequencyRule.MIN_RUNTIME,
    Policy.MIN_ENERGY: FrequencyRule.MIN_ENERGY,
    Policy.REORDER: FrequencyRule.MIN_DISTANCE,
    Policy.PRIORITY_INC: FrequencyRule.MIN_DISTANCE,
    Policy.PRIORITY_INC_V: FrequencyRule.MIN_DISTANCE,
}


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """`rank` orders a job's clusters, EXCLUDED where it has no entry; `tier` 0 is served first."""

    rank: Ints
    tier: Ints


def part_eff(energy_j: Floats, time_s: Floats, eligible: Mask, weighing: Weighing = EVEN) -> Floats:
    """Return equation 5, infinite where not eligible: equation 4's form over clusters, but the
    authors' E / E_min + 1.5 T / T_min.

    The minima are those of the eligible clusters, of which each job needs one.
    """
    energy_j, time_s = (np.where(eligible, values, np.nan) for values in (energy_j, time_s))
    if weighing.reading is Reading.AUTHORS:
        value = _shares(energy_j) + AUTHORS_TIME_WEIGHT * _shares(time_s)
    else:
        value = distance(energy_j, time_s, weighing)
    return np.where(eligible, value, np.inf)


def _shares(values: Floats) -> Floats:
    """Return each value over the least one of its row."""
    return np.asarray(values / np.fmin.reduce(values, axis=-1, keepdims=True))


def compare(
    energy_j: Floats,
    time_s: Floats,
    eligible: Mask,
    policy: Policy,
    weighing: Weighing,
    threshold: float,
    preferred: Ints | None = None,
) -> tuple[Floats, Ranks]:
    """Return `part_eff` of each job's clusters among each other, and the queue entries that a
    policy makes of it: see rank_clusters."""
    efficiency = part_eff(energy_j, time_s, eligible, weighing)
    ranking = rank_clusters(
        efficiency, policy, threshold=threshold, reading=weighing.reading, preferred=preferred
    )
    return efficiency, ranking


def rank_clusters(
    efficiency: Floats,
    policy: Policy,
    *,
    threshold: float,
    reading: Reading = Reading.DIMENSIONLESS,
    preferred: Ints | None = None,
) -> Ranks:
    """Return the queue entries of each job from its `part_eff` (infinite: not eligible).

    `preferred` (jobs,) names a cluster that comes before better ones, or NO_PREFERENCE.
    """
    eligible = np.isfinite(efficiency)
    if policy in (Policy.MIN_RUNTIME, Policy.MIN_ENERGY):
        return Ranks(_declared_order(eligible), np.zeros(eligible.shape, dtype=np.int64))
    rank = _by_efficiency(efficiency, eligible, preferred)
    if policy is Policy.BASE:
        return Ranks(np.where(rank == 0, 0, EXCLUDED), np.zeros_like(rank))
    if policy is Policy.REORDER:
        return Ranks(rank, np.zeros_like(rank))
    tier = np.maximum(rank, 0)
    if policy is Policy.PRIORITY_INC_V:
        last = is_demoted(efficiency, rank, threshold, reading)
        tier = np.where(last, efficiency.shape[1], tier)
    return Ranks(rank, tier)


def _declared_order(eligible: Mask) -> Ints:
    return np.where(eligible, eligible.cumsum(axis=1) - 1, EXCLUDED)


def _by_efficiency(efficiency: Floats, eligible: Mask, preferred: Ints | None) -> Ints:
    key = efficiency
    if preferred is not None:
        is_preferred = np.arange(key.shape[1]) == preferred[:, np.newaxis]
        key = np.where(is_preferred & eligible, -np.inf, key)
    rank = key.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return np.where(eligible, rank, EXCLUDED)


def is_demoted(efficiency: Floats, rank: Ints, threshold: float, reading: Reading) -> Mask:
    """Return which entries, (jobs, clusters), PriorityInc-V demotes to the last tier, their
    `part_eff` being more than `threshold` above the job's first: as a share of it, the authors' as
    it is."""
    first = np.where(rank == 0, efficiency, np.inf).min(axis=1, keepdims=True)
    known = np.where(np.isfinite(first), first, 0.0)  # infinite: no cluster is eligible
    above = threshold if reading is Reading.AUTHORS else threshold * known
    return np.asarray(efficiency > first + above)
