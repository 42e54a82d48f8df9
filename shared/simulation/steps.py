"""Used units and power over time as step functions."""

from dataclasses import dataclass

import numpy as np

from shared.scheduling.workload import Floats
from shared.simulation.played import Played


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """`value[i]` holds from `time_s[i]`, of which the first is -inf, to `time_s[i + 1]`."""

    time_s: Floats
    value: Floats

    def at(self, time_s: Floats) -> Floats:
        """The value that holds from each of these times."""
        return self.value[np.searchsorted(self.time_s, time_s, side="right") - 1]


def stacked(start_s: Floats, end_s: Floats, amount: Floats) -> Steps:
    """The sum of amounts that each hold from a start to an end, all arrays (jobs,)."""
    change_s = np.concatenate(([-np.inf], start_s, end_s))
    time_s, place = np.unique(change_s, return_inverse=True)
    change = np.bincount(place, weights=np.concatenate(([0], amount, -amount)))
    return Steps(time_s, np.cumsum(change))


def used_units(played: Played, cluster: int) -> Steps:
    """Units of a cluster that are in use."""
    here = played.schedule.cluster == cluster
    amount = played.used_units[here].astype(np.float64)
    return stacked(played.schedule.start_s[here], played.schedule.end_s[here], amount)


def job_power_w(played: Played, cluster: int) -> Steps:
    """Power of the jobs on a cluster, without what idles."""
    here = played.schedule.cluster == cluster
    start_s, end_s = played.schedule.start_s[here], played.schedule.end_s[here]
    return stacked(start_s, end_s, played.power_w[here])


def idle_power_w(played: Played, cluster: int, time_s: Floats) -> Floats:
    """Power of a cluster's idle units from each of these times."""
    fleet = played.fleet
    free = fleet.units[cluster] - used_units(played, cluster).at(time_s)
    return np.asarray(fleet.idle_w[cluster] * free)


def change_times_s(played: Played) -> Floats:
    """From the first submission on, every time at which a job starts or ends."""
    schedule = played.schedule
    begin_s = played.workload.submit_s[:1]
    return np.unique(np.concatenate((begin_s, schedule.start_s, schedule.end_s)))
