"""Allocations of jobs by cluster, and what those have together that limits are declared for."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Final

from shared.domain.cluster import Cluster
from shared.domain.job import Job, JobState
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.placement.state.limits import (
    NOTHING,
    Held,
    Subject,
    Usage,
    held_under,
    subjects_at,
    subjects_in,
    subjects_of,
)
from shared.placement.state.node_power import SwitchedNodes
from shared.placement.state.occupancy import Occupancy
from shared.scheduling.eligibility import RefusedToJob
from shared.scheduling.sharing import Neighbours


class Allocations:
    """A job holds its nodes from the decision on, and until it gives them up."""

    def __init__(self) -> None:
        self._occupancy: dict[str, Occupancy] = {}
        self._factors: Mapping[str, Mapping[int, float]] = {}
        self._reduced: Collection[str] = frozenset()
        self._jobs: dict[str, JobRecord] = {}
        # Of each job that holds nodes.
        self._counted: dict[str, Mapping[Subject, Usage]] = {}
        self._held: dict[Subject, Held] = {}
        self._changed: set[Subject] = set()

    def declare(self, cluster: Cluster) -> None:
        """Take a cluster as it is declared now."""
        known = self._occupancy.get(cluster.name)
        if known is None:
            known = self._occupancy[cluster.name] = Occupancy(cluster)
        else:
            known.declare(cluster)
            self._recount(cluster.name)
        known.prefer(self._factors.get(cluster.name, {}))

    def _recount(self, cluster: str) -> None:
        """Count what jobs hold of a cluster as it is declared now: a restart knows it in no other
        way."""
        for job in self._jobs.values():
            if _placed(job).cluster == cluster:
                self._count(job)

    def _count(self, job: JobRecord) -> None:
        """Bring what a job counts for up to date."""
        before = self._counted.get(job.job.job_id, {})
        counted = _by_subject(job, self._occupancy[_placed(job).cluster])
        if counted != before:
            self._account(before, -1)
            self._account(counted)
            self._counted[job.job.job_id] = counted

    def forget(self, cluster: str) -> None:
        """Remove a cluster on which nothing runs."""
        del self._occupancy[cluster]
        self._reduced = {name for name, held in self._occupancy.items() if held.never}

    def close(self, cluster: str, unavailable: Mapping[int, float]) -> None:
        """Close nodes of a cluster until these times, by index."""
        self._occupancy[cluster].close(unavailable)
        self._reduced = {name for name, held in self._occupancy.items() if held.never}

    def switch(self, cluster: str, power: SwitchedNodes) -> None:
        """Set which nodes of a cluster are off or boot."""
        self._occupancy[cluster].power = power

    def power(self, cluster: str) -> SwitchedNodes:
        """Return which nodes of a cluster are off or boot."""
        return self._occupancy[cluster].power

    @property
    def reduced(self) -> Collection[str]:
        """Return the clusters of which nodes are drained until somebody resumes them."""
        return self._reduced

    def can_hold(self, cluster: str, job: Job, units: int, refused: RefusedToJob) -> bool:
        """Return whether so many units of a job fit on a cluster that is empty, but for nodes that
        are drained until somebody resumes them, that were refused it, or whose partition is
        down."""
        return units <= self._occupancy[cluster].most_units(job, refused)

    def forget_groups(self) -> None:
        """Renumber groups of jobs on one node, where that was not done for long."""
        for occupancy in self._occupancy.values():
            occupancy.forget_groups()

    def prefer(self, factors: Mapping[str, Mapping[int, float]]) -> None:
        """Give nodes that draw less first: factors by cluster and index."""
        self._factors = factors
        for cluster, occupancy in self._occupancy.items():
            occupancy.prefer(factors.get(cluster, {}))

    def hold(self, job: JobRecord, placed: JobAllocation) -> None:
        """Allocate nodes to a job that holds none."""
        job.run.allocation = placed
        self._jobs[job.job.job_id] = job
        self._occupancy[placed.cluster].hold(job)
        self._count(job)

    def refresh(self, job: JobRecord) -> None:
        """Update what a job draws, and until when it has its nodes."""
        self._occupancy[_placed(job).cluster].refresh(job)

    def expect(self, job: JobRecord, release_s: float) -> None:
        """Set when a suspended job is expected to give its nodes back; infinite: never."""
        self._occupancy[_placed(job).cluster].expect(job, release_s)

    def running(self) -> list[tuple[JobRecord, JobAllocation]]:
        """Return the jobs that run, suspended ones too, by arrival."""
        jobs = (job for job in self._jobs.values() if job.life.state is JobState.RUNNING)
        return [(job, _placed(job)) for job in sorted(jobs, key=lambda job: job.arrival)]

    def all(self) -> list[tuple[JobRecord, JobAllocation]]:
        """Return the jobs that hold nodes, by arrival."""
        return [(job, _placed(job)) for job in sorted(self._jobs.values(), key=_arrival)]

    def hold_instead(self, job: JobRecord, placed: JobAllocation) -> None:
        """Allocate these nodes and no others to a job, or the same until another time."""
        before = job.run.allocation
        if before is None or _but_end(before) != _but_end(placed):
            self.release(job)
            self.hold(job, placed)
            return
        job.run.allocation = placed
        self._occupancy[placed.cluster].prolong(job)

    def release(self, job: JobRecord) -> None:
        """Release what a job holds, if anything."""
        if job.run.allocation is None:
            return
        self._occupancy[job.run.allocation.cluster].release(job)
        self._account(self._counted.pop(job.job.job_id), -1)
        del self._jobs[job.job.job_id]
        job.run.allocation = None

    def best_free(self, cluster: str, count: int) -> tuple[int, ...]:
        """Return the free nodes of a cluster that draw least."""
        return self._occupancy[cluster].best_free(count)

    def others(self, job: JobRecord) -> list[JobRecord]:
        """Return the other jobs that have part of a job's nodes, by arrival."""
        return self._occupancy[_placed(job).cluster].others(job)

    def slowdown(self, job: JobRecord, neighbours: Neighbours) -> float:
        """Predict T_co / T_solo of a job among those that have part of its nodes too."""
        return self._occupancy[_placed(job).cluster].slowdown(job, neighbours)

    def usage(self, subject: Subject) -> Usage:
        """Return what the jobs that count against a subject hold."""
        held = self._held.get(subject)
        return NOTHING if held is None else held.usage

    def held_under(self, subject: Subject) -> tuple[str, Usage]:
        """Return what is held under a declared limit, and by whom where each has it for itself."""
        return held_under(subject, self._held)

    def take_changed(self) -> set[Subject]:
        """Return those that hold more or less than at the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def granted(self) -> list[tuple[JobRecord, JobAllocation]]:
        """Return the jobs whose start no resource manager has answered yet, by arrival."""
        jobs = (job for job in self._jobs.values() if job.life.state is JobState.GRANTED)
        return [(job, _placed(job)) for job in sorted(jobs, key=lambda job: job.arrival)]

    def without_draw(self) -> list[JobRecord]:
        """Return the jobs of which nobody has estimated what they draw, by arrival."""
        jobs = (job for job in self._jobs.values() if _placed(job).draw_mw is None)
        return sorted(jobs, key=lambda job: job.arrival)

    def intruders(
        self, jobs: Iterable[tuple[JobRecord, JobAllocation]]
    ) -> Iterator[tuple[str, str]]:
        """Yield the ids of those of `jobs` on whose nodes others run, as their resource manager
        says, so that there is not enough for all; each with the id of one of the others."""
        for job, placed in jobs:
            occupancy = self._occupancy[placed.cluster]
            others = occupancy.others(job) if occupancy.has_too_much(job) else ()
            # There are none where the job alone is too much for its nodes.
            if ids := [other.job.job_id for other in others]:
                yield job.job.job_id, min(ids)

    @property
    def occupancy(self) -> Mapping[str, Occupancy]:
        """Return what is held of each cluster, in the order in which they were declared."""
        return self._occupancy

    def _account(self, counted: Mapping[Subject, Usage], sign: int = 1) -> None:
        for subject, usage in counted.items():
            held = self._held.get(subject)
            if held is None:
                held = self._held[subject] = Held()
            held.count(usage, sign)
            if not held.jobs:
                del self._held[subject]
        self._changed.update(counted)


_but_end: Final = attrgetter(
    *[each.name for each in fields(JobAllocation) if each.name != "ends_s"]
)


def _by_subject(job: JobRecord, on: Occupancy) -> dict[Subject, Usage]:
    """Return what a job counts for, by those whose limits it counts against."""
    asked, site = job.job, on.site
    counted = dict.fromkeys((*subjects_of(asked), *subjects_at(site, asked)), on.usage(job))
    for partition, usage in on.usage_in_partitions(job).items():
        for subject in subjects_in(partition, asked.user, asked.account, site):
            counted[subject] = usage
    return counted


def _arrival(job: JobRecord) -> int:
    return job.arrival


def _placed(job: JobRecord) -> JobAllocation:
    assert job.run.allocation is not None
    return job.run.allocation
