"""What ingest knows of clusters and jobs, once a table of authority is in force. Pure."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from coplace.v1.control_pb2 import ClusterDeclared, ClusterUndeclared
from coplace.v1.jobs_pb2 import JobDeclined, JobStarted, JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from shared.authority.binding import SitedCluster
from shared.authority.holding import HeldRun, Holdings
from shared.authority.rules import OwnedJob
from shared.catalogue.event import Event
from shared.domain.array_tasks import as_task, parse_tasks

# The messages that are folded, by the topic that has them.
FOLDED: Final = {
    "commands": ("coplace.v1.ClusterDeclared", "coplace.v1.ClusterUndeclared"),
    "jobs.events": (
        "coplace.v1.JobSubmitted",
        "coplace.v1.JobStarted",
        "coplace.v1.JobDeclined",
    ),
    "placement.decisions": ("coplace.v1.PlacementDecided",),
}


@dataclass(slots=True)
class _Job:
    since_us: int
    user: str = ""
    account: str = ""
    # Of the tasks of an array; empty for any other job.
    indices: str = ""
    held: Holdings = field(default_factory=Holdings)


class KnownRegion:
    """The sites of clusters, and of the jobs of the last `remember_us` who submitted them and who
    holds their runs. An undeclared cluster's name stays its site's, which may
    have `site_clusters` declared at once."""

    def __init__(self, remember_us: int, site_clusters: int) -> None:
        self._remember_us = remember_us
        self._site_clusters = site_clusters
        self._declared: set[str] = set()
        self._sites: dict[str, str] = {}
        self._models: dict[str, str] = {}
        # By when they were first heard of.
        self._jobs: OrderedDict[str, _Job] = OrderedDict()

    def cluster(self, name: str) -> SitedCluster:
        """Return a cluster with its site."""
        return SitedCluster(name, self._sites.get(name, ""))

    def is_one_too_many(self, cluster: SitedCluster) -> bool:
        """Return whether a cluster would be one more than its site may have declared."""
        if cluster.name in self._declared:
            return False
        of_site = sum(self._sites[name] == cluster.site for name in self._declared)
        return of_site >= self._site_clusters

    def having(self, node_model: str) -> Sequence[SitedCluster]:
        """Return the clusters that were declared with a node model."""
        return [self.cluster(name) for name, model in self._models.items() if model == node_model]

    def job(self, job_id: str) -> OwnedJob:
        """Return a job, as far as it is known."""
        found, array = self._jobs.get(job_id), self._array_of(job_id)
        if found is None:
            return OwnedJob(job_id, array.user, array.account) if array else OwnedJob(job_id)
        held, owner = found.held, found if found.user or array is None else array
        runs = tuple(HeldRun(number, grant, self.cluster(on)) for number, grant, on in held.runs())
        declined = tuple(
            HeldRun(number, grant, self.cluster(on))
            for grant, (number, on) in held.declined.items()
        )
        return OwnedJob(job_id, owner.user, owner.account, runs, held.newest_grant, declined)

    def _array_of(self, job_id: str) -> _Job | None:
        """Return the array that has a task of this id: whose it is, the task is."""
        named = as_task(job_id)
        array = self._jobs.get(named[0]) if named else None
        if named is None or array is None or not array.indices:
            return None
        return None if parse_tasks(array.indices).ordinal(named[1]) is None else array

    def fold(self, event: Event) -> None:
        """Fold what an event says of the region."""
        match event.payload:
            case ClusterDeclared() as declared:
                self._sites[declared.cluster] = declared.site
                self._models[declared.cluster] = declared.node_model
                self._declared.add(declared.cluster)
            case ClusterUndeclared() as undeclared:
                self._declared.discard(undeclared.cluster)
            case JobSubmitted() as submitted:
                self._submit(submitted, event.time_us)
            case PlacementDecided() as decided if decided.verdict == VERDICT_START:
                self._known(decided.job_id, event.time_us).held.grant(decided)
            case JobStarted() as started:
                self._known(started.job_id, event.time_us).held.start(started)
            case JobDeclined() as declined:
                self._known(declined.job_id, event.time_us).held.decline(declined)

    def _submit(self, submitted: JobSubmitted, time_us: int) -> None:
        """Remember the owner of a job from its first submission; later ones are of attempts."""
        job = self._known(submitted.job_id, time_us)
        if not job.user:
            job.user, job.account = submitted.user, submitted.account
            job.indices = submitted.array

    def _known(self, job_id: str, time_us: int) -> _Job:
        if job_id not in self._jobs:
            self._forget(time_us)
            self._jobs[job_id] = _Job(time_us)
        return self._jobs[job_id]

    def _forget(self, now_us: int) -> None:
        while self._jobs:
            job_id, oldest = next(iter(self._jobs.items()))
            if oldest.since_us >= now_us - self._remember_us:
                return
            del self._jobs[job_id]
