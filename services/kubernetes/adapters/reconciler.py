"""Carries out what follows from decisions and from the states of Jobs, Job by Job in order."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

import structlog
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.errors import RejectedError, UnusableError
from coplace_client.ingest import FactRefusedError
from services.kubernetes.model.bodies import Body, annotated, update
from services.kubernetes.model.facts import JobTerms, id_of
from services.kubernetes.model.jobs import (
    JobKey,
    JobUid,
    KubernetesJob,
    identified,
)
from services.kubernetes.model.names import (
    COPY_OF,
    PROBLEM,
    QUEUE_NAME,
    RECORD,
)
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.model.states import QueueState, queue_state
from services.kubernetes.processor.decisions import obeying
from services.kubernetes.processor.effects import (
    CreateCopy,
    CreateRecord,
    DeleteJob,
    DeleteRecord,
    JobEffect,
    LookLater,
    NotifyUser,
    PatchJob,
    PatchRecord,
    PatchStatus,
    RefuseJob,
)
from services.kubernetes.processor.mirror import JobMirror
from services.kubernetes.processor.reconcile import reconcile, stray
from services.kubernetes.processor.seen import SeenJob
from shared.domain.times import in_utc
from shared.kubernetes.api import (
    ApiConflictError,
    ApiError,
    ApiMissingError,
    ApiRefusedError,
    ApiUnavailableError,
)
from shared.kubernetes.decisions import DecisionsInOrder
from shared.kubernetes.effects import PublishFact
from shared.kubernetes.events import user_event as event_about
from shared.kubernetes.facts import FactTaker
from shared.kubernetes.texts import shown
from shared.kubernetes.work_list import WorkList

_RETRY_S: Final = 2.0
_REFUSED_RETRY_S: Final = 60.0
# How often a Job is asked for that no list has: while its end is to be published, and after that,
# until it goes and its record with it, whenever it is twice as old, within these bounds.
_OUTSIDE_S: Final = 5.0
_ENDED_OUTSIDE_S: Final = (60.0, 3600.0)
# A Job that changes faster than it is looked at waits for its next turn.
_LOOKS_AT_ONCE: Final = 8
_ID_PARTS: Final = 6

log = structlog.get_logger(__name__)


class JobApi(Protocol):
    """What of an API server is needed; `JobServer` has it."""

    async def get(self, key: JobKey) -> Mapping[str, Any]: ...
    async def patch(self, key: JobKey, body: Body) -> Mapping[str, Any]: ...
    async def patch_status(self, key: JobKey, body: Body) -> Mapping[str, Any]: ...
    async def create(self, key: JobKey, body: Body) -> Mapping[str, Any]: ...
    async def delete(self, key: JobKey, uid: str) -> None: ...
    async def get_record(self, name: str) -> Mapping[str, Any]: ...
    async def patch_record(self, name: str, body: Body) -> Mapping[str, Any]: ...
    async def create_record(self, body: Body) -> Mapping[str, Any]: ...
    async def delete_record(self, name: str, uid: str) -> None: ...
    async def tell(self, namespace: str, event: Body) -> None: ...


class UnknownClusterError(UnusableError):
    """A Job runs on a cluster that this process does not serve."""


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
        offer: Callable[[JobSubmitted], Awaitable[None]] | None = None,
    ) -> None:
        """`offer` has clusters declare what a job asks of nodes, before it is submitted."""
        self._apis, self._facts, self._terms, self._now_us = apis, facts, terms, now_us
        self._odd, self._offer = odd, offer
        self.mirror = JobMirror(lambda job: id_of(job, terms))
        self._own = tuple(f"{terms.site}/{cluster}/" for cluster in apis)
        self._locks: WeakValueDictionary[JobUid, asyncio.Lock] = WeakValueDictionary()
        self._told: defaultdict[JobUid, set[str]] = defaultdict(set)
        self._refused: dict[JobUid, str] = {}
        self._aside: dict[JobUid, str] = {}
        self._work = WorkList(self._look_locked)
        self._decisions = DecisionsInOrder(self._of_id, self._obeyed, self._set_aside, _RETRY_S)

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Replace all Jobs of a cluster."""
        jobs = (self._identified(cluster, fields) for fields in found)
        for uid in self.mirror.replace(cluster, [job for job in jobs if job]):
            self.touch(uid)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a Job is new, or has changed."""
        if job := self._identified(cluster, found):
            self.mirror.put(job)
            self.touch(job.id)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a Job was deleted, or has left the queue."""
        if job := self._identified(cluster, found):
            self._forget(job.id)

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
        if record := self._parsed(cluster, found):
            self.mirror.put_record(record)
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

    def states(self) -> Iterator[tuple[str, QueueState]]:
        """Yield the cluster and the state of each Job that is not a copy."""
        for job in self.mirror.jobs():
            record, is_aside = self.mirror.record(job.id), job.id in self._aside
            if record is not None or not job.is_copy:
                is_refused = job.id in self._refused
                yield job.cluster, queue_state(record, is_refused=is_refused, is_aside=is_aside)

    def asked(self) -> Iterator[JobSubmitted]:
        """Yield what Jobs asked for that have not ended."""
        return (each.submitted for each in self.mirror.records() if not each.outcome)

    def touch(self, uid: JobUid) -> None:
        """Note that something may have to be done about a Job."""
        self._work.touch(uid)

    async def work(self) -> None:
        """Do what is to be done about touched Jobs, until cancelled. Several may work at once."""
        await self._work.work()

    async def work_off(self) -> None:
        """Do what has to be done about Jobs, until nothing is left."""
        await self._work.work_off()

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
            return await self._carry_out(obeying(decision, None, None, site, self._now_us()))
        async with self._lock(uid):
            seen, record = await self._seen(uid)
            if record is None and seen.job is not None:
                await self._look_guarded(uid)  # it may have come before this process did
                seen, record = await self._seen(uid)
            wanted = obeying(decision, seen.job, record, site, self._now_us())
            done = await self._carry_out(wanted)
        self.touch(uid)
        return done

    async def _look(self, uid: JobUid) -> None:
        for _ in range(_LOOKS_AT_ONCE):
            wanted = await self._wanted(uid)
            if not any(isinstance(each, RefuseJob) for each in wanted):
                self._refused.pop(uid, None)
            if await self._carry_out(wanted):
                return
        self._work.later(uid, _RETRY_S)

    def _lock(self, uid: JobUid) -> asyncio.Lock:
        """What a Job and its copies have in common; it goes when nobody holds it."""
        return self._locks.setdefault(self._root(uid), asyncio.Lock())

    def _root(self, uid: JobUid) -> JobUid:
        job = self.mirror.job(uid)
        if job is None or self.mirror.record(uid) is not None:
            return uid
        record = self.mirror.of_run(job.key)
        return record.id if record else uid

    async def _of_id(self, job_id: str) -> JobUid | None:
        """Return the Job of an id: asked for where it was not seen, so that none is taken to be
        deleted."""
        found = self.mirror.of_id(job_id)
        parts = job_id.split("/")
        if found is not None or not job_id.startswith(self._own) or len(parts) != _ID_PARTS:
            return found
        job = await self._fetched(JobKey(*parts[1:4]))
        return job.id if job and id_of(job, self._terms) == job_id else None

    async def _wanted(self, uid: JobUid) -> Sequence[JobEffect]:
        seen, record = await self._seen(uid)
        if record is None and seen.job is not None and self._is_copy(seen.job):
            return await self._of_copy(seen.job)
        wanted = reconcile(seen, record, self._terms, self._now_us())
        told = self._told.get(uid, ())
        return [
            each for each in wanted if not (isinstance(each, PublishFact) and each.event.id in told)
        ]

    async def _seen(self, uid: JobUid) -> tuple[SeenJob, KubernetesRecord | None]:
        """Return a Job with what runs for it, and its record; what was not seen is asked for, so
        that nothing is taken to be missing."""
        job, record = self.mirror.job(uid), self.mirror.record(uid)
        if record is None:
            record = await self._fetched_record(uid)
        if record is not None and not self._is_listed(job):
            job = await self._unlisted(record.job_key, record, uid.uid)
        if record is None or not record.claim.grant:
            return SeenJob(job), record
        run = await self._run(record, job)
        key, grant = record.run_key, record.claim.grant
        seen = self.mirror.disruption(key, grant), self.mirror.pods(key, grant)
        return SeenJob(job, run, *seen), record

    async def _run(
        self, record: KubernetesRecord, job: KubernetesJob | None
    ) -> KubernetesJob | None:
        if not record.runs_as_copy:
            return job
        found, run_uid = self.mirror.at(record.run_key), record.claim.run_uid
        if run_uid and (found is None or found.uid != run_uid or not self._is_listed(found)):
            found = await self._unlisted(record.run_key, record, run_uid)
        return found if found and run_uid in ("", found.uid) else None

    def _is_listed(self, job: KubernetesJob | None) -> bool:
        """Return whether the lists of the queue have a Job, so that its changes are seen."""
        return job is not None and job.labels.get(QUEUE_NAME) == self._terms.queue

    async def _unlisted(
        self, key: JobKey, record: KubernetesRecord, uid: str
    ) -> KubernetesJob | None:
        """Return a Job that no list has, as it is now. Nobody says when it changes or goes: it is
        looked at again."""
        found = await self._fetched(key)
        if found is None or found.uid != uid:
            self.mirror.remove(JobUid(key.cluster, uid))
            return None
        if not self._is_listed(found):
            has_ended = bool(record.outcome) and record.by_hand is None
            self._work.later(record.id, self._ended_wait_s(found) if has_ended else _OUTSIDE_S)
        return found

    def _ended_wait_s(self, job: KubernetesJob) -> float:
        least_s, most_s = _ENDED_OUTSIDE_S
        return min(max((self._now_us() - job.created_at_us) / 1e6, least_s), most_s)

    def _is_copy(self, job: KubernetesJob) -> bool:
        """Whether it runs for another Job, as a record says, or as it says itself."""
        record = self.mirror.of_run(job.key)
        return job.is_copy or (record is not None and record.claim.run_uid == job.uid)

    async def _of_copy(self, copy: KubernetesJob) -> Sequence[JobEffect]:
        record = self.mirror.of_run(copy.key)
        cluster, name = copy.labels.get(COPY_OF, ""), copy.annotations.get(RECORD, "")
        if record is None and cluster in self._apis and name:
            record = await self._fetched_record(JobUid(cluster, name))
        if record is not None and record.run_key == copy.key:
            self.touch(record.id)
        return stray(copy, record)

    async def _fetched(self, key: JobKey) -> KubernetesJob | None:
        """Return the Job of a name as it is now."""
        try:
            job = identified(key.cluster, await self._api(key.cluster).get(key))
        except ApiMissingError:
            return None
        self._note(job)
        return job

    def _note(self, job: KubernetesJob) -> None:
        """Note a Job as it was seen, while the lists have it: of another one nobody says when it
        goes."""
        if self._is_listed(job):
            self.mirror.put(job)
        else:
            self.mirror.remove(job.id)

    async def _fetched_record(self, uid: JobUid) -> KubernetesRecord | None:
        """Return the record of a Job as it is now."""
        try:
            found = await self._api(uid.cluster).get_record(uid.uid)
        except ApiMissingError:
            self.mirror.remove_record(uid)
            return None
        record = KubernetesRecord.parse(uid.cluster, found)
        self.mirror.put_record(record)
        return record

    def _api(self, cluster: str) -> JobApi:
        if cluster not in self._apis:
            raise UnknownClusterError(f"cluster {cluster} is not one of this process")
        return self._apis[cluster]

    async def _carry_out(self, effects: Sequence[JobEffect]) -> bool:
        """False where something was otherwise than it was seen: then it has been seen anew."""
        for effect in effects:
            if not await self._done(effect):
                return False
        return True

    async def _done(self, effect: JobEffect) -> bool:
        match effect:
            case PublishFact(event):
                await self._tell(event)
            case NotifyUser(job):
                await self._tell_user(job, effect)
            case PatchStatus(job, body):
                return await self._patch_status(job, body)
            case LookLater(uid, after_s):
                self._work.later(uid, after_s)
            case CreateRecord() | PatchRecord() | DeleteRecord():
                return await self._done_to_record(effect)
            case RefuseJob(job, why):
                return await self._refuse(job, why)
            case _:
                return await self._done_to_job(effect)
        return True

    async def _done_to_record(self, effect: CreateRecord | PatchRecord | DeleteRecord) -> bool:
        match effect:
            case CreateRecord():
                return await self._create_record(effect)
            case PatchRecord():
                return await self._patch_record(effect)
            case DeleteRecord(record):
                await self._delete_record(record)
        return True

    async def _done_to_job(self, effect: PatchJob | CreateCopy | DeleteJob) -> bool:
        match effect:
            case PatchJob():
                return await self._patch(effect)
            case CreateCopy():
                return await self._create(effect)
            case DeleteJob(job):
                await self._delete(job)
        return True

    async def _tell(self, event: Envelope) -> None:
        if self._offer is not None and event.HasField("job_submitted"):
            await self._offer(event.job_submitted)
        await self._facts.tell(event)
        fact = getattr(event, event.WhichOneof("payload") or "")
        uid = self.mirror.of_id(fact.job_id)
        if uid is not None:
            self._told[uid].add(event.id)

    async def _create_record(self, effect: CreateRecord) -> bool:
        try:
            fields = await self._api(effect.id.cluster).create_record(effect.body)
        except ApiConflictError:
            await self._fetched_record(effect.id)
            return False
        self.mirror.put_record(KubernetesRecord.parse(effect.id.cluster, fields))
        return False  # its Job is looked at with it

    async def _patch_record(self, effect: PatchRecord) -> bool:
        uid = effect.record.id
        try:
            fields = await self._api(uid.cluster).patch_record(uid.uid, effect.body)
        except (ApiConflictError, ApiMissingError):
            await self._fetched_record(uid)
            return False
        log.info(effect.words, job=effect.record.job_id)
        self.mirror.put_record(KubernetesRecord.parse(uid.cluster, fields))
        self.touch(uid)
        return True

    async def _delete_record(self, record: KubernetesRecord) -> None:
        uid = record.id
        with suppress(ApiMissingError):
            await self._api(uid.cluster).delete_record(uid.uid, record.record_uid)
        self.mirror.remove_record(uid)
        self._lose(uid)

    async def _patch(self, effect: PatchJob) -> bool:
        job = effect.job
        if effect.record is not None and not await self._is_newest(effect.record):
            return False
        try:
            fields = await self._informed(effect)
        except ApiConflictError:
            await self._see(job)
            return False
        except ApiMissingError:
            self._forget(job.id)
            return False
        except ApiRefusedError as error:
            if effect.otherwise is None:
                raise
            await self._carry_out(effect.otherwise(str(error)))
            return False
        log.info(effect.words, job="/".join(job.key))
        self._saw(job, fields)
        return True

    async def _patch_status(self, job: KubernetesJob, body: Body) -> bool:
        try:
            fields = await self._api(job.cluster).patch_status(job.key, body)
        except (ApiConflictError, ApiMissingError):
            await self._see(job)
            return False
        self._saw(job, fields)
        return False  # it is looked at as it is then

    async def _is_newest(self, record: KubernetesRecord) -> bool:
        """Whether a record is as it was seen. Asked after the Job was seen and before that is
        changed: so a process that was stalled starts and ends nothing on an old word."""
        newest = await self._fetched_record(record.id)
        return newest is not None and newest.version == record.version

    async def _informed(self, effect: PatchJob) -> Mapping[str, Any]:
        """Change a Job; without words for its user where these do not fit."""
        api, key = self._api(effect.job.cluster), effect.job.key
        if not effect.informs:
            return await api.patch(key, effect.body)
        try:
            return await api.patch(key, annotated(effect.body, effect.informs))
        except ApiRefusedError as error:
            log.info("not annotated", job="/".join(key), problem=str(error))
            return await api.patch(key, effect.body)

    async def _refuse(self, job: KubernetesJob, why: str) -> bool:
        is_said = self._refused.get(job.id) == why or job.annotations.get(PROBLEM) == shown(why)
        if not is_said:
            informs, words = {PROBLEM: shown(why)}, f"not understood: {shown(why)}"
            if not await self._patch(PatchJob(job, update(job), words, informs=informs)):
                return False
            await self._tell_user(job, NotifyUser(job, "NotUnderstood", why, is_warning=True))
        self._refused[job.id] = why
        return True

    async def _create(self, effect: CreateCopy) -> bool:
        if not await self._is_newest(effect.record):
            return False
        api = self._api(effect.key.cluster)
        try:
            fields = await api.create(effect.key, effect.body)
        except ApiConflictError:
            await self._fetched(effect.key)  # nobody else can have known its name
            return False
        except (ApiRefusedError, ApiMissingError) as error:
            await self._carry_out(effect.otherwise(str(error)))
            return False
        log.info("created", job="/".join(effect.key))
        self.mirror.put(identified(effect.key.cluster, fields))
        return False  # its Job is looked at with it

    async def _delete(self, job: KubernetesJob) -> None:
        try:
            await self._api(job.cluster).delete(job.key, job.uid)
        except (ApiMissingError, ApiConflictError):
            await self._see(job)

    async def _tell_user(self, job: KubernetesJob, effect: NotifyUser) -> None:
        """It is for reading alone: a failure is logged, and the work goes on."""
        try:
            at = in_utc(time.time())
            await self._api(job.cluster).tell(job.key.namespace, user_event(job, effect, at))
        except ApiError as error:
            log.info("event not taken", job="/".join(job.key), problem=str(error))

    async def _see(self, job: KubernetesJob) -> None:
        """Look at a Job anew."""
        found = await self._fetched(job.key)
        if found is None or found.uid != job.uid:
            self._forget(job.id)
        else:
            self.touch(job.id)

    def _saw(self, job: KubernetesJob, fields: Mapping[str, Any]) -> None:
        found = identified(job.cluster, fields)
        self._note(found)
        if found.resource_version != job.resource_version:
            self.touch(job.id)

    def _forget(self, uid: JobUid) -> None:
        job = self.mirror.job(uid)
        root = self._root(uid)
        self.mirror.remove(uid)
        if job is not None:
            self.touch(root)
        if self.mirror.record(uid) is None:
            self._lose(uid)

    def _lose(self, uid: JobUid) -> None:
        """Nothing is left of a Job."""
        if self.mirror.job(uid) is None:
            self._told.pop(uid, None)
            self._refused.pop(uid, None)
            self._aside.pop(uid, None)

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
            self._aside.pop(uid, None)

    def _set_aside(self, uid: JobUid, error: Exception) -> None:
        """Leave a Job that fails; where nobody expected it, the log has the place."""
        is_expected = isinstance(error, UnusableError)
        if self._aside.get(uid) != str(error):
            log.error("set aside", job="/".join(uid), problem=repr(error), exc_info=not is_expected)
        self._aside[uid] = str(error)
        self._work.later(uid, _REFUSED_RETRY_S)

    async def _say(self, uid: JobUid, why: str) -> None:
        """Report to a Job's user why Coplace does not know of it."""
        job = self.mirror.job(uid)
        try:
            await self._carry_out([RefuseJob(job, why)] if job else ())
        except ApiError as error:
            log.warning("refusal not written to the Job", job="/".join(uid), problem=str(error))


def user_event(job: KubernetesJob, effect: NotifyUser, at: str) -> Body:
    """Return an event about a Job as Kubernetes wants it."""
    namespace, name = job.key.namespace, job.key.name
    about = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "namespace": namespace}
    words = (effect.reason, effect.message, at)
    return event_about({**about, "uid": job.uid}, *words, is_warning=effect.is_warning)
