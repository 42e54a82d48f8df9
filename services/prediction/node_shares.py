"""What each job on a shared node drew of what its meter showed.

Idle power is split by allocated cores, and what is not allocated stays with the node. The rest is
split by activity. No meter shows a job's own, so that what each job was expected to draw beyond
idle replaces it, and its cores where nothing was expected of one of them. Where the same
applications meet others, their expectations then follow their own parts, as in
expectation-maximisation of a sum of sources (Dempster, Laird and Rubin, "Maximum likelihood from
incomplete data via the EM algorithm", JRSS B 39, 1977).
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from coplace_client.millicores import PER_CORE, millicores


class NodeUser(NamedTuple):
    """A job on a node: its thousandths of a core there, and what a node used whole by such jobs was
    expected to draw, W; None where nothing was."""

    millicores: int
    expected_w: float | None

    @property
    def cores(self) -> float:
        """Return its cores."""
        return self.millicores / PER_CORE


def shares_mw(
    power_w: float, idle_w: float, node_cores: int, jobs: Sequence[NodeUser]
) -> list[int]:
    """Return what each job drew, mW, and behind them what the node drew idle for nobody: together
    they are `power_w` to the milliwatt. The jobs have no more cores than the node."""
    idle_w = min(idle_w, power_w)
    activities = _activities(idle_w, node_cores, jobs)
    active_w = (power_w - idle_w) / sum(activities)
    parts_w = [
        idle_w * job.cores / node_cores + active_w * activity
        for job, activity in zip(jobs, activities, strict=True)
    ]
    total_mw = round(1000 * power_w)
    # What lies between two rounded sums adds up, whatever each part is rounded to.
    cuts_mw = [min(round(1000 * sum_w), total_mw) for sum_w in accumulate(parts_w, initial=0.0)]
    is_full = sum(job.millicores for job in jobs) == millicores(node_cores)
    cuts_mw[-1:] = [total_mw] * 2 if is_full else [cuts_mw[-1], total_mw]
    return [after - before for before, after in pairwise(cuts_mw)]


def _activities(idle_w: float, node_cores: int, jobs: Sequence[NodeUser]) -> list[float]:
    """In proportion; above 0 in all."""
    known_w = [job.expected_w for job in jobs if job.expected_w is not None]
    expected = [
        max(0.0, power_w - idle_w) * job.cores / node_cores
        for job, power_w in zip(jobs, known_w, strict=False)
    ]
    if len(known_w) < len(jobs) or not sum(expected):
        return [job.cores for job in jobs]
    return expected
