"""An API server in memory whose Kueue says when Jobs of its queue run: each has a Workload, and
runs while that is admitted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.kubernetes.model.jobs import JobKey
from shared.kueue.names import GRANTED_CHECK, QUEUE_LABEL
from shared.kueue.workloads import WorkloadKey
from tests.support.kubernetes_api import MemoryApiServer, Object
from tests.support.kueue_api import MemoryKueue


@dataclass
class KueueOfJobs(MemoryApiServer):
    """One cluster; `now_us` is the clock of its Kueue."""

    now_us: int = 0
    kueue: MemoryKueue = field(init=False)
    _admissions: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.kueue = MemoryKueue(self.cluster, lambda: self.now_us, checks=(GRANTED_CHECK,))

    def workload(self, key: JobKey) -> WorkloadKey:
        """The Workload that Kueue makes of a Job."""
        return WorkloadKey(self.cluster, key.namespace, f"job-{key.name}")

    def tick(self) -> None:
        """Kueue makes Workloads, gives quota, admits and evicts; then Jobs follow."""
        in_queue = [key for key, job in self.objects.items() if _is_queued(job)]
        for key in in_queue:
            if self.workload(key) not in self.kueue.workloads and not self.has_ended(key):
                self._create_workload(key)
        there = {self.workload(key) for key in in_queue}
        for gone in [key for key in self.kueue.workloads if key not in there]:
            self.kueue.remove(gone)
        self.kueue.tick()
        for key in in_queue:
            self._follow(key)

    def evict(self, key: JobKey) -> None:
        """Kueue takes a Job its quota."""
        if (workload := self.workload(key)) in self.kueue.workloads:
            self.kueue.evict(workload, "Preempted", "for another")

    def _create_workload(self, key: JobKey) -> None:
        job = self.objects[key]
        pods, template = job["spec"].get("parallelism", 1), job["spec"]["template"]
        owner = {"kind": "Job", "name": key.name, "uid": job["metadata"]["uid"]}
        spec = {
            "queueName": job["metadata"]["labels"][QUEUE_LABEL],
            "podSets": [{"name": "main", "count": pods, "template": template}],
        }
        self.kueue.create(f"job-{key.name}", spec, ownerReferences=[owner])

    def _follow(self, key: JobKey) -> None:
        workload = self.workload(key)
        if key not in self.objects or workload not in self.kueue.workloads:
            return
        if self.has_ended(key):
            self.kueue.finish(workload)
            return
        may_run = self.kueue.condition(workload, "Admitted")
        may_run &= not self.kueue.condition(workload, "Evicted")
        is_deleted = self.objects[key]["metadata"].get("deletionTimestamp")
        if may_run is bool(self.objects[key]["spec"].get("suspend")) and not is_deleted:
            # What somebody suspends by hand it lets run again, while that is admitted.
            admission = (workload.name, str(self.kueue.workloads[workload]["status"]))
            is_again = may_run and admission in self._admissions
            self._admissions |= {admission} if may_run else set()
            self._store(key, _suspended(self.objects[key], is_it=not may_run), by_hand=is_again)

    async def get_workload(self, key: WorkloadKey) -> Object:
        return await self.kueue.get(key)

    async def patch_workload(self, key: WorkloadKey, body: Mapping[str, Any]) -> Object:
        return await self.kueue.patch(key, body)

    async def answer_check(self, key: WorkloadKey, body: Mapping[str, Any]) -> Object:
        return await self.kueue.answer_checks(key, body)


def _is_queued(job: Object) -> bool:
    return QUEUE_LABEL in (job["metadata"].get("labels") or {})


def _suspended(job: Object, *, is_it: bool) -> Object:
    return {**job, "spec": {**job["spec"], "suspend": is_it}}
