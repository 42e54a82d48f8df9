"""What a cluster draws as its meters show it, and whose predictions that proves wrong.

A reading is a mean of some time. It counts where what was expected of its node was the same at the
readings before: else a job came, went or changed meanwhile, and nobody knows of what it is the
mean. What is expected counts of all other nodes.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.domain.cluster import Cluster
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.scheduling.power import milliwatts

Milliwatts = NDArray[np.int64]
# What is said of a node whose meter was not read.
UNREAD: Final = -1
# At most so many jobs are named; all are counted.
MOST_TOLD: Final = 32


class Misjudged(NamedTuple):
    """A job that draws more beyond idle than was predicted."""

    job_id: str
    attempt: int
    cluster: str
    predicted_mw: int
    measured_mw: int

    @property
    def order(self) -> tuple[int, str]:
        """Return what sorts the jobs that are furthest off first."""
        return self.predicted_mw - self.measured_mw, self.job_id


class MeteredPower(NamedTuple):
    """What a cluster draws beyond idle, as published at a time; on how many nodes that was metered,
    the jobs that were furthest above their predictions, and how many were above them in all."""

    at_us: int
    beyond_mw: int
    metered: int
    misjudged: tuple[Misjudged, ...]
    above: int


def expected_mw(nodes: int, jobs: Iterable[tuple[JobRecord, JobAllocation]]) -> Milliwatts:
    """Return what jobs that run are to draw on each of a cluster's nodes beyond idle."""
    found = np.zeros(nodes, dtype=np.int64)
    for job, placed in jobs:
        on, share_mw = _shares(job, placed, nodes)
        found[on] += share_mw
    return found


def metered_power(
    cluster: Cluster,
    jobs: Sequence[tuple[JobRecord, JobAllocation]],
    expected: Milliwatts,
    before: Milliwatts,
    read: Milliwatts,
    at_us: int,
) -> MeteredPower:
    """Return what meters show of a cluster, and which jobs draw more than was predicted.

    `read` is what they show, `UNREAD` where it shows nothing; `expected` and `before` are what its
    nodes were expected to draw now and before. A node that several jobs share is split as was
    expected.
    """
    counts = (read != UNREAD) & (expected == before)
    beyond = np.where(counts, read - milliwatts(cluster.idle_power_w), expected)
    found = []
    for job, placed in jobs:
        on, share_mw = _shares(job, placed, cluster.nodes)
        if not counts[on].any() or job.run.is_suspended:
            continue
        drawn_mw = beyond[on] * share_mw // np.maximum(expected[on], 1)
        measured_mw = int(np.where(counts[on], drawn_mw, share_mw).sum())
        predicted_mw = (placed.draw_mw if placed.predicted_mw is None else placed.predicted_mw) or 0
        if measured_mw > predicted_mw:
            of = job.job.job_id, job.job.attempt, cluster.name
            found.append(Misjudged(*of, predicted_mw, measured_mw))
    return MeteredPower(
        at_us, int(beyond.sum()), int(counts.sum()), furthest(found), above=len(found)
    )


def furthest(jobs: Iterable[Misjudged]) -> tuple[Misjudged, ...]:
    """Return as many of the jobs as are published, furthest off first."""
    return tuple(sorted(jobs, key=lambda job: job.order)[:MOST_TOLD])


def _shares(
    job: JobRecord, placed: JobAllocation, nodes: int
) -> tuple[NDArray[np.intp], Milliwatts]:
    """Return the nodes of a job that the cluster still has, and what the job is to draw on each."""
    on = np.array(placed.nodes, dtype=np.intp)
    units = np.array(placed.units or (1,) * len(on), dtype=np.int64)
    drawn_mw = 0 if job.run.is_suspended else placed.draw_mw or 0
    share_mw = drawn_mw * units // units.sum()
    return on[on < nodes], share_mw[on < nodes]
