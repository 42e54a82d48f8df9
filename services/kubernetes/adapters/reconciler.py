"""Carries out what follows from decisions and from the states of Jobs, Job by Job in order."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

import structlog
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade

from coplace_client.errors import RejectedError, UnusableError
from coplace_client.ingest import FactRefusedError
from services.kubernetes.adapters.sight import JobApi, JobSight
from services.kubernetes.adapters.writer import JobNotice, JobWriter
from services.kubernetes.model import records
from services.kubernetes.model.conditions import CHARGED
from services.kubernetes.model.facts import JobTerms, id_of
from services.kubernetes.model.jobs import (
    JobKey,
    JobUid,
    KubernetesJob,
    identified,
)
from services.kubernetes.model.names import (
    COPY_OF,
    RECORD,
)
from services.kubernetes.model.queues import QueueCounts
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.processor.decisions import obeying
from services.kubernetes.processor.effects import (
    JobEffect,
    NotifyUser,
    PatchRecord,
    RefuseJob,
)
from services.kubernetes.processor.reconcile import reconcile, stray
from shared.kubernetes.api import (
    ApiError,
    ApiUnavailableError,
)
from shared.kubernetes.charged import charged_words
from shared.kubernetes.decisions import DecisionsInOrder
from shared.kubernetes.effects import LookAgain, PublishFact
from shared.kubernetes.events import UserEvents
from shared.kubernetes.explained_wait import ExplainedWait
from shared.kubernetes.facts import FactTaker
from shared.kubernetes.work_list import WorkList
from shared.kueue.workloads import KueueWorkload

_RETRY_S: Final = 2.0
_REFUSED_RETRY_S: Final = 60.0
# How often a Job is asked for that no list has: while its end is to be published, and after that,
# until it goes and its record with it, whenever it is twice as old, within these bounds.
_OUTSIDE_S: Final = 5.0
_ENDED_OUTSIDE_S: Final = (60.0, 3600.0)
# A Job that changes faster than it is looked at waits for its next turn.
_LOOKS_AT_ONCE: Final = 8
# How often it is looked whether a Job fits by now that is not submitted yet.
_UNSUBMITTED_S: Final = 60.0
_ID_PARTS: Final = 6

log = structlog.get_logger(__name__)


class JobReconciler:
    """Keeps nothing that the API servers and Coplace's topics do not have, but what it saw and what
    it published: after a restart it sees and publishes it again.

    A Job that cannot be dealt with is set aside with the reason, and looked at again when it
    changes and each minute; the others go on.
    """

    def __init__(
        self,
        apis: Mapping[str, JobApi],
        facts: FactTaker,
        terms: JobTerms,
        now_us: Callable[[], int],
        odd: Callable[[str], object] = str,
        offer: Callable[[JobSubmitted], Awaitable[str]] | None = None,
    ) -> None:
        """`offer` has clusters declare what a job asks of nodes, before it is submitted, and
        returns why that has to wait; empty: it has not to."""
        self._terms, self._now_us, self._odd, self._offer = terms, now_us, odd, offer
        self._own = tuple(f"{terms.site}/{cluster}/" for cluster in apis)
        self._clusters = apis.keys()
        self._locks: WeakValueDictionary[JobUid, asyncio.Lock] = WeakValueDictionary()
        self._work = WorkList(self._look_locked)
        self._sight = JobSight(apis, terms, now_us, self._work)
        self.mirror = self._sight.mirror
        self._events = UserEvents(apis)
        self._writer = JobWriter(self._sight, self._work, facts, self._events, now_us)
        self._decisions = DecisionsInOrder(self._of_id, self._obeyed, self._set_aside, _RETRY_S)

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Replace all Jobs of a cluster."""
        jobs = (self._identified(cluster, fields) for fields in found)
        for uid in self.mirror.replace(cluster, [job for job in jobs if job]):
            self.touch(uid)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a Job is new, or has changed."""
        if (job := self._identified(cluster, found)) and self.mirror.put(job):
            self.touch(job.id)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a Job was deleted, or has left the queue."""
        if job := self._identified(cluster, found):
            self._sight.forget(job.id)

    def _identified(self, cluster: str, found: Mapping[str, Any]) -> KubernetesJob | None:
        try:
            return identified(cluster, found)
        except RejectedError as error:
            log.error("not a Job", cluster=cluster, problem=str(error))
            self._odd(cluster)
            return None

    def see_pod(self, cluster: str, pod: Mapping[str, Any], *, is_removed: bool = False) -> None:
        """Note a pod, as it is, or as it was when it was deleted."""
        removed_us = self._now_us() if is_removed else 0
        uid = self.mirror.see_pod(cluster, pod, removed_us)
        if uid is not None:
            self.touch(uid)

    def replace_records(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Replace all records of a cluster."""
        records = (self._parsed(cluster, fields) for fields in found)
        for uid in self.mirror.replace_records(cluster, [each for each in records if each]):
            self.touch(uid)

    def changed_record(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a record is new, or has changed."""
        if self.mirror.knows_record(cluster, found):
            return
        if (record := self._parsed(cluster, found)) and self.mirror.put_record(record):
            self.touch(record.id)

    def deleted_record(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a record was deleted."""
        if record := self._parsed(cluster, found):
            seen = self.mirror.record(record.id)
            if seen is not None and seen.record_uid == record.record_uid:
                self.mirror.remove_record(record.id)
                self.touch(record.id)

    def _parsed(self, cluster: str, found: Mapping[str, Any]) -> KubernetesRecord | None:
        """Return a record as it can be read. Of another one nothing is done about its Job."""
        try:
            return KubernetesRecord.parse(cluster, found)
        except RejectedError as error:
            log.error("record cannot be read", cluster=cluster, problem=str(error))
            self._odd(cluster)
            return None

    def see_workload(self, found: KueueWorkload, *, is_removed: bool = False) -> None:
        """Note a Workload of Kueue that is new, has changed or was deleted."""
        if is_removed:
            self.mirror.lose_workload(found)
        elif (uid := self.mirror.see_workload(found)) is not None:
            self.touch(uid)

    async def note_charge(self, charge: ChargeMade) -> None:
        """Keep what the run of a Job cost, and notify its user, while anything is left of it."""
        uid = self.mirror.of_id(charge.job_id)
        record = self.mirror.record(uid) if uid else None
        if uid is None or record is None:
            return
        words = charged_words(charge)
        self._writer.notify(JobNotice(record.job_key, uid.uid, CHARGED, words))
        try:
            async with self._lock(uid):
                await self._keep_charge(uid, words, charge.price_su)
        except ApiError as error:
            log.warning("charge not kept", job=charge.job_id, problem=str(error))

    def waiting(self) -> Mapping[JobUid, str]:
        """Return the ids of the Jobs that wait for a grant."""
        return self.mirror.waiting()

    async def note_wait(self, uid: JobUid, explained: ExplainedWait) -> None:
        """Keep why a Job waits, and when it is expected to start, where that is new."""
        try:
            async with self._lock(uid):
                record = self.mirror.record(uid)
                if record is None or record.claim.is_live or record.outcome:
                    return
                body = records.explaining(record, explained)
                if record.merged(body["status"]) != record:
                    await self._writer.carry_out([PatchRecord(record, body, "explained")])
        except ApiError as error:
            log.warning("wait not kept", job="/".join(uid), problem=str(error))

    async def _keep_charge(self, uid: JobUid, words: str, price_su: str) -> None:
        for _ in range(_LOOKS_AT_ONCE):
            record = self.mirror.record(uid)
            if record is None or record.charged == words:
                return
            body = records.charging(record, words, price_su)
            if await self._writer.carry_out([PatchRecord(record, body, "charged")]):
                return

    def counts(self) -> Mapping[str, QueueCounts]:
        """Return how many Jobs are where, by their clusters."""
        return self._sight.tally.counts()

    def asked(self) -> Iterator[JobSubmitted]:
        """Yield what Jobs asked for that have not ended."""
        return (each.submitted for each in self.mirror.records() if not each.outcome)

    def touch_waiting(self) -> None:
        """Note that something may have to be done about each Job that waits."""
        for uid in self.mirror.waiting():
            self.touch(uid)

    def touch(self, uid: JobUid) -> None:
        """Note that something may have to be done about a Job."""
        self._work.touch(uid)

    async def work(self) -> None:
        """Do what is to be done about touched Jobs, until cancelled. Several may work at once."""
        await self._work.work()

    async def tell_users(self) -> None:
        """Create the events that users read, until cancelled."""
        await self._events.run()

    async def work_off(self) -> None:
        """Do what has to be done about Jobs, until nothing is left."""
        await self._work.work_off()
        await self._events.work_off()

    async def _look_locked(self, uid: JobUid) -> None:
        async with self._lock(uid):
            await self._look_guarded(uid)

    async def obey(self, decisions: Sequence[PlacementDecided]) -> None:
        """Carry out decisions, of a Job in order, of several Jobs at once; returns when what
        follows is in the records, over failures of the API servers."""
        await self._decisions.obey(decisions)

    async def _obeyed(self, decision: PlacementDecided, uid: JobUid | None) -> bool:
        site = self._terms.site
        if uid is None:
            return await self._writer.carry_out(obeying(decision, None, None, site, self._now_us()))
        async with self._lock(uid):
            seen, record = await self._sight.seen(uid)
            if record is None and seen.job is not None:
                await self._look_guarded(uid)  # it may have come before this process did
                seen, record = await self._sight.seen(uid, surely=True)
            wanted = obeying(decision, seen.job, record, site, self._now_us())
            done = await self._writer.carry_out(wanted)
        self._work.touch(uid, is_urgent=True)
        return done

    async def _look(self, uid: JobUid) -> None:
        for _ in range(_LOOKS_AT_ONCE):
            wanted = await self._wanted(uid)
            if not any(isinstance(each, RefuseJob) for each in wanted):
                self._sight.note_refused(uid, "")
            for each in wanted:
                if isinstance(each, LookAgain):
                    self._work.later(uid, each.after_s)
            if await self._writer.carry_out(wanted):
                return
        self._work.later(uid, _RETRY_S)

    def _lock(self, uid: JobUid) -> asyncio.Lock:
        """What a Job and its copies have in common; it goes when nobody holds it."""
        return self._locks.setdefault(self._sight.root(uid), asyncio.Lock())

    async def _of_id(self, job_id: str) -> JobUid | None:
        """Return the Job of an id. One that was not seen is asked for, and so is its record: a
        process that was stalled may have seen neither, and what runs is not declined."""
        found = self.mirror.of_id(job_id)
        parts = job_id.split("/")
        if found is not None or not job_id.startswith(self._own) or len(parts) != _ID_PARTS:
            return found
        job = await self._sight.fetched(JobKey(*parts[1:4]))
        if job is not None and id_of(job, self._terms) == job_id:
            return job.id
        return await self._sight.recorded(parts[1], job_id)

    async def _wanted(self, uid: JobUid) -> Sequence[JobEffect]:
        seen, record = await self._sight.seen(uid)
        if record is None and seen.job is not None and self._sight.is_copy(seen.job):
            return await self._of_copy(seen.job)
        wanted = reconcile(seen, record, self._terms, self._now_us())
        told = self._sight.told.get(uid, ())
        wanted = [
            each for each in wanted if not (isinstance(each, PublishFact) and each.event.id in told)
        ]
        return wanted if record is None else await self._offered(seen.job, record, wanted)

    async def _offered(
        self, job: KubernetesJob | None, record: KubernetesRecord, wanted: Sequence[JobEffect]
    ) -> Sequence[JobEffect]:
        """What is wanted once clusters have declared what a job asks for that is to be submitted;
        where that has to wait, without it."""
        submitted = [each for each in wanted if _is_fact_of(record, each, is_submission=True)]
        if self._offer is None or not submitted:
            return wanted
        why = await self._offer(record.submitted)
        if not why or any(_is_fact_of(record, each, is_submission=False) for each in wanted):
            return wanted
        rest = [each for each in wanted if each not in submitted]
        body = records.explaining(record, ExplainedWait(why))
        if record.merged(body["status"]) != record:
            rest.append(PatchRecord(record, body, "explained"))
            rest += [NotifyUser(job, "Waits", why)] if job is not None else []
        return [*rest, LookAgain(_UNSUBMITTED_S)]

    async def _of_copy(self, copy: KubernetesJob) -> Sequence[JobEffect]:
        record = self.mirror.of_run(copy.key)
        cluster, name = copy.labels.get(COPY_OF, ""), copy.annotations.get(RECORD, "")
        if record is None and cluster in self._clusters and name:
            record = await self._sight.fetched_record(JobUid(cluster, name))
        if record is not None and record.run_key == copy.key:
            self.touch(record.id)
        return stray(copy, record)

    async def _look_guarded(self, uid: JobUid) -> None:
        """Do what follows from the state of a Job, or look at it again when that fails."""
        try:
            await self._look(uid)
        except ApiUnavailableError as error:
            log.warning("tried again", job="/".join(uid), problem=str(error))
            self._work.later(uid, _RETRY_S)
        except FactRefusedError as error:
            self._set_aside(uid, error)
            await self._say(uid, str(error))
        except Exception as error:  # noqa: BLE001 no Job may hold up others
            self._set_aside(uid, error)
        else:
            self._sight.note_aside(uid, "")

    def _set_aside(self, uid: JobUid, error: Exception) -> None:
        """Leave a Job that fails; where nobody expected it, the log has the place."""
        is_expected = isinstance(error, UnusableError)
        if self._sight.aside.get(uid) != str(error):
            log.error("set aside", job="/".join(uid), problem=repr(error), exc_info=not is_expected)
        self._sight.note_aside(uid, str(error))
        self._work.later(uid, _REFUSED_RETRY_S)

    async def _say(self, uid: JobUid, why: str) -> None:
        """Report to a Job's user why Coplace does not know of it."""
        job = self.mirror.job(uid)
        try:
            await self._writer.carry_out([RefuseJob(job, why)] if job else ())
        except ApiError as error:
            log.warning("refusal not written to the Job", job="/".join(uid), problem=str(error))


def _is_fact_of(record: KubernetesRecord, effect: JobEffect, *, is_submission: bool) -> bool:
    """Return whether a fact says that a job was submitted, or else more of it than that."""
    if not isinstance(effect, PublishFact):
        return False
    kind = effect.event.WhichOneof("payload") or ""
    is_of_job = getattr(effect.event, kind).job_id == record.job_id
    return is_of_job and (kind == "job_submitted") is is_submission
