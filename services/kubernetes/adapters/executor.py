"""Runs the assignments of a cluster: Jobs there, and what becomes of them at home.

Where the Kueue there lets them run, their check is answered here."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import structlog

from coplace_client.errors import RejectedError, UnusableError
from services.kubernetes.adapters.home import HOME
from services.kubernetes.adapters.kueue import CopyWorkloadApi, write_workload
from services.kubernetes.model.assignments import (
    JobAssignment,
    refused,
    run_body,
    status_patch,
)
from services.kubernetes.model.bodies import Body
from services.kubernetes.model.jobs import JobKey, KubernetesJob, identified
from services.kubernetes.model.states import CopyState, copy_state
from services.kubernetes.model.tally import StateTally
from services.kubernetes.processor.by_kueue import waits_in_kueue
from services.kubernetes.processor.copy_workloads import CopyWorkloads, copy_key
from services.kubernetes.processor.effects import AdmitCopy, DeleteJob, EvictCopy, PatchJob
from services.kubernetes.processor.execute import (
    CreateRun,
    ExecutorEffect,
    SayOfAssignment,
    SeenAssignment,
    execute,
)
from services.kubernetes.processor.mirror import JobMirror
from shared.kubernetes.api import (
    ApiConflictError,
    ApiMissingError,
    ApiRefusedError,
    ApiUnavailableError,
)
from shared.kubernetes.objects import is_older
from shared.kubernetes.work_list import WorkList
from shared.kueue.workloads import KueueWorkload
from shared.kueue.workloads import identified as workload_of

_RETRY_S: Final = 2.0
_REFUSED_RETRY_S: Final = 60.0
# An assignment that changes faster than it is looked at waits for its next turn.
_LOOKS_AT_ONCE: Final = 8
# What is said of a run has all of its pods: of many it is said every few seconds.
_MANY_PODS: Final = 100
_PODS_A_SECOND: Final = 1000

log = structlog.get_logger(__name__)


class AssignmentApi(Protocol):
    """What of the home cluster is needed; `HomeServer` has it."""

    async def get_assignment(self, key: JobKey) -> Mapping[str, Any]: ...
    async def say(self, key: JobKey, body: Body) -> Mapping[str, Any]: ...


class RunApi(CopyWorkloadApi, Protocol):
    """What of the executor's own cluster is needed; `JobServer` has it."""

    async def get(self, key: JobKey) -> Mapping[str, Any]: ...
    async def patch(self, key: JobKey, body: Body) -> Mapping[str, Any]: ...
    async def create(self, key: JobKey, body: Body) -> Mapping[str, Any]: ...
    async def delete(self, key: JobKey, uid: str, version: str) -> None: ...


class JobExecutor:
    """Keeps nothing that the two API servers do not have, but what it saw: after a restart it sees
    it again. What fails is set aside, and looked at again when it changes and each minute."""

    def __init__(
        self,
        cluster: str,
        home: AssignmentApi,
        own: RunApi,
        now_us: Callable[[], int],
        odd: Callable[[str], object] = str,
        monotonic_s: Callable[[], float] = time.monotonic,
        *,
        follows_kueue: bool = False,
    ) -> None:
        """Workloads are passed on where it `follows_kueue`."""
        self._monotonic_s, self._follows_kueue = monotonic_s, follows_kueue
        self._cluster, self._home, self._own = cluster, home, own
        self._now_us, self._odd = now_us, odd
        self._assignments: dict[JobKey, JobAssignment] = {}
        self._mirror = JobMirror(lambda job: job.uid)
        self._workloads = CopyWorkloads()
        self._work: WorkList[JobKey] = WorkList(self._look_guarded)
        self._not_before_s: dict[JobKey, float] = {}
        self._tally: StateTally[JobKey, CopyState] = StateTally()

    def counts(self) -> Mapping[CopyState, int]:
        """Return how many copies are in each state."""
        return self._tally.counts()

    # What the home cluster has.

    def replace_assignments(self, found: Sequence[Mapping[str, Any]]) -> None:
        """Replace all assignments."""
        before, self._assignments = self._assignments, {}
        for fields in found:
            self.changed_assignment(fields)
        for key in before:
            if key not in self._assignments:
                self._workloads.forget(key)
            self._work.touch(key)

    def changed_assignment(self, found: Mapping[str, Any]) -> None:
        """Note that an assignment is new, or has changed."""
        try:
            self._note(JobAssignment.parse(self._cluster, found))
        except RejectedError as error:
            log.error("not an assignment", problem=str(error))
            self._odd(HOME)

    def deleted_assignment(self, found: Mapping[str, Any]) -> None:
        """Note that an assignment was deleted."""
        try:
            gone = JobAssignment.parse(self._cluster, found)
        except RejectedError:
            return
        seen = self._assignments.get(gone.key)
        if seen is not None and seen.uid == gone.uid:
            self._forget(gone.key)
        self._work.touch(gone.key)

    def _forget(self, key: JobKey) -> None:
        self._assignments.pop(key, None)
        self._not_before_s.pop(key, None)
        self._workloads.forget(key)

    def _note(self, found: JobAssignment) -> None:
        before = self._assignments.get(found.key)
        if before is not None and (
            before == found or is_older(found.resource_version, before.resource_version)
        ):
            return
        self._assignments[found.key] = found
        self._work.touch(found.key)

    # What its own cluster has.

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Replace all Jobs."""
        jobs = [job for job in map(self._identified, found) if job]
        before = {job.key for job in self._mirror.jobs()}
        self._mirror.replace(self._cluster, jobs)
        for key in before | {job.key for job in jobs}:
            self._work.touch(key)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a Job is new, or has changed."""
        if (job := self._identified(found)) and self._mirror.put(job):
            self._work.touch(job.key)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a Job was deleted."""
        if job := self._identified(found):
            self._mirror.remove(job.id)
            self._work.touch(job.key)

    def see_pod(self, cluster: str, pod: Mapping[str, Any], *, is_removed: bool = False) -> None:
        """Note a pod, as it is, or as it was when it was deleted."""
        removed_us = self._now_us() if is_removed else 0
        uid = self._mirror.see_pod(self._cluster, pod, removed_us)
        job = self._mirror.job(uid) if uid else None
        if job is not None:
            self._work.touch(job.key)

    def see_workload(self, found: KueueWorkload, *, is_removed: bool = False) -> None:
        """Note a Workload of Kueue that is new, has changed or was deleted."""
        if copy_key(found) not in self._assignments:
            return
        if is_removed:
            self._workloads.lose(found)
        else:
            self._workloads.put(found)
        self._work.touch(copy_key(found))

    def _identified(self, found: Mapping[str, Any]) -> KubernetesJob | None:
        try:
            return identified(self._cluster, found)
        except RejectedError as error:
            log.error("not a Job", problem=str(error))
            self._odd(self._cluster)
            return None

    # What follows.

    async def work(self) -> None:
        """Do what is to be done, until cancelled. Several may work at once."""
        await self._work.work()

    async def work_off(self) -> None:
        """Do what is to be done, until nothing is left."""
        await self._work.work_off()

    async def _look_guarded(self, key: JobKey) -> None:
        try:
            await self._look(key)
        except ApiUnavailableError as error:
            log.warning("tried again", job="/".join(key), problem=str(error))
            self._work.later(key, _RETRY_S)
        except Exception as error:  # no assignment may hold up others
            is_expected = isinstance(error, UnusableError)
            log.error("set aside", job="/".join(key), problem=repr(error), exc_info=not is_expected)
            self._tally.note(key, CopyState.ASIDE)
            self._work.later(key, _REFUSED_RETRY_S)

    async def _look(self, key: JobKey) -> None:
        for _ in range(_LOOKS_AT_ONCE):
            seen = await self._seen(key)
            found = seen.assignment
            self._tally.note(key, copy_state(found, seen.job) if found else None)
            wanted = execute(seen, self._now_us(), follows_kueue=self._follows_kueue)
            if await self._carry_out([each for each in wanted if self._is_due(each)]):
                return
        self._work.later(key, _RETRY_S)

    def _is_due(self, effect: ExecutorEffect) -> bool:
        if not isinstance(effect, SayOfAssignment):
            return True
        key = effect.assignment.key
        left_s = self._not_before_s.get(key, 0.0) - self._monotonic_s()
        if left_s > 0:
            self._work.later(key, left_s)
        return left_s <= 0

    async def _seen(self, key: JobKey) -> SeenAssignment:
        """What is not seen is asked for, so that nothing is taken to be missing."""
        assignment, job = self._assignments.get(key), self._mirror.at(key)
        if assignment is None and job is not None:
            assignment = await self._fetched_assignment(key)
        if job is None and assignment is not None and _may_have_run(assignment):
            job = await self._fetched(key)
        if job is None:
            return SeenAssignment(assignment)
        pods, disruption = (
            self._mirror.pods(key, job.granted),
            self._mirror.disruption(key, job.granted),
        )
        workload = await self._workload(assignment, job)
        return SeenAssignment(assignment, job, pods, disruption, workload)

    async def _workload(
        self, assignment: JobAssignment | None, job: KubernetesJob
    ) -> KueueWorkload | None:
        """The Workload of a Job; as it is now before that is said never to have run."""
        found = self._workloads.of(job)
        is_withdrawn = assignment is not None and assignment.is_withdrawn
        if found is not None and is_withdrawn and waits_in_kueue(job, found):
            await self._see_workload(found)
            found = self._workloads.of(job)
        return found

    async def _see_workload(self, before: KueueWorkload) -> None:
        try:
            found = await self._own.get_workload(before.key)
        except ApiMissingError:
            self._workloads.lose(before)
        else:
            self._workloads.put(workload_of(self._cluster, found))

    async def _fetched_assignment(self, key: JobKey) -> JobAssignment | None:
        try:
            found = JobAssignment.parse(self._cluster, await self._home.get_assignment(key))
        except ApiMissingError:
            self._forget(key)
            return None
        self._note(found)
        return found

    async def _fetched(self, key: JobKey) -> KubernetesJob | None:
        try:
            found = identified(self._cluster, await self._own.get(key))
        except ApiMissingError:
            if (job := self._mirror.at(key)) is not None:
                self._mirror.remove(job.id)
            return None
        self._mirror.put(found)
        return found

    async def _carry_out(self, effects: Sequence[ExecutorEffect]) -> bool:
        """Return whether nothing is left to do: else it is looked at as it is then."""
        for effect in effects:
            if not await self._done(effect):
                return False
        return not effects

    async def _done(self, effect: ExecutorEffect) -> bool:
        match effect:
            case SayOfAssignment(assignment):
                return await self._say(assignment, effect.status, effect.words)
            case CreateRun(assignment):
                await self._create(assignment)
                return False
            case PatchJob(job):
                return await self._patch(job, effect)
            case DeleteJob(job):
                await self._delete(job)
            case AdmitCopy() | EvictCopy():
                await self._write_workload(effect)
        return False

    async def _say(self, assignment: JobAssignment, status: Body, words: str) -> bool:
        key = assignment.key
        try:
            found = await self._home.say(key, status_patch(assignment, status))
        except (ApiConflictError, ApiMissingError):
            await self._fetched_assignment(key)
            return False
        log.info(words, job="/".join(key))
        after = JobAssignment.parse(self._cluster, found)
        self._note(after)
        if (pods := len(after.said.pods)) > _MANY_PODS:
            self._not_before_s[key] = self._monotonic_s() + pods / _PODS_A_SECOND
        return True

    async def _create(self, assignment: JobAssignment) -> None:
        """Create a Job once the assignment is as it was seen: so a process that was stalled creates
        none that was taken back."""
        key, newest = assignment.key, await self._fetched_assignment(assignment.key)
        if newest is None or newest.resource_version != assignment.resource_version:
            return
        try:
            found = await self._own.create(key, run_body(assignment))
        except ApiConflictError:
            await self._fetched(key)  # an answer was lost, or another process was faster
        except (ApiRefusedError, ApiMissingError) as error:
            await self._say(assignment, refused(str(error)), f"refused: {error}")
        else:
            log.info("created", job="/".join(key))
            self._mirror.put(identified(self._cluster, found))

    async def _patch(self, job: KubernetesJob, effect: PatchJob) -> bool:
        try:
            found = await self._own.patch(job.key, effect.body)
        except (ApiConflictError, ApiMissingError):
            await self._fetched(job.key)
            return False
        log.info(effect.words, job="/".join(job.key))
        after = identified(self._cluster, found)
        if after.is_deleted and not after.finalizers:
            self._mirror.remove(after.id)
        else:
            self._mirror.put(after)
        return True

    async def _write_workload(self, effect: AdmitCopy | EvictCopy) -> None:
        workload = effect.workload
        try:
            found = await write_workload(self._own, effect, self._now_us())
        except (ApiConflictError, ApiMissingError):
            await self._see_workload(workload)
        else:
            log.info(str(effect), workload="/".join(workload.key))
            self._workloads.put(workload_of(self._cluster, found))

    async def _delete(self, job: KubernetesJob) -> None:
        with suppress(ApiConflictError, ApiMissingError):
            await self._own.delete(job.key, job.uid, job.resource_version)
        await self._fetched(job.key)


def _may_have_run(assignment: JobAssignment) -> bool:
    """Return whether to ask for the Job of an assignment before it is said not to be there: the
    answer on its creation may have been lost."""
    said = assignment.said
    return bool(said.run_uid) or (said.is_claimed and assignment.is_withdrawn)


class AssignmentWatcher:
    """Passes assignments on."""

    def __init__(self, executor: JobExecutor) -> None:
        self._executor = executor

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Pass on all assignments."""
        self._executor.replace_assignments(found)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Pass on an assignment that is new, or has changed."""
        self._executor.changed_assignment(found)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Pass on that an assignment was deleted."""
        self._executor.deleted_assignment(found)
