"""Gives Jobs back to Kubernetes, which starts them by its own rules."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from coplace.v1.ingest_service_pb2 import Envelope

from coplace_client.errors import RejectedError
from services.kubernetes.adapters.api import JOBS, RECORDS
from services.kubernetes.adapters.reconciler import JobReconciler
from services.kubernetes.adapters.sight import JobApi
from services.kubernetes.model.facts import JobTerms, id_of
from services.kubernetes.model.jobs import JobUid, identified
from services.kubernetes.model.names import QUEUE_NAME
from services.kubernetes.processor.effects import JobEffect
from services.kubernetes.processor.release import released
from shared.kubernetes.objects import mapping_of

_LOOKS_EVERY_S: Final = 1.0


class JobsReleased(NamedTuple):
    """How many Jobs are Kubernetes' to start now, and the ids of others: those that run on, those
    that are still in the queue, and those of which Coplace does not know yet that they are not."""

    released: int
    running: Sequence[str]
    left: Sequence[str]
    unreported: Sequence[str]


async def release(
    apis: Mapping[str, JobApi],
    terms: JobTerms,
    job_id: str = "",
    wait_s: float = 0.0,
    now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    looks_every_s: float = _LOOKS_EVERY_S,
) -> JobsReleased:
    """Give a Job back, or all of the queue where none is named. Look for so long whether more come,
    and whether Coplace knows of it. Raises ApiError."""
    releaser, deadline_s = JobReleaser(apis, terms, now_us), time.monotonic() + wait_s
    while True:
        await releaser.look_at_all(job_id)
        found = releaser.found()
        if not (found.left or found.unreported) or time.monotonic() >= deadline_s:
            return found
        await asyncio.sleep(looks_every_s)


class _Unpublished:
    """Nothing is published: the process does that, or its successor."""

    async def tell(self, event: Envelope) -> None:
        raise AssertionError(f"published where Jobs are released: {event.id}")


class JobReleaser(JobReconciler):
    """Gives Jobs back, whether the process that takes them is there or not."""

    def __init__(
        self, apis: Mapping[str, JobApi], terms: JobTerms, now_us: Callable[[], int]
    ) -> None:
        super().__init__(apis, _Unpublished(), terms, now_us)
        self._lists, self._of_queue = apis, f"{QUEUE_NAME}={terms.queue}"
        self._waited: set[JobUid] = set()

    async def look_at_all(self, job_id: str = "") -> None:
        """Look at a Job, or at all of the queue, as they are now."""
        for name, api in self._lists.items():
            found, _ = await api.list(RECORDS, self._of_queue)
            self.replace_records(name, [each for each in found if _is_record(each, job_id)])
            found, _ = await api.list(JOBS, self._of_queue)
            self.replace(name, [each for each in found if self._is_it(name, each, job_id)])
        self._waited |= self._waiting().keys()
        await self.work_off()

    def found(self) -> JobsReleased:
        """Return what became of all Jobs that were seen."""
        left, records = self._waiting(), self.mirror.records()
        runs = {each.id: each.job_id for each in records if each.claim.is_live}
        given = [each for each in records if each.released_at_us and not each.outcome]
        return JobsReleased(
            len(self._waited - left.keys() - runs.keys()),
            sorted(runs[uid] for uid in runs.keys() - left.keys()),
            sorted(left.values()),
            sorted(each.job_id for each in given if not each.claim.is_live),
        )

    def _waiting(self) -> Mapping[JobUid, str]:
        """The Jobs of the queue that do not run, with their ids."""
        found = {}
        for job in self.mirror.jobs():
            record = self.mirror.record(job.id)
            is_over = job.is_deleted or bool(job.run_end)
            runs = record is not None and (record.claim.has_begun or bool(record.outcome))
            if not (is_over or runs or self._sight.is_copy(job)):
                found[job.id] = id_of(job, self._terms)
        return found

    def _is_it(self, cluster: str, fields: Mapping[str, Any], job_id: str) -> bool:
        try:
            return not job_id or id_of(identified(cluster, fields), self._terms) == job_id
        except RejectedError:
            return False

    async def _wanted(self, uid: JobUid) -> Sequence[JobEffect]:
        seen, record = await self._sight.seen(uid)
        if record is None and seen.job is not None and self._sight.is_copy(seen.job):
            return ()
        return released(seen, record, self._terms.queue, self._now_us())


def _is_record(fields: Mapping[str, Any], job_id: str) -> bool:
    submitted = mapping_of(mapping_of(mapping_of(fields).get("spec")).get("submitted"))
    return not job_id or submitted.get("jobId") == job_id
