"""Makes starts again that Slurm forgot: slurmctld that is killed loses what it did in the last
seconds. A job that it had started waits again then, held and without a word on its grant."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_DECIDED,
    JOB_STANDING_RUNNING,
    ListedJob,
    ListJobsRequest,
)

from coplace_client.errors import RejectedError
from services.slurm.adapters.region import AskedRegion
from services.slurm.model.jobs import SlurmJob
from shared.process.clock import now_us
from shared.slurm.facts import Site, identify

_STARTED: Final = (JOB_STANDING_DECIDED, JOB_STANDING_RUNNING)
# By then a start that was decided is carried out, and Slurm has the word on it.
_CARRIED_OUT_US: Final = 30_000_000

log = structlog.get_logger(__name__)


class LostStarts:
    """Compares jobs that wait in Slurm without a word with those that placement knows as started.

    Such a job has its nodes in placement, and nobody else gets them: it starts there again, under
    the same grant. Jobs that Slurm started by itself have no grant, and are let be."""

    def __init__(
        self,
        region: AskedRegion,
        site: Site,
        clusters: Sequence[str],
        obey: Callable[[PlacementDecided], Awaitable[object]],
    ) -> None:
        self._region, self._site, self._clusters, self._obey = region, site, clusters, obey
        # Of the look before: a job may be started or requeued between a look and an answer.
        self._suspects: frozenset[str] = frozenset()

    async def look(self, shown: Iterable[SlurmJob]) -> None:
        """Start jobs again that were seen so at two looks. Raises SlurmError, UnansweredError."""
        for start in await asyncio.to_thread(self._lost, shown):
            log.warning("Slurm forgot the start of a job: it is made again", job=start.job_id)
            await self._obey(start)

    def _lost(self, shown: Iterable[SlurmJob]) -> list[PlacementDecided]:
        waiting = frozenset(self._without_word(shown))
        lost = [job for job in self._started() if job.job_id in waiting] if waiting else []
        before, self._suspects = self._suspects, frozenset(job.job_id for job in lost)
        again = [job for job in lost if job.job_id in before]
        nodes = self._nodes({job.allocation.cluster for job in again})
        # Of a node that many share placement does not name all.
        return [_start_of(job, nodes[job.job_id]) for job in again if job.job_id in nodes]

    def _without_word(self, shown: Iterable[SlurmJob]) -> Iterable[str]:
        for job in shown:
            if job.is_pending and not (job.word.grant or job.is_given_back or job.parts):
                try:
                    yield identify(job.message(), self._site)
                except RejectedError:
                    continue

    def _started(self) -> Iterable[ListedJob]:
        latest_us = now_us() - _CARRIED_OUT_US
        for cluster in self._clusters:
            request = ListJobsRequest(cluster=cluster, standings=_STARTED)
            for job in self._region.jobs(request):
                allocation = job.allocation
                is_ours = allocation.cluster == cluster and allocation.grant > 0
                is_running = job.standing == JOB_STANDING_RUNNING
                if is_ours and (is_running or allocation.since_us < latest_us):
                    yield job

    def _nodes(self, clusters: Iterable[str]) -> Mapping[str, list[str]]:
        """The nodes of each job, as host lists."""
        found: dict[str, list[str]] = {}
        for cluster in clusters:
            for group in self._region.nodes(cluster).groups:
                for job_id in group.job_ids:
                    found.setdefault(job_id, []).extend(group.nodes)
        return found


def _start_of(job: ListedJob, nodes: Iterable[str]) -> PlacementDecided:
    """The decision by which it started, without its latest time where it had started by then."""
    allocation, is_running = job.allocation, job.standing == JOB_STANDING_RUNNING
    return PlacementDecided(
        job_id=job.job_id,
        attempt=job.attempt,
        verdict=VERDICT_START,
        grant=allocation.grant,
        cluster=allocation.cluster,
        node_names=nodes,
        freq_ghz=allocation.freq_ghz,
        walltime_s=(allocation.ends_by_us - allocation.since_us) / 1e6,
        start_by_us=0 if is_running else allocation.start_by_us,
    )
