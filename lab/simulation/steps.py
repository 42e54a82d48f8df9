"""Used units and power over time as step functions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shared.replay.played import Played
from shared.scheduling.workload import Floats, Mask


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """`value[i]` holds from `time_s[i]`, of which the first is -inf, to `time_s[i + 1]`."""

    time_s: Floats
    value: Floats

    def at(self, time_s: Floats) -> Floats:
        """Return the value from each of these times."""
        return self.value[np.searchsorted(self.time_s, time_s, side="right") - 1]

    @classmethod
    def sum_of(cls, several: Sequence["Steps"]) -> "Steps":
        """Return the sum of all of them."""
        time_s = np.unique(np.concatenate([each.time_s for each in several]))
        return cls(time_s, np.sum([each.at(time_s) for each in several], axis=0))

    def means(self, edges_s: Floats) -> Floats:
        """Return the mean from each of these times, which ascend, to the next."""
        times_s, values = np.append(edges_s[:1], self.time_s[1:]), self.value
        later_s = np.maximum(times_s, edges_s[0])
        until_s = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(later_s))))
        here = np.searchsorted(self.time_s, edges_s, side="right") - 1
        integral = until_s[here] + values[here] * (edges_s - later_s[here])
        return np.asarray(np.diff(integral) / np.diff(edges_s))

    def highest(self, edges_s: Floats) -> Floats:
        """Return the largest value from each of these times, which ascend, to the next."""
        first = np.searchsorted(self.time_s, edges_s[:-1], side="right") - 1
        behind = np.searchsorted(self.time_s, edges_s[1:], side="left")
        ends = np.stack((first, behind), axis=1).ravel()
        return np.asarray(np.maximum.reduceat(np.append(self.value, -np.inf), ends)[::2])


def stack(start_s: Floats, end_s: Floats, amount: Floats) -> Steps:
    """Return the sum of amounts from a start to an end each, all arrays (jobs,)."""
    change_s = np.concatenate(([-np.inf], start_s, end_s))
    time_s, place = np.unique(change_s, return_inverse=True)
    change = np.bincount(place, weights=np.concatenate(([0], amount, -amount)))
    return Steps(time_s, np.cumsum(change))


def used_units(played: Played, of: Mask) -> Steps:
    """Return the units that these jobs (jobs,) have in use."""
    schedule, amount = played.schedule, played.used_units[of].astype(np.float64)
    return stack(schedule.start_s[of], schedule.end_s[of], amount)


def waited_units(played: Played, of: Mask) -> Steps:
    """Return the units that these jobs (jobs,) wait for: those on which they start in the end."""
    amount = played.used_units[of].astype(np.float64)
    return stack(played.workload.submit_s[of], played.schedule.start_s[of], amount)


def job_power_w(played: Played, cluster: int) -> Steps:
    """Return the power of the jobs on a cluster, without what idles."""
    here = played.schedule.cluster == cluster
    start_s, end_s = played.schedule.start_s[here], played.schedule.end_s[here]
    return stack(start_s, end_s, played.power_w[here])


def idle_power_w(played: Played, cluster: int) -> Steps:
    """Return the power of a cluster's idle units."""
    fleet, used = played.fleet, used_units(played, played.schedule.cluster == cluster)
    return Steps(used.time_s, fleet.idle_w[cluster] * (fleet.units[cluster] - used.value))


def power_w(played: Played, clusters: Iterable[int]) -> Steps:
    """Return the power of clusters together: their jobs, and what idles."""
    parts = [(job_power_w(played, each), idle_power_w(played, each)) for each in clusters]
    return Steps.sum_of([each for part in parts for each in part])
