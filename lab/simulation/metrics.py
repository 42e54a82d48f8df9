"""A schedule in the measures of the field.

Bounded slowdown: D. G. Feitelson, L. Rudolph, "Metrics and benchmarking for parallel job
scheduling", JSSPP 1998. The others are those of D'Amico and Corbalan (2021), section 5.
"""

from dataclasses import dataclass
from math import ceil, fsum
from typing import Final

import numpy as np

from lab.simulation.steps import power_w
from shared.replay.played import Played, SharedCap, Traits
from shared.scheduling.workload import Floats, Mask

PERCENTILES: Final = (50, 90, 99, 99.9, 100)
# Of the jobs, the widest whose waits are measured on their own.
_WIDEST: Final = 0.01
# A promise is kept by a start this much later: times are sums of floats.
_ROUNDING_S: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Percentiles:
    """A measure over the jobs: its mean, its percentiles and its largest value."""

    mean: float
    p50: float
    p90: float
    p99: float
    p999: float
    longest: float

    @classmethod
    def from_values(cls, values: Floats) -> "Percentiles":
        """Return the spread of at least one value."""
        return cls(float(values.mean()), *map(float, np.percentile(values, PERCENTILES)))


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """One cluster's part; None is unknown, or not defined where no job ran.

    `best_cluster_share` is the share of the jobs that are best here which also ran here.
    """

    name: str
    jobs: int
    utilisation: float
    busy_energy_j: float
    idle_energy_j: float
    mean_response_s: float | None
    mean_freq_ghz: float | None
    best_cluster_share: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The measures of a schedule.

    `utilisation` and idle energy count from the first submission to the last end; the mean
    frequency is that over jobs. `mean_freq_ghz` and `best_cluster_share` are None where the
    applications are unknown, `energy_cost` where no tariff is. `highest_of_cap` is the highest
    draw as a share of its cap, `above_cap_s` for how long one was exceeded, each of the cap where
    that is most; None without a cap. `widest_wait_s` is the mean wait of the widest 1 % of the
    jobs, those as wide as the last of them included. `promises_kept_share` is, of the jobs that
    ever had the reservation, the share that started by the time that was first reserved for them;
    None where nobody noted it, or no job ever had one.
    """

    jobs: int
    makespan_s: float
    wait_s: Percentiles
    widest_wait_s: float
    response_s: Percentiles
    bounded_slowdown_10s: Percentiles
    bounded_slowdown_60s: Percentiles
    utilisation: float
    busy_energy_j: float
    idle_energy_j: float
    sum_runtime_s: float
    backfilled_share: float
    mean_freq_ghz: float | None
    best_cluster_share: float | None
    clusters: tuple[ClusterSummary, ...]
    energy_cost: float | None = None
    highest_of_cap: float | None = None
    above_cap_s: float | None = None
    promises_kept_share: float | None = None


def summarise(played: Played) -> Summary:
    """Return the measures of one schedule."""
    clusters = tuple(_cluster(played, index) for index in range(len(played.fleet.names)))
    everywhere = np.ones(len(played.workload), dtype=np.bool_)
    busy_unit_s = float((played.used_units * played.runtime_s).sum())
    drawn = [_drawn_under(played, cap) for cap in played.fleet.caps]
    return Summary(
        jobs=len(played.workload),
        makespan_s=played.makespan_s,
        wait_s=Percentiles.from_values(played.wait_s),
        widest_wait_s=_widest_wait_s(played),
        response_s=Percentiles.from_values(played.response_s),
        bounded_slowdown_10s=Percentiles.from_values(
            bounded_slowdown(played.wait_s, played.runtime_s, 10)
        ),
        bounded_slowdown_60s=Percentiles.from_values(
            bounded_slowdown(played.wait_s, played.runtime_s, 60)
        ),
        utilisation=busy_unit_s / (float(played.fleet.units.sum()) * played.makespan_s),
        busy_energy_j=fsum(played.energy_j),
        idle_energy_j=sum(cluster.idle_energy_j for cluster in clusters),
        sum_runtime_s=float(played.runtime_s.sum()),
        backfilled_share=float(played.schedule.backfilled.mean()),
        mean_freq_ghz=_mean_freq_ghz(played, everywhere),
        best_cluster_share=_best_share(played, played.traits, everywhere),
        clusters=clusters,
        energy_cost=played.energy_cost,
        highest_of_cap=max((share for share, _ in drawn), default=None),
        above_cap_s=max((above_s for _, above_s in drawn), default=None),
        promises_kept_share=_kept_share(played),
    )


def bounded_slowdown(wait_s: Floats, runtime_s: Floats, threshold_s: float) -> Floats:
    """Return max(1, (wait + run) / max(run, threshold)) of each job."""
    return np.maximum(1, (wait_s + runtime_s) / np.maximum(runtime_s, threshold_s))


def _widest_wait_s(played: Played) -> float:
    """The mean wait of the widest jobs: at least one, and all that are as wide as the last."""
    units = played.used_units
    count = ceil(_WIDEST * len(units))
    least = np.sort(units)[-count]
    return float(played.wait_s[units >= least].mean())


def _kept_share(played: Played) -> float | None:
    promised_s = played.schedule.promised_s
    if promised_s is None:
        return None
    ever = ~np.isnan(promised_s)
    kept = played.schedule.start_s[ever] <= promised_s[ever] + _ROUNDING_S
    return _mean(kept.astype(np.float64))


def _cluster(played: Played, index: int) -> ClusterSummary:
    here = played.schedule.cluster == index
    unit_s = float(played.fleet.units[index]) * played.makespan_s
    busy_unit_s = float((played.used_units * played.runtime_s)[here].sum())
    best_here = None if played.traits is None else played.traits.best == index
    return ClusterSummary(
        name=played.fleet.names[index],
        jobs=int(here.sum()),
        utilisation=busy_unit_s / unit_s,
        busy_energy_j=fsum(played.energy_j[here]),
        idle_energy_j=float(played.fleet.idle_w[index]) * (unit_s - busy_unit_s),
        mean_response_s=_mean(played.response_s[here]),
        mean_freq_ghz=_mean_freq_ghz(played, here),
        best_cluster_share=None
        if best_here is None
        else _best_share(played, played.traits, best_here),
    )


def _drawn_under(played: Played, cap: SharedCap) -> tuple[float, float]:
    """The highest draw of what counts under a cap as a share of it, and for how long it was
    above."""
    fleet, here = played.fleet, [*cap.clusters]
    idle_w = float((fleet.units * fleet.idle_w)[here].sum())
    off_w = 0.0 if fleet.caps_count_idle else idle_w
    drawn = power_w(played, here)
    # Schedulers count each job to the milliwatt, and no unit has two.
    rounding_w = 1e-3 * float(1 + fleet.units[here].sum())
    is_above = drawn.value[:-1] > cap.cap_w + rounding_w
    above_s = float(np.diff(drawn.time_s)[is_above].sum())
    return (float(drawn.value.max()) - off_w) / (cap.cap_w - off_w), above_s


def _mean_freq_ghz(played: Played, of: Mask) -> float | None:
    if played.traits is None:
        return None
    return _mean(played.chosen(played.traits.freq_ghz)[of].astype(np.float64))


def _best_share(played: Played, traits: Traits | None, of: Mask) -> float | None:
    if traits is None:
        return None
    return _mean((played.schedule.cluster == traits.best)[of].astype(np.float64))


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None
