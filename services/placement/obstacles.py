"""What keeps a job, or one of its entries, out of the queue. Everything else waits for nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from services.placement.jobs import Tracked
from services.placement.limits import (
    Limit,
    Subject,
    Usage,
    jobs_exceeded,
    nodes_exceeded,
    subjects_of,
)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason; a `lasting` one stays until somebody does something about it."""

    reason: str
    lasting: bool = False


class _Holdings(Protocol):
    def usage(self, subject: Subject) -> Usage: ...


class _Dependencies(Protocol):
    def obstacle(self, job: Tracked) -> Obstacle | None: ...


class _Knowledge(Protocol):
    @property
    def lost(self) -> Mapping[str, str]: ...
    @property
    def limits(self) -> Mapping[Subject, Limit]: ...


@dataclass(frozen=True, slots=True)
class Obstacles:
    """A function of what is known, so that a restart finds the same; see `Rules` for the count."""

    knowledge: _Knowledge
    holdings: _Holdings
    dependencies: _Dependencies
    most_missed_starts: int

    def of_job(self, job: Tracked) -> Obstacle | None:
        """What keeps all entries of a waiting job out; None when nothing does."""
        return self._hold(job) or self.dependencies.obstacle(job) or self._too_many_jobs(job)

    def is_lost(self, cluster: str) -> bool:
        """True while a cluster is out of reach."""
        return cluster in self.knowledge.lost

    def of_entry(self, job: Tracked, cluster: str) -> str:
        """What keeps the entry for this cluster out; empty when nothing does."""
        lost = self.knowledge.lost.get(cluster, "")
        return lost or self._too_many_nodes(job, job.candidate(cluster).nodes)

    def _hold(self, job: Tracked) -> Obstacle | None:
        if job.held is not None:
            return Obstacle(f"held{f': {job.held}' if job.held else ''}", lasting=True)
        if not 0 < self.most_missed_starts <= job.missed_starts:
            return None
        missed = f"{job.missed_starts} starts of it were not confirmed in time"
        return Obstacle(f"{missed}: release it when its resource manager starts jobs", lasting=True)

    def _too_many_jobs(self, job: Tracked) -> Obstacle | None:
        for subject, limit in self._limits_of(job):
            if reason := jobs_exceeded(subject, limit, self.holdings.usage(subject)):
                return Obstacle(reason)
        return None

    def _too_many_nodes(self, job: Tracked, nodes: int) -> str:
        for subject, limit in self._limits_of(job):
            if reason := nodes_exceeded(subject, limit, self.holdings.usage(subject), nodes):
                return reason
        return ""

    def _limits_of(self, job: Tracked) -> list[tuple[Subject, Limit]]:
        limits = self.knowledge.limits
        if not limits:
            return []
        return [(s, limits[s]) for s in subjects_of(job.job) if s in limits]
