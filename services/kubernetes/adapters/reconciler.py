"""Carries out what follows from decisions and from the states of Jobs, Job by Job in order."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import structlog
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.ingest import FactRefusedError
from services.kubernetes.adapters.api import (
    ApiConflictError,
    ApiError,
    ApiMissingError,
    ApiRefusedError,
    ApiUnavailableError,
)
from services.kubernetes.model.bodies import Body
from services.kubernetes.model.facts import JobTerms, id_of
from services.kubernetes.model.jobs import JobKey, KubernetesJob
from services.kubernetes.model.names import JOB_ID
from services.kubernetes.processor.decisions import obeying
from services.kubernetes.processor.effects import (
    CreateCopy,
    DeleteJob,
    JobEffect,
    NotifyUser,
    PatchJob,
    PublishFact,
)
from services.kubernetes.processor.mirror import JobMirror
from services.kubernetes.processor.reconcile import problem, reconcile, stray
from shared.domain.times import in_utc

_RETRY_S: Final = 2.0
_REFUSED_RETRY_S: Final = 60.0
_ID_PARTS: Final = 6

log = structlog.get_logger(__name__)


class JobApi(Protocol):
    """What of an API server is needed; `ApiServer` has it."""

    async def get(self, key: JobKey) -> Mapping[str, Any]: ...
    async def patch(self, key: JobKey, body: Body) -> Mapping[str, Any]: ...
    async def create(self, key: JobKey, body: Body) -> Mapping[str, Any]: ...
    async def delete(self, key: JobKey, uid: str) -> None: ...
    async def tell(self, namespace: str, event: Body) -> None: ...


class FactTaker(Protocol):
    """Who takes facts: ingest."""

    async def tell(self, event: Envelope) -> None: ...


class JobReconciler:
    """Keeps nothing that the API servers and Coplace's topics do not have, but what it saw and what
    it published: after a restart it sees and publishes it again."""

    def __init__(
        self,
        apis: Mapping[str, JobApi],
        facts: FactTaker,
        terms: JobTerms,
        now_us: Callable[[], int],
    ) -> None:
        self._apis, self._facts, self._terms, self._now_us = apis, facts, terms, now_us
        self.mirror = JobMirror(lambda job: id_of(job, terms))
        self._own = tuple(f"{terms.site}/{cluster}/" for cluster in apis)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._told: defaultdict[str, set[str]] = defaultdict(set)
        self._touched: dict[JobKey, None] = {}
        self._wake = asyncio.Event()

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Replace all Jobs of a cluster."""
        jobs = [KubernetesJob(cluster, fields) for fields in found]
        for key in self.mirror.replace(cluster, jobs):
            self.touch(key)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a Job is new, or has changed."""
        job = KubernetesJob(cluster, found)
        self.mirror.put(job)
        self.touch(job.key)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a Job was deleted; what runs for it elsewhere may have to go too."""
        job = KubernetesJob(cluster, found)
        seen = self.mirror.get(job.key)
        if seen is not None and seen.uid == job.uid:
            self._forget(job.key)

    def see_pod(self, cluster: str, pod: Mapping[str, Any]) -> None:
        """Note a pod, as it is or as it was at last."""
        key = self.mirror.disrupt(cluster, pod)
        if key is not None:
            self.touch(key)

    def touch(self, key: JobKey) -> None:
        """Note that something may have to be done about a Job."""
        self._touched[key] = None
        self._wake.set()

    async def work(self) -> None:
        """Do what is to be done about touched Jobs, until cancelled. Several may work at once."""
        while True:
            await self._wake.wait()
            await self.work_off()

    async def work_off(self) -> None:
        """Do what has to be done about Jobs, until nothing is left."""
        while self._touched:
            key = next(iter(self._touched))
            del self._touched[key]
            await self._look_again_when_it_fails(key)
        self._wake.clear()

    async def obey(self, decisions: Sequence[PlacementDecided]) -> None:
        """Carry out decisions, of a Job in order, of several Jobs at once; returns when that is
        done, over failures of the API servers."""
        by_job: defaultdict[str, list[PlacementDecided]] = defaultdict(list)
        for decision in decisions:
            by_job[decision.job_id].append(decision)
        await asyncio.gather(*map(self._obey, by_job.values()))

    async def _obey(self, decisions: Sequence[PlacementDecided]) -> None:
        for decision in decisions:
            while not await self._tried(decision):
                pass

    async def look(self, key: JobKey) -> None:
        """Do what follows from the state of a Job. Raises ApiError and FactRefusedError."""
        async with self._locks[self._root(key)]:
            while not await self._carry_out(self._wanted(key)):
                pass

    async def _tried(self, decision: PlacementDecided) -> bool:
        """Whether a decision is carried out; else it is to be looked at again."""
        try:
            async with self._locks[decision.job_id]:
                job = await self._job_of(decision.job_id)
                wanted = obeying(decision, job, self._terms.site, self._now_us())
                done = await self._carry_out(wanted)
        except ApiError as error:
            log.warning("tried again", job=decision.job_id, problem=str(error))
            await asyncio.sleep(_RETRY_S)
            return False
        except FactRefusedError as error:
            log.error("ingest refused", job=decision.job_id, problem=str(error))
            return True
        if job is not None:
            self.touch(job.key)
        return done

    async def _job_of(self, job_id: str) -> KubernetesJob | None:
        """Return the Job of an id: asked for where it was not seen, so that none is taken to be
        deleted."""
        found = self.mirror.of_id(job_id)
        if found is not None or not job_id.startswith(self._own):
            return found
        parts = job_id.split("/")
        if len(parts) != _ID_PARTS:
            return None
        return await self._fetched(JobKey(*parts[1:4]), job_id)

    async def _fetched(self, key: JobKey, job_id: str) -> KubernetesJob | None:
        try:
            job = KubernetesJob(key.cluster, await self._apis[key.cluster].get(key))
        except ApiMissingError:
            return None
        self.mirror.put(job)
        return job if id_of(job, self._terms) == job_id else None

    def _root(self, key: JobKey) -> str:
        """What a Job and its copies have in common: decisions name it."""
        job = self.mirror.get(key)
        if job is None:
            return "/".join(key)
        return job.annotations.get(JOB_ID, "") if job.is_copy else id_of(job, self._terms)

    def _wanted(self, key: JobKey) -> Sequence[JobEffect]:
        job = self.mirror.get(key)
        if job is None:
            return ()
        if job.is_copy:
            origin = self.mirror.of_id(job.annotations.get(JOB_ID, ""))
            if origin is not None:
                self.touch(origin.key)
            return stray(job, origin)
        run = self.mirror.get(job.run_key)
        disruption = self.mirror.disruption(run, job.claim.grant) if run else None
        wanted = reconcile(job, run, disruption, self._terms, self._now_us())
        told = self._told[self._root(key)]
        return [
            each for each in wanted if not (isinstance(each, PublishFact) and each.event.id in told)
        ]

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
            case PatchJob(job):
                return await self._patch(job, effect)
            case CreateCopy():
                return await self._create(effect)
            case DeleteJob(job):
                await self._delete(job)
            case NotifyUser(job):
                await self._tell_user(job, effect)
        return True

    async def _tell(self, event: Envelope) -> None:
        await self._facts.tell(event)
        fact = getattr(event, event.WhichOneof("payload") or "")
        self._told[fact.job_id].add(event.id)

    async def _patch(self, job: KubernetesJob, effect: PatchJob) -> bool:
        try:
            fields = await self._apis[job.cluster].patch(job.key, effect.body)
        except ApiConflictError:
            await self._see(job.key)
            return False
        except ApiMissingError:
            self._forget(job.key)
            return False
        except ApiRefusedError as error:
            if effect.otherwise is None:
                raise
            return await self._carry_out(effect.otherwise(str(error)))
        log.info(effect.words, job="/".join(job.key))
        self._saw(job.key, fields)
        return True

    async def _create(self, effect: CreateCopy) -> bool:
        api = self._apis[effect.key.cluster]
        try:
            fields = await api.create(effect.key, effect.body)
        except ApiConflictError:
            fields = await api.get(effect.key)
            found = KubernetesJob(effect.key.cluster, fields)
            if found.annotations.get(JOB_ID) != effect.body["metadata"]["annotations"][JOB_ID]:
                return await self._carry_out(effect.otherwise("another Job has the copy's name"))
        except (ApiRefusedError, ApiMissingError) as error:
            return await self._carry_out(effect.otherwise(str(error)))
        log.info("created", job="/".join(effect.key))
        self._saw(effect.key, fields)
        return True

    async def _delete(self, job: KubernetesJob) -> None:
        try:
            await self._apis[job.cluster].delete(job.key, job.uid)
        except (ApiMissingError, ApiConflictError):
            await self._see(job.key)

    async def _tell_user(self, job: KubernetesJob, effect: NotifyUser) -> None:
        """It is for reading alone: a failure is logged, and the work goes on."""
        try:
            at = in_utc(time.time())
            await self._apis[job.cluster].tell(job.key.namespace, user_event(job, effect, at))
        except ApiError as error:
            log.info("event not taken", job="/".join(job.key), problem=str(error))

    async def _see(self, key: JobKey) -> None:
        """Look at a Job anew."""
        try:
            self._saw(key, await self._apis[key.cluster].get(key))
        except ApiMissingError:
            self._forget(key)

    def _saw(self, key: JobKey, fields: Mapping[str, Any]) -> None:
        self.mirror.put(KubernetesJob(key.cluster, fields))
        self.touch(key)

    def _forget(self, key: JobKey) -> None:
        job = self.mirror.get(key)
        self.mirror.remove(key)
        if job is None:
            return
        job_id = job.annotations.get(JOB_ID, "")
        if not job.is_copy:
            self._told.pop(job_id, None)
        for each in self.mirror.copies(job_id):
            self.touch(each.key)
        if origin := self.mirror.of_id(job_id):
            self.touch(origin.key)

    async def _look_again_when_it_fails(self, key: JobKey) -> None:
        try:
            await self.look(key)
        except ApiUnavailableError as error:
            self._later(key, _RETRY_S, error)
        except ApiError as error:
            self._later(key, _REFUSED_RETRY_S, error)
        except FactRefusedError as error:
            self._later(key, _REFUSED_RETRY_S, error)
            await self._say(key, str(error))

    async def _say(self, key: JobKey, why: str) -> None:
        """Report to a Job's user why Coplace does not know of it."""
        job = self.mirror.get(key)
        try:
            await self._carry_out(problem(job, why) if job else ())
        except ApiError as error:
            log.warning("not said", job="/".join(key), problem=str(error))

    def _later(self, key: JobKey, wait_s: float, error: Exception) -> None:
        log.warning("tried again", job="/".join(key), problem=str(error))
        asyncio.get_running_loop().call_later(wait_s, self.touch, key)


def user_event(job: KubernetesJob, effect: NotifyUser, at: str) -> Body:
    """Return an event as Kubernetes wants it."""
    namespace, name = job.key.namespace, job.key.name
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{name[:50]}.", "namespace": namespace},
        "involvedObject": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "namespace": namespace,
            "uid": job.uid,
        },
        "reason": effect.reason,
        "message": effect.message[:1024],
        "type": "Warning" if effect.is_warning else "Normal",
        "source": {"component": "coplace"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
