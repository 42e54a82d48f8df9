"""What the API servers were seen to have."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from services.kubernetes.model.jobs import JobKey, KubernetesJob
from services.kubernetes.model.names import GRANT, JOB_ID
from services.kubernetes.processor.reconcile import PodDisruption

_JOB_NAME: Final = "batch.kubernetes.io/job-name"
# With these the node was lost, and not only the pod.
_NODE_LOST: Final = ("DeletionByTaintManager", "DeletionByPodGC")


class JobMirror:
    """The Jobs of all clusters, and whose pods were disrupted."""

    def __init__(self, id_of: Callable[[KubernetesJob], str]) -> None:
        """`id_of` says which job of Coplace a Job is, whatever its annotations say."""
        self._id_of = id_of
        self._jobs: dict[JobKey, KubernetesJob] = {}
        self._copies: dict[str, set[JobKey]] = defaultdict(set)
        self._of_ids: dict[str, JobKey] = {}
        self._disruptions: dict[JobKey, tuple[int, PodDisruption]] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def jobs(self) -> list[KubernetesJob]:
        """Return the Jobs of all clusters as they were seen last."""
        return list(self._jobs.values())

    def get(self, key: JobKey) -> KubernetesJob | None:
        """Return the Job there, as it was seen last."""
        return self._jobs.get(key)

    def of_id(self, job_id: str) -> KubernetesJob | None:
        """Return the Job that Coplace knows by an id."""
        key = self._of_ids.get(job_id)
        return self._jobs.get(key) if key else None

    def copies(self, job_id: str) -> list[KubernetesJob]:
        """Return what runs for a Job on other clusters."""
        return [self._jobs[key] for key in sorted(self._copies.get(job_id, ()))]

    def put(self, job: KubernetesJob) -> None:
        """Note a Job that was seen; what was seen of it later stays."""
        before = self._jobs.get(job.key)
        if before is not None and before.uid == job.uid and _is_older(job, before):
            return
        self.remove(job.key)
        self._jobs[job.key] = job
        if job.is_copy:
            self._copies[job.annotations.get(JOB_ID, "")].add(job.key)
        else:
            self._of_ids[self._id_of(job)] = job.key

    def remove(self, key: JobKey) -> None:
        """Forget a Job that was deleted."""
        job = self._jobs.pop(key, None)
        if job is None:
            return
        if not job.is_copy:
            del self._of_ids[self._id_of(job)]
            return
        job_id = job.annotations.get(JOB_ID, "")
        self._copies[job_id].discard(key)
        if not self._copies[job_id]:
            del self._copies[job_id]

    def replace(self, cluster: str, jobs: Iterable[KubernetesJob]) -> list[JobKey]:
        """Replace all that a cluster has, after a gap; returns what may have changed."""
        found = {job.key: job for job in jobs}
        gone = [key for key in self._jobs if key.cluster == cluster and key not in found]
        for key in gone:
            self.remove(key)
            self._disruptions.pop(key, None)
        for job in found.values():
            self.put(job)
        return [*gone, *found]

    def disrupt(self, cluster: str, pod: Mapping[str, Any]) -> JobKey | None:
        """Note a pod that was seen; return the Job that it was of, if Kubernetes ended it."""
        condition = _disruption(pod)
        labels = pod["metadata"].get("labels") or {}
        grant = labels.get(GRANT, "")
        if condition is None or _JOB_NAME not in labels or not grant.isdecimal():
            return None
        key = JobKey(cluster, pod["metadata"]["namespace"], labels[_JOB_NAME])
        reason, node = str(condition.get("reason") or "disrupted"), pod["spec"].get("nodeName")
        failed = (str(node),) if node and reason in _NODE_LOST else ()
        message = f"{reason}: {condition.get('message') or 'its pod was ended'}"
        self._disruptions[key] = (int(grant), PodDisruption(message[:256], failed))
        return key

    def disruption(self, run: KubernetesJob, grant: int) -> PodDisruption | None:
        """Return how Kubernetes ended pods of a run under a grant, where it did."""
        found = self._disruptions.get(run.key)
        return found[1] if found and found[0] == grant else None


def _disruption(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for found in pod.get("status", {}).get("conditions") or ():
        if found["type"] == "DisruptionTarget" and found["status"] == "True":
            condition: Mapping[str, Any] = found
            return condition
    return None


def _is_older(job: KubernetesJob, than: KubernetesJob) -> bool:
    """Versions are numbers that grow with each write, of the API server's own (etcd's revision)."""
    versions = (job.resource_version, than.resource_version)
    return all(each.isdecimal() for each in versions) and int(versions[0]) < int(versions[1])
