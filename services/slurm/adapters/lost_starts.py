"""Makes starts again that Slurm forgot: slurmctld that is killed loses what it did in the last
seconds. A job that it had started waits again then, held and without a word on its grant."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import structlog
from coplace.v1.placement_pb2 import VERDICT_START, PlacedPart, PlacementDecided
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_DECIDED,
    JOB_STANDING_RUNNING,
    ListedJob,
    ListJobsRequest,
)

from services.slurm.adapters.region import AskedRegion
from services.slurm.model.facts import id_of
from services.slurm.model.jobs import SlurmJob
from shared.domain.array_tasks import as_task
from shared.process.clock import now_us
from shared.slurm.facts import Site

_STARTED: Final = (JOB_STANDING_DECIDED, JOB_STANDING_RUNNING)
# By then a start that was decided is carried out, and Slurm has the word on it.
_CARRIED_OUT_US: Final = 30_000_000

log = structlog.get_logger(__name__)


class LostStarts:
    """Compares jobs that wait in Slurm without a word with those that placement knows as started.

    Such a job has its nodes in placement, and nobody else gets them: it starts there again, under
    the same grant. Jobs that Slurm started by itself have no grant, and are let be; but the parts
    of a heterogeneous job, which have none once they run (ADR 0160)."""

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
        waiting = dict(self._without_word(shown))
        started = {job.job_id: job for job in self._started()} if waiting else {}
        lost = {name: [job] for name, job in started.items() if _waits(job, waiting)}
        lost |= dict(self._gangs(waiting, started))
        before, self._suspects = self._suspects, frozenset(lost)
        again = {name: runs for name, runs in lost.items() if name in before}
        nodes = self._nodes({run.allocation.cluster for runs in again.values() for run in runs})
        # Of a node that many share placement does not name all.
        return [
            _start_of(name, runs, [nodes[run.job_id] for run in runs])
            for name, runs in again.items()
            if all(run.job_id in nodes for run in runs)
        ]

    def _gangs(
        self, waiting: Mapping[str, SlurmJob], started: Mapping[str, ListedJob]
    ) -> Iterator[tuple[str, list[ListedJob]]]:
        """Yield the heterogeneous jobs of which placement knows all parts as runs."""
        for name, gang in waiting.items():
            ids = [id_of(part, self._site) for part in gang.parts]
            if ids and all(each in started for each in ids):
                yield name, [started[each] for each in ids]

    def _without_word(self, shown: Iterable[SlurmJob]) -> Iterable[tuple[str, SlurmJob]]:
        for job in shown:
            if job.is_pending and not (job.word.grant or job.is_given_back):
                yield id_of(job, self._site), job

    def _started(self) -> Iterable[ListedJob]:
        latest_us = now_us() - _CARRIED_OUT_US
        for cluster in self._clusters:
            request = ListJobsRequest(cluster=cluster, standings=_STARTED)
            for job in self._region.jobs(request):
                allocation = job.allocation
                is_running = job.standing == JOB_STANDING_RUNNING
                is_old = is_running or allocation.since_us < latest_us
                if allocation.cluster == cluster and is_old:
                    yield job

    def _nodes(self, clusters: Iterable[str]) -> Mapping[str, list[str]]:
        """The nodes of each job, as host lists."""
        found: dict[str, list[str]] = {}
        for cluster in clusters:
            for group in self._region.nodes(cluster).groups:
                for job_id in group.job_ids:
                    found.setdefault(job_id, []).extend(group.nodes)
        return found


def _waits(started: ListedJob, waiting: Mapping[str, SlurmJob]) -> bool:
    """Return whether a job waits, by itself or with other tasks of its array."""
    if not started.allocation.grant:
        return False
    named = as_task(started.job_id)
    array = waiting.get(named[0]) if named else None
    if named is None or array is None or not array.is_array:
        return started.job_id in waiting
    return array.has_task(named[1])


def _start_of(
    name: str, runs: Sequence[ListedJob], nodes: Sequence[Sequence[str]]
) -> PlacementDecided:
    """The decision by which a job started, with the nodes of its run, or of those of its parts;
    without its latest time where it had started by then. It is of now: a hold by its user, whose
    release was forgotten too, is older, and so are changes of it."""
    at_us = now_us()
    of, is_gang = runs[0].allocation, runs[0].job_id != name
    is_running = runs[0].standing == JOB_STANDING_RUNNING
    found = PlacementDecided(
        job_id=name,
        attempt=runs[0].attempt,
        verdict=VERDICT_START,
        grant=max(of.grant, 1),
        cluster=of.cluster,
        freq_ghz=of.freq_ghz,
        walltime_s=max(run.allocation.ends_by_us - run.allocation.since_us for run in runs) / 1e6,
        start_by_us=0 if is_running else of.start_by_us,
        decided_at_us=at_us,
        changed_at_us=at_us,
        parts=[PlacedPart(node_names=each) for each in nodes] if is_gang else (),
    )
    found.node_names.extend(name for each in nodes for name in each)
    return found
