"""What ingest knows of clusters and jobs, once a table of authority is in force. Pure."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from shared.authority.binding import SitedCluster
from shared.authority.rules import OwnedJob
from shared.catalogue.event import Event

# The messages that are folded, by the topic that has them.
FOLDED: Final = {
    "commands": ("coplace.v1.ClusterDeclared",),
    "jobs.events": ("coplace.v1.JobSubmitted",),
    "placement.decisions": ("coplace.v1.PlacementDecided",),
}


@dataclass(frozen=True, slots=True)
class _Job:
    since_us: int
    user: str = ""
    account: str = ""
    granted: tuple[str, ...] = ()


class KnownRegion:
    """The sites of clusters, and of the jobs of the last `remember_us` who submitted them and where
    they were granted. An undeclared cluster's name stays its site's."""

    def __init__(self, remember_us: int) -> None:
        self._remember_us = remember_us
        self._sites: dict[str, str] = {}
        self._models: dict[str, str] = {}
        # By when they were first heard of.
        self._jobs: OrderedDict[str, _Job] = OrderedDict()

    def cluster(self, name: str) -> SitedCluster:
        """Return a cluster with its site."""
        return SitedCluster(name, self._sites.get(name, ""))

    def having(self, node_model: str) -> Sequence[SitedCluster]:
        """Return the clusters that were declared with a node model."""
        return [self.cluster(name) for name, model in self._models.items() if model == node_model]

    def job(self, job_id: str) -> OwnedJob:
        """Return a job, as far as it is known."""
        found = self._jobs.get(job_id)
        if found is None:
            return OwnedJob(job_id)
        granted = tuple(map(self.cluster, found.granted))
        return OwnedJob(job_id, found.user, found.account, granted)

    def fold(self, event: Event) -> None:
        """Fold what an event says of the region."""
        match event.payload:
            case ClusterDeclared() as declared:
                self._sites[declared.cluster] = declared.site
                self._models[declared.cluster] = declared.node_model
            case JobSubmitted() as submitted:
                self._submit(submitted, event.time_us)
            case PlacementDecided() as decided if decided.verdict == VERDICT_START:
                self._grant(decided, event.time_us)

    def _submit(self, submitted: JobSubmitted, time_us: int) -> None:
        """Remember the owner of a job from its first submission; later ones are of attempts."""
        job = self._known(submitted.job_id, time_us)
        if not job.user:
            job = replace(job, user=submitted.user, account=submitted.account)
            self._jobs[submitted.job_id] = job

    def _grant(self, decided: PlacementDecided, time_us: int) -> None:
        job = self._known(decided.job_id, time_us)
        if decided.cluster not in job.granted:
            granted = (*job.granted, decided.cluster)
            self._jobs[decided.job_id] = replace(job, granted=granted)

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
