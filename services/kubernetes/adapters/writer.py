"""Does what follows from decisions and from the states of Jobs, at API servers and ingest."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import structlog
from coplace.v1.ingest_service_pb2 import Envelope

from services.kubernetes.adapters.kueue import write_workload
from services.kubernetes.adapters.sight import JobSight
from services.kubernetes.model.bodies import Body, annotated, update
from services.kubernetes.model.conditions import (
    RecordCondition,
    came_true,
    conditions_after,
    queued,
)
from services.kubernetes.model.jobs import JobKey, JobUid, KubernetesJob, identified
from services.kubernetes.model.names import PROBLEM
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.processor.effects import (
    AdmitCopy,
    CreateCopy,
    CreateRecord,
    DeleteJob,
    DeleteRecord,
    EvictCopy,
    JobEffect,
    NotifyUser,
    PatchJob,
    PatchRecord,
    PatchStatus,
    RefuseJob,
)
from shared.domain.times import in_utc
from shared.kubernetes.api import ApiConflictError, ApiMissingError, ApiRefusedError
from shared.kubernetes.effects import LookAgain, PublishFact
from shared.kubernetes.events import UserEvents
from shared.kubernetes.events import user_event as event_about
from shared.kubernetes.facts import FactTaker
from shared.kubernetes.texts import shown
from shared.kubernetes.work_list import WorkList
from shared.kueue.workloads import identified as workload_of

log = structlog.get_logger(__name__)


class JobNotice(NamedTuple):
    """What the user of a Job reads, which may be deleted by then."""

    key: JobKey
    uid: str
    reason: str
    message: str
    is_warning: bool = False


class JobWriter:
    """Each write names the version that it was decided on; where that is another by then the object
    is looked at anew."""

    def __init__(
        self,
        sight: JobSight,
        work: WorkList[JobUid],
        facts: FactTaker,
        events: UserEvents,
        now_us: Callable[[], int],
    ) -> None:
        self._sight, self._work, self._facts, self._events = sight, work, facts, events
        self._now_us = now_us

    async def carry_out(self, effects: Sequence[JobEffect]) -> bool:
        """Return False where something was otherwise than it was seen: it has been seen anew."""
        for effect in effects:
            if not await self._done(effect):
                return False
        return True

    async def _done(self, effect: JobEffect) -> bool:
        match effect:
            case PublishFact(event):
                await self._tell(event)
            case NotifyUser(job):
                self._tell_user(job, effect)
            case PatchStatus(job, body):
                return await self._patch_status(job, body)
            case LookAgain():
                pass  # who looks sees to it
            case AdmitCopy() | EvictCopy():
                return await self._write_workload(effect)
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
        await self._facts.tell(event)
        fact = getattr(event, event.WhichOneof("payload") or "")
        uid = self._sight.mirror.of_id(fact.job_id)
        if uid is not None:
            self._sight.told[uid].add(event.id)

    async def _create_record(self, effect: CreateRecord) -> bool:
        asked = self._sight.api(effect.id.cluster).create_record(effect.body)
        try:
            record = await self._sight.answered_record(effect.id, asked)
        except ApiConflictError:
            await self._sight.fetched_record(effect.id)
            return False
        self._say(record, [queued(record)])
        return False  # its Job is looked at with it

    async def _patch_record(self, effect: PatchRecord) -> bool:
        uid = effect.record.id
        status = effect.body["status"]
        conditions = conditions_after(effect.record, status, self._now_us())
        body = {**effect.body, "status": {**status, "conditions": conditions}}
        asked = self._sight.api(uid.cluster).patch_record(uid.uid, body)
        try:
            after = await self._sight.answered_record(uid, asked)
        except (ApiConflictError, ApiMissingError):
            await self._sight.fetched_record(uid)
            return False
        log.info(effect.words, job=effect.record.job_id)
        self._say(effect.record, came_true(effect.record, after))
        return True

    async def _delete_record(self, record: KubernetesRecord) -> None:
        uid = record.id
        with suppress(ApiMissingError):
            await self._sight.api(uid.cluster).delete_record(uid.uid, record.record_uid)
        self._sight.mirror.remove_record(uid)
        self._sight.lose(uid)

    async def _patch(self, effect: PatchJob) -> bool:
        job = effect.job
        if effect.record is not None and not await self._sight.is_newest(effect.record, job):
            return False
        try:
            fields = await self._informed(effect)
        except ApiConflictError:
            await self._sight.see(job)
            return False
        except ApiMissingError:
            self._sight.forget(job.id)
            return False
        except ApiRefusedError as error:
            if effect.otherwise is None:
                raise
            await self.carry_out(effect.otherwise(str(error)))
            return False
        log.info(effect.words, job="/".join(job.key))
        self._sight.saw(job, fields)
        return True

    async def _patch_status(self, job: KubernetesJob, body: Body) -> bool:
        try:
            fields = await self._sight.api(job.cluster).patch_status(job.key, body)
        except (ApiConflictError, ApiMissingError):
            await self._sight.see(job)
            return False
        self._sight.saw(job, fields)
        return False  # it is looked at as it is then

    async def _informed(self, effect: PatchJob) -> Mapping[str, Any]:
        """Change a Job; without words for its user where these do not fit."""
        api, key = self._sight.api(effect.job.cluster), effect.job.key
        if not effect.informs:
            return await api.patch(key, effect.body)
        try:
            return await api.patch(key, annotated(effect.body, effect.informs))
        except ApiRefusedError as error:
            log.info("not annotated", job="/".join(key), problem=str(error))
            return await api.patch(key, effect.body)

    async def _refuse(self, job: KubernetesJob, why: str) -> bool:
        is_known = self._sight.refused.get(job.id) == why
        if not is_known and job.annotations.get(PROBLEM) != shown(why):
            informs, words = {PROBLEM: shown(why)}, f"not understood: {shown(why)}"
            if not await self._patch(PatchJob(job, update(job), words, informs=informs)):
                return False
            self._tell_user(job, NotifyUser(job, "NotUnderstood", why, is_warning=True))
        self._sight.note_refused(job.id, why)
        return True

    async def _create(self, effect: CreateCopy) -> bool:
        if not await self._sight.is_newest(effect.record):
            return False
        api = self._sight.api(effect.key.cluster)
        try:
            fields = await api.create(effect.key, effect.body)
        except ApiConflictError:
            await self._sight.fetched(effect.key)  # nobody else can have known its name
            return False
        except (ApiRefusedError, ApiMissingError) as error:
            await self.carry_out(effect.otherwise(str(error)))
            return False
        log.info("created", job="/".join(effect.key))
        self._sight.mirror.put(identified(effect.key.cluster, fields))
        return False  # its Job is looked at with it

    async def _delete(self, job: KubernetesJob) -> None:
        try:
            await self._sight.api(job.cluster).delete(job.key, job.uid, job.resource_version)
        except (ApiMissingError, ApiConflictError):
            await self._sight.see(job)

    async def _write_workload(self, effect: AdmitCopy | EvictCopy) -> bool:
        workload = effect.workload
        api, key = self._sight.api(workload.server), workload.key
        try:
            fields = await write_workload(api, effect, self._now_us())
        except (ApiConflictError, ApiMissingError):
            await self._sight.see_workload(workload)
            return False
        log.info(str(effect), workload="/".join(key))
        self._sight.mirror.see_workload(workload_of(workload.server, fields))
        return False  # its Job is looked at with it

    def _tell_user(self, job: KubernetesJob, effect: NotifyUser) -> None:
        words = (effect.reason, effect.message, effect.is_warning)
        self.notify(JobNotice(job.key, job.uid, *words))

    def _say(self, record: KubernetesRecord, found: Iterable[RecordCondition]) -> None:
        for each in found:
            words = (each.kind, each.message)
            self.notify(JobNotice(record.job_key, record.id.uid, *words))

    def notify(self, notice: JobNotice) -> None:
        """Have the user of a Job read something, some time soon."""
        self._events.add(notice.key.cluster, user_event(notice, in_utc(time.time())))


def user_event(notice: JobNotice, at: str) -> Body:
    """Return an event about a Job as Kubernetes wants it."""
    _, namespace, name = notice.key
    about = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "namespace": namespace}
    words = (notice.reason, notice.message, at)
    return event_about({**about, "uid": notice.uid}, *words, is_warning=notice.is_warning)
