"""What the API servers were seen to have."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from services.kubernetes.model.jobs import JobKey, JobUid, KubernetesJob
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.model.run_pods import PodDisruption
from services.kubernetes.processor.copy_workloads import CopyWorkloads, copy_key
from shared.kubernetes.names import GRANT
from shared.kubernetes.objects import condition_of, is_number, is_older, mapping_of
from shared.kubernetes.packed import PackedStore
from shared.kubernetes.pods import RunPod, read_pod, removed_pod
from shared.kubernetes.texts import shown
from shared.kueue.workloads import KueueWorkload

_JOB_NAME: Final = "batch.kubernetes.io/job-name"
# With these the node was lost, and not only the pod.
_NODE_LOST: Final = ("DeletionByTaintManager", "DeletionByPodGC")


class JobMirror:
    """The Jobs and records of all clusters, and the pods of those that run."""

    def __init__(
        self,
        id_of: Callable[[KubernetesJob], str],
        changed: Callable[[JobUid], object] = id,
    ) -> None:
        """`id_of` says which job of Coplace a Job is, whatever its annotations say; `changed` is
        called for a Job which is another, or whose record is."""
        self._id_of, self._changed = id_of, changed
        self._waiting: dict[JobUid, str] = {}
        self._jobs: PackedStore[JobUid] = PackedStore()
        self._records: dict[JobUid, KubernetesRecord] = {}
        self._of_keys: dict[JobKey, JobUid] = {}
        self._of_ids: dict[str, JobUid] = {}
        self._of_runs: dict[JobKey, JobUid] = {}
        self._disruptions: dict[JobKey, tuple[int, PodDisruption]] = {}
        # Of the newest grant of each, by their uids.
        self._pods: dict[JobKey, tuple[int, dict[str, RunPod]]] = {}
        self._workloads = CopyWorkloads()

    def __len__(self) -> int:
        return len(self._jobs)

    def jobs(self) -> list[KubernetesJob]:
        """Return the Jobs of all clusters as they were seen last."""
        return [job for uid in self._jobs if (job := self.job(uid))]

    def job(self, uid: JobUid) -> KubernetesJob | None:
        """Return a Job as it was seen last."""
        fields = self._jobs.get(uid)
        return KubernetesJob(uid.cluster, fields) if fields else None

    def at(self, key: JobKey) -> KubernetesJob | None:
        """Return the newest Job of a name, as it was seen last."""
        uid = self._of_keys.get(key)
        return self.job(uid) if uid else None

    def record(self, uid: JobUid) -> KubernetesRecord | None:
        """Return the record of a Job, as it was seen last."""
        return self._records.get(uid)

    def records(self) -> list[KubernetesRecord]:
        """Return the records of all clusters as they were seen last."""
        return list(self._records.values())

    def waiting(self) -> Mapping[JobUid, str]:
        """Return the ids of the Jobs that wait for a grant."""
        return dict(self._waiting)

    def of_id(self, job_id: str) -> JobUid | None:
        """Return the Job that Coplace knows by an id."""
        return self._of_ids.get(job_id)

    def of_run(self, key: JobKey) -> KubernetesRecord | None:
        """Return the record whose Job runs elsewhere as what has this name."""
        uid = self._of_runs.get(key)
        return self._records.get(uid) if uid else None

    def put(self, job: KubernetesJob) -> bool:
        """Note a Job that was seen; what was seen of it later stays. Return whether it is another
        now: what this process wrote is known before the watch has it."""
        before = self.job(job.id)
        if before is not None and (
            before == job or is_older(job.resource_version, before.resource_version)
        ):
            return False
        self._jobs.put(job.id, job.fields)
        self._of_keys[job.key] = job.id
        self._of_ids[self._id_of(job)] = job.id
        self._changed(job.id)
        return True

    def remove(self, uid: JobUid) -> None:
        """Forget a Job that was deleted."""
        fields = self._jobs.pop(uid)
        if fields is None:
            return
        job = KubernetesJob(uid.cluster, fields)
        if self._of_keys.get(job.key) == uid:
            del self._of_keys[job.key]
            self._disruptions.pop(job.key, None)
            self._pods.pop(job.key, None)
        self._forget_id(self._id_of(job), uid)
        self._changed(uid)

    def knows_record(self, cluster: str, fields: Mapping[str, Any]) -> bool:
        """Return whether a record was seen as it is: what this process wrote is known before the
        watch has it."""
        metadata = mapping_of(mapping_of(fields).get("metadata"))
        before = self._records.get(JobUid(cluster, str(metadata.get("name"))))
        return before is not None and before.version == metadata.get("resourceVersion")

    def put_record(self, record: KubernetesRecord) -> bool:
        """Note a record that was seen; what was seen of it later stays. Return whether it is
        another now."""
        before = self._records.get(record.id)
        if before is not None:
            if before.version == record.version or is_older(record.version, before.version):
                return False
            self._of_runs.pop(before.run_key, None)
        self._records[record.id] = record
        self._of_ids[record.job_id] = record.id
        if not record.claim.is_live:
            self._pods.pop(record.run_key, None)
            self._workloads.forget(record.run_key)
        if record.runs_as_copy:
            self._of_runs[record.run_key] = record.id
        if record.claim.is_live or record.outcome or record.released_at_us:
            self._waiting.pop(record.id, None)
        else:
            self._waiting[record.id] = record.job_id
        self._changed(record.id)
        return True

    def remove_record(self, uid: JobUid) -> None:
        """Forget a record that was deleted."""
        record = self._records.pop(uid, None)
        if record is not None:
            self._of_runs.pop(record.run_key, None)
            self._workloads.forget(record.run_key)
            self._waiting.pop(uid, None)
            self._forget_id(record.job_id, uid)
            self._changed(uid)

    def _forget_id(self, job_id: str, uid: JobUid) -> None:
        if uid not in self._jobs and uid not in self._records and self._of_ids.get(job_id) == uid:
            del self._of_ids[job_id]

    def replace(self, cluster: str, jobs: Iterable[KubernetesJob]) -> list[JobUid]:
        """Replace all that a cluster has, after a gap; returns what may have changed."""
        found = {job.id: job for job in jobs}
        gone = [uid for uid in self._jobs if uid.cluster == cluster and uid not in found]
        for uid in gone:
            self.remove(uid)
        for job in found.values():
            self.put(job)
        return [*gone, *found]

    def replace_records(self, cluster: str, records: Iterable[KubernetesRecord]) -> list[JobUid]:
        """Replace all records that a cluster has; returns what may have changed."""
        found = {record.id: record for record in records}
        gone = [uid for uid in self._records if uid.cluster == cluster and uid not in found]
        for uid in gone:
            self.remove_record(uid)
        for record in found.values():
            self.put_record(record)
        return [*gone, *found]

    def see_pod(self, cluster: str, pod: Mapping[str, Any], removed_us: int = 0) -> JobUid | None:
        """Note a pod that was seen, or that it was removed at some time; return the Job that it was
        of, where anything changed."""
        metadata = mapping_of(mapping_of(pod).get("metadata"))
        labels = mapping_of(metadata.get("labels"))
        grant, uid = str(labels.get(GRANT, "")), str(metadata.get("uid"))
        key = JobKey(cluster, str(metadata.get("namespace")), str(labels.get(_JOB_NAME)))
        if not is_number(grant) or key not in self._of_keys:
            return None
        known, pods = self._pods.get(key, (0, {}))
        if int(grant) < known:
            return None
        if int(grant) > known or key not in self._pods:
            pods = {}
            self._pods[key] = int(grant), pods
        before = pods.get(uid)
        found = removed_pod(pod, before, removed_us) if removed_us else read_pod(pod, before)
        pods[uid] = found
        is_new = self._disrupt(key, int(grant), pod)
        return self._of_keys[key] if is_new or found != before else None

    def _disrupt(self, key: JobKey, grant: int, pod: Mapping[str, Any]) -> bool:
        """Whether Kubernetes ended a pod itself."""
        condition = _disruption(pod)
        if condition is None:
            return False
        reason = shown(condition.get("reason") or "disrupted")
        node = mapping_of(pod.get("spec")).get("nodeName")
        failed = (str(node),) if node and reason in _NODE_LOST else ()
        message = shown(f"{reason}: {condition.get('message') or 'its pod was ended'}")
        self._disruptions[key] = grant, PodDisruption(message, failed)
        return True

    def see_workload(self, found: KueueWorkload) -> JobUid | None:
        """Note a Workload of Kueue; return the Job whose copy it is of, None where there is
        none."""
        uid = self._of_runs.get(copy_key(found))
        if uid is not None:
            self._workloads.put(found)
        return uid

    def lose_workload(self, found: KueueWorkload) -> None:
        """Forget a Workload that was deleted."""
        self._workloads.lose(found)

    def workload(self, run: KubernetesJob | None) -> KueueWorkload | None:
        """Return the Workload of a copy that runs by Kueue."""
        return self._workloads.of(run)

    def pods(self, key: JobKey, grant: int) -> Sequence[RunPod]:
        """Return the pods of a run under a grant, as they were seen last."""
        known, pods = self._pods.get(key, (0, {}))
        return list(pods.values()) if known == grant else ()

    def disruption(self, key: JobKey, grant: int) -> PodDisruption | None:
        """Return how Kubernetes ended pods of a run under a grant, where it did."""
        found = self._disruptions.get(key)
        return found[1] if found and found[0] == grant else None


def _disruption(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return condition_of(mapping_of(mapping_of(pod).get("status")), "DisruptionTarget")
