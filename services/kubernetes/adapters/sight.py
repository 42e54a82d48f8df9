"""What was seen of Jobs and of their records, and what is asked for since it was not."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from coplace_client.errors import UnusableError
from services.kubernetes.adapters.api import RECORDS
from services.kubernetes.adapters.kueue import CopyWorkloadApi
from services.kubernetes.model.assignments import said_of
from services.kubernetes.model.bodies import Body
from services.kubernetes.model.facts import JobTerms, id_of
from services.kubernetes.model.jobs import JobKey, JobUid, KubernetesJob, identified
from services.kubernetes.model.names import JOB_UID, QUEUE_NAME
from services.kubernetes.model.queues import CountedState, QueueTally
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.model.states import queue_state
from services.kubernetes.processor.by_kueue import waits_in_kueue
from services.kubernetes.processor.mirror import JobMirror
from services.kubernetes.processor.seen import SeenJob
from shared.kubernetes.api import ApiMissingError
from shared.kubernetes.work_list import WorkList
from shared.kueue.workloads import KueueWorkload
from shared.kueue.workloads import identified as workload_of

# How often a Job is asked for that no list has: while its end is to be published, and after that,
# until it goes and its record with it, whenever it is twice as old, within these bounds.
_OUTSIDE_S: Final = 5.0
_ENDED_OUTSIDE_S: Final = (60.0, 3600.0)


class JobApi(CopyWorkloadApi, Protocol):
    """What of an API server is needed; `JobServer` has it."""

    async def get(self, key: JobKey) -> Mapping[str, Any]: ...
    async def patch(self, key: JobKey, body: Body) -> Mapping[str, Any]: ...
    async def patch_status(self, key: JobKey, body: Body) -> Mapping[str, Any]: ...
    async def create(self, key: JobKey, body: Body) -> Mapping[str, Any]: ...
    async def delete(self, key: JobKey, uid: str, version: str) -> None: ...
    async def list(self, path: str, selector: str) -> tuple[Sequence[Mapping[str, Any]], str]: ...
    async def get_record(self, name: str) -> Mapping[str, Any]: ...
    async def patch_record(self, name: str, body: Body) -> Mapping[str, Any]: ...
    async def create_record(self, body: Body) -> Mapping[str, Any]: ...
    async def delete_record(self, name: str, uid: str) -> None: ...
    async def tell(self, namespace: str, event: Body) -> None: ...


class UnknownClusterError(UnusableError):
    """A Job runs on a cluster that this process does not serve."""


class JobSight:
    """The Jobs and records of all clusters. Which facts of a Job were `told`, why it was `refused`
    or set `aside` is known while anything is left of it."""

    def __init__(
        self,
        apis: Mapping[str, JobApi],
        terms: JobTerms,
        now_us: Callable[[], int],
        work: WorkList[JobUid],
    ) -> None:
        self._apis, self._terms, self._now_us, self._work = apis, terms, now_us, work
        self.mirror = JobMirror(lambda job: id_of(job, terms), self._count)
        self.tally = QueueTally()
        self.told: defaultdict[JobUid, set[str]] = defaultdict(set)
        self.refused: dict[JobUid, str] = {}
        self.aside: dict[JobUid, str] = {}
        # The versions of records that were asked for or written since their Jobs were seen, and of
        # these.
        self._agreed: dict[JobUid, tuple[str, str]] = {}

    def note_refused(self, uid: JobUid, why: str) -> None:
        """Note why Coplace does not take a Job; empty: it does."""
        self._note(self.refused, uid, why)

    def note_aside(self, uid: JobUid, why: str) -> None:
        """Note what fails about a Job again and again; empty: nothing."""
        self._note(self.aside, uid, why)

    def _note(self, known: dict[JobUid, str], uid: JobUid, why: str) -> None:
        if why == known.get(uid, ""):
            return
        if why:
            known[uid] = why
        else:
            del known[uid]
        self._count(uid)

    def _count(self, uid: JobUid) -> None:
        """Count a Job where it is now: a copy counts nowhere."""
        job, record = self.mirror.job(uid), self.mirror.record(uid)
        if job is None or (record is None and job.is_copy):
            self.tally.note(uid, None)
            return
        is_known = {"is_refused": uid in self.refused, "is_aside": uid in self.aside}
        has_begun = record is not None and record.claim.has_begun
        self.tally.note(uid, CountedState(queue_state(record, **is_known), has_begun))

    def root(self, uid: JobUid) -> JobUid:
        """Return the Job that one runs for: itself, unless it is a copy."""
        job = self.mirror.job(uid)
        if job is None or self.mirror.record(uid) is not None:
            return uid
        record = self.mirror.of_run(job.key)
        return record.id if record else uid

    async def _run(
        self, record: KubernetesRecord, job: KubernetesJob | None
    ) -> KubernetesJob | None:
        if not record.runs_as_copy:
            return job
        found, run_uid = self.mirror.at(record.run_key), record.claim.run_uid
        if run_uid and (found is None or found.uid != run_uid or not self.is_listed(found)):
            found = await self._unlisted(record.run_key, record, run_uid)
        if found is None and record.stop is not None and record.claim.is_live and not run_uid:
            # Before a grant is given back: another process may have created the copy.
            found = await self.fetched(record.run_key)
        return found if found and run_uid in ("", found.uid) else None

    def is_listed(self, job: KubernetesJob | None) -> bool:
        """Return whether the lists of the queue have a Job, so that its changes are seen."""
        return job is not None and job.labels.get(QUEUE_NAME) == self._terms.queue

    async def _unlisted(
        self, key: JobKey, record: KubernetesRecord, uid: str
    ) -> KubernetesJob | None:
        """Return a Job that no list has, as it is now. Nobody says when it changes or goes: it is
        looked at again."""
        found = await self.fetched(key)
        if found is None or found.uid != uid:
            self.mirror.remove(JobUid(key.cluster, uid))
            return None
        if not self.is_listed(found):
            has_ended = bool(record.outcome) and record.by_hand is None
            self._work.later(record.id, self._ended_wait_s(found) if has_ended else _OUTSIDE_S)
        return found

    def _ended_wait_s(self, job: KubernetesJob) -> float:
        least_s, most_s = _ENDED_OUTSIDE_S
        return min(max((self._now_us() - job.created_at_us) / 1e6, least_s), most_s)

    async def fetched(self, key: JobKey) -> KubernetesJob | None:
        """Return the Job of a name as it is now."""
        try:
            job = identified(key.cluster, await self.api(key.cluster).get(key))
        except ApiMissingError:
            return None
        self.note(job)
        return job

    def note(self, job: KubernetesJob) -> None:
        """Note a Job as it was seen, while the lists have it: of another one nobody says when it
        goes."""
        if self.is_listed(job):
            if self.mirror.put(job):
                self._work.touch(job.id)
        else:
            self.mirror.remove(job.id)

    async def fetched_record(self, uid: JobUid) -> KubernetesRecord | None:
        """Return the record of a Job as it is now."""
        try:
            return await self.answered_record(uid, self.api(uid.cluster).get_record(uid.uid))
        except ApiMissingError:
            self.mirror.remove_record(uid)
            return None

    async def recorded(self, cluster: str, job_id: str) -> JobUid | None:
        """Return the Job of an id by its record as it is now, where only that is there any more."""
        selector = f"{JOB_UID}={job_id.split('/')[-2]}"
        listed, _ = await self.api(cluster).list(RECORDS, selector)
        for record in (KubernetesRecord.parse(cluster, each) for each in listed):
            if record.job_id == job_id:
                self.mirror.put_record(record)
                return record.id
        return None

    async def answered_record(
        self, uid: JobUid, asked: Awaitable[Mapping[str, Any]]
    ) -> KubernetesRecord:
        """Ask for a record, or write it; return it as it is then."""
        job = self.mirror.job(uid)
        record = KubernetesRecord.parse(uid.cluster, await asked)
        if self.mirror.put_record(record):
            self._work.touch(uid)
        if job is not None:
            self._agreed[uid] = record.version, job.resource_version
        return record

    async def is_newest(self, record: KubernetesRecord, job: KubernetesJob | None = None) -> bool:
        """Return whether a record is as it was seen: by what it was once its Job was seen, which is
        to be changed. So a process that was stalled starts and ends nothing on an old word: whoever
        changed the record since has changed the Job behind it, or is refused to."""
        agreed = self._agreed.pop(record.id, None)
        if job and job.id == record.id and agreed == (record.version, job.resource_version):
            return True
        newest = await self.fetched_record(record.id)
        return newest is not None and newest.version == record.version

    async def see_workload(self, before: KueueWorkload) -> None:
        """Look at a Workload anew."""
        try:
            found = await self.api(before.server).get_workload(before.key)
        except ApiMissingError:
            self.mirror.lose_workload(before)
        else:
            self.mirror.see_workload(workload_of(before.server, found))

    def api(self, cluster: str) -> JobApi:
        """Return the API server of a cluster. Raises UnknownClusterError."""
        if cluster not in self._apis:
            raise UnknownClusterError(f"cluster {cluster} is not one of this process")
        return self._apis[cluster]

    async def seen(
        self, uid: JobUid, *, surely: bool = False
    ) -> tuple[SeenJob, KubernetesRecord | None]:
        """Return a Job with what runs for it, and its record; what was not seen is asked for, so
        that nothing is taken to be missing. A record that a Job may have which nobody has taken is
        asked for where it has to be known `surely`: whoever creates one finds it."""
        job, record = self.mirror.job(uid), self.mirror.record(uid)
        if record is None and (surely or job is None or self._may_have_record(job)):
            record = await self.fetched_record(uid)
            if record is None and job is not None and job.is_taken:
                job = await self._still_there(job)
        if record is not None and not self.is_listed(job):
            job = await self._unlisted(record.job_key, record, uid.uid)
        if record is None or not record.claim.grant:
            return SeenJob(job), record
        run = await self._run(record, job)
        if run is not None and (said := said_of(run)) is not None:
            return SeenJob(job, run, said.disruption, said.pods), record
        await self._see_whether_it_ran(run, record)
        key, grant = record.run_key, record.claim.grant
        seen = self.mirror.disruption(key, grant), self.mirror.pods(key, grant)
        return SeenJob(job, run, *seen, self.mirror.workload(run)), record

    async def _still_there(self, job: KubernetesJob) -> KubernetesJob | None:
        """Return a Job of the queue that has no record as it is now. Another process may have let
        it go, and deleted its record: then it is not to be taken again."""
        found = await self.fetched(job.key)
        if found is not None and found.uid == job.uid and self.is_listed(found):
            return found
        self.forget(job.id)
        return None

    async def _see_whether_it_ran(
        self, run: KubernetesJob | None, record: KubernetesRecord
    ) -> None:
        """Look at the Workload of a copy as it is now, before that is said never to have run."""
        workload = self.mirror.workload(run)
        is_claimed = record.claim.is_live and not record.claim.has_begun
        if run is None or workload is None or record.stop is None or not is_claimed:
            return
        if waits_in_kueue(run, workload):
            await self.see_workload(workload)

    def _may_have_record(self, job: KubernetesJob) -> bool:
        return job.is_taken and self.mirror.of_run(job.key) is None

    def is_copy(self, job: KubernetesJob) -> bool:
        """Return whether a Job runs for another one, as a record says, or as it says itself."""
        record = self.mirror.of_run(job.key)
        return job.is_copy or (record is not None and record.claim.run_uid == job.uid)

    async def see(self, job: KubernetesJob) -> None:
        """Look at a Job anew."""
        found = await self.fetched(job.key)
        if found is None or found.uid != job.uid:
            self.forget(job.id)
        else:
            self._work.touch(job.id)

    def saw(self, job: KubernetesJob, fields: Mapping[str, Any]) -> None:
        """Note what a Job is after it was written."""
        found = identified(job.cluster, fields)
        self.note(found)
        if not self.is_listed(found):
            self._work.touch(job.id)

    def forget(self, uid: JobUid) -> None:
        """Note that a Job is not there any more, or has left the queue."""
        job = self.mirror.job(uid)
        root = self.root(uid)
        self.mirror.remove(uid)
        if job is not None:
            self._work.touch(root)
        if self.mirror.record(uid) is None:
            self.lose(uid)

    def lose(self, uid: JobUid) -> None:
        """Forget a Job of which nothing is left."""
        if self.mirror.job(uid) is None:
            self.told.pop(uid, None)
            self.refused.pop(uid, None)
            self.aside.pop(uid, None)
            self._agreed.pop(uid, None)
