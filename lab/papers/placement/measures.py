"""The measures of D'Amico and Corbalan (2021), section 5."""

from collections.abc import Mapping
from typing import Final

from coplace_client.errors import UnusableError
from lab.papers.placement.intervals import Measure
from lab.simulation.metrics import Summary

DAY_S: Final = 86400.0
HOUR_S: Final = 3600.0
MWH_J: Final = 3.6e9
P1, P2 = 0, 1


def makespan_d(summary: Summary) -> float:
    return summary.makespan_s / DAY_S


def response_h(summary: Summary) -> float:
    return summary.response_s.mean / HOUR_S


def energy_mwh(summary: Summary) -> float:
    return summary.busy_energy_j / MWH_J


def runtimes_h(summary: Summary) -> float:
    return summary.sum_runtime_s / HOUR_S


def frequency_ghz(summary: Summary) -> float:
    return _known(summary.mean_freq_ghz)


def best_percent(summary: Summary) -> float:
    return 100 * _known(summary.best_cluster_share)


def stream_on_p2_percent(summary: Summary) -> float:
    """Return the share of jobs best off on p2, which all run STREAM."""
    return 100 * _known(summary.clusters[P2].best_cluster_share)


def p1_response_h(summary: Summary) -> float:
    return _known(summary.clusters[P1].mean_response_s) / HOUR_S


def p2_response_h(summary: Summary) -> float:
    return _known(summary.clusters[P2].mean_response_s) / HOUR_S


def _known(value: float | None) -> float:
    """What is None only where no job ran or none is known: not on these workloads."""
    if value is None:
        raise UnusableError("no job ran there: the workload is too small to be compared")
    return value


# By the titles of columns, with the digits that are shown.
MEASURES: Final[Mapping[str, tuple[Measure, int]]] = {
    "makespan, d": (makespan_d, 2),
    "response, h": (response_h, 2),
    "energy of jobs, MWh": (energy_mwh, 2),
    "sum of runtimes, h": (runtimes_h, 0),
    "frequency, GHz": (frequency_ghz, 3),
    "on best cluster, %": (best_percent, 1),
    "STREAM on p2, %": (stream_on_p2_percent, 1),
}
GAINS: Final[Mapping[str, Measure]] = {
    "makespan": makespan_d,
    "response": response_h,
    "energy": energy_mwh,
    "runtimes": runtimes_h,
}
