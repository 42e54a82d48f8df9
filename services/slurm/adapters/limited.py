"""Gives starts back that Slurm does not make for a limit of its own, so that no node waits."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import inf
from typing import Final, NamedTuple

import structlog
from coplace.v1.jobs_pb2 import HOLDER_MANAGER, JobReleased
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from coplace.v1.placement_service_pb2 import JOB_STANDING_HELD

from coplace_client.facts import fact
from services.slurm.adapters.region import AskedRegion
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.limits import limited_by
from shared.process.clock import now_us
from shared.slurm.facts import Site

# Slurm may count a job a moment longer than it runs.
_LASTS_S: Final = 3.0
# Of a job of Slurm's: one that was requeued is another job.
_ATTEMPT: Final = 1
# A job comes again when something ended or limits changed, and so long after its decline; each time
# twice as long.
_AGAIN_S: Final = 30.0
_MOST_AGAIN_S: Final = 3_600.0

log = structlog.get_logger(__name__)


class _Limited(NamedTuple):
    """For what limit a start was given back, when, for which time, and what held nodes then; it
    `may` come again since something changed."""

    limit: str
    at_s: float
    times: int
    beside: frozenset[int]
    may: bool = False


class LimitedStarts:
    """Declines starts for limits of Slurm, and lets the jobs in again where that may help."""

    def __init__(
        self,
        region: AskedRegion,
        site: Site,
        clusters: Sequence[str],
        refuse: Callable[[PlacementDecided, str, str], Awaitable[object]],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`refuse` declines a start with a reason and the limit."""
        self._region, self._site, self._clusters = region, site, clusters
        self._refuse, self._clock_s = refuse, clock_s
        self._since_s: dict[str, float] = {}
        self._declined: dict[str, _Limited] = {}

    @property
    def has_declined(self) -> bool:
        """Return whether jobs wait whose start was declined for a limit."""
        return bool(self._declined)

    async def look(self, shown: Sequence[SlurmJob]) -> None:
        """Decline starts that Slurm has not made for a limit in some seconds. Raises SlurmError and
        UnansweredError."""
        now_s = self._clock_s()
        limited = {job.id_at(self._site): job for job in shown if limited_by(job)}
        self._since_s = {name: self._since_s.get(name, now_s) for name in limited}
        beside = frozenset(job.job_id for job in shown if job.has_nodes)
        for name, job in limited.items():
            if now_s - self._since_s[name] < _LASTS_S:
                continue
            limit, grant = limited_by(job), job.word.grant
            start = PlacementDecided(
                job_id=name, attempt=_ATTEMPT, grant=grant, verdict=VERDICT_START
            )
            await self._refuse(start, f"Slurm starts it not for its limit {limit}", limit)
            del self._since_s[name]
            before = self._declined.get(name)
            times = before.times + 1 if before else 0
            self._declined[name] = _Limited(limit, now_s, times, beside)
            log.info("declined", job=name, limit=limit)

    def recall(self, shown: Iterable[SlurmJob]) -> None:
        """Let jobs in again whose starts a process before declined: for what is not known here, and
        placement grants them nothing until then."""
        now_s = self._clock_s()
        for job in shown:
            if job.is_pending and job.word.grant and not job.word.is_started:
                name = job.id_at(self._site)
                self._declined.setdefault(name, _Limited("", now_s, 0, frozenset(), may=True))

    def let_in(self, shown: Iterable[SlurmJob], *, limits_changed: bool) -> None:
        """Let jobs in again that were declined, where a job that held nodes then has ended, or
        limits have changed; those that somebody holds stay held. Raises UnansweredError."""
        if not self._declined:
            return
        now_s, jobs = self._clock_s(), list(shown)
        with_nodes = {job.job_id for job in jobs if job.has_nodes}
        waiting = {job.id_at(self._site) for job in jobs if job.is_pending}
        for name, each in list(self._declined.items()):
            if name not in waiting:
                del self._declined[name]
            elif limits_changed or not each.beside <= with_nodes:
                self._declined[name] = each._replace(may=True)
        due = {
            name: each
            for name, each in self._declined.items()
            if each.may and now_s - each.at_s >= _pause_s(each.times)
        }
        if not due:
            return
        listed = (job for cluster in self._clusters for job in self._region.waiting_jobs(cluster))
        held = {job.job_id for job in listed if job.standing == JOB_STANDING_HELD}
        for name in due.keys() - held:
            at_us = now_us()
            order = JobReleased(job_id=name, released_at_us=at_us, holders=[HOLDER_MANAGER])
            self._region.publish(fact(self._site.name, order, f"{name}/limit/{at_us}", at_us))
            self._declined[name] = due[name]._replace(at_s=inf, may=False)


def _pause_s(times: int) -> float:
    return min(_AGAIN_S * float(1 << min(times, 16)), _MOST_AGAIN_S)
