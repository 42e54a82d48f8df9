"""Kueue on an API server in memory, as far as Workloads need it.

Of Kubernetes it keeps: a version that grows with each write and that updates may name (409 where it
is another), merge patches, finalizers, what a field manager owns of a status, and a log of all that
was written, which watches read. Of Kueue: quotas, checks, admission, eviction, deactivation and its
requeue, as its sources have them. Pods are those of the Workloads' owners: they are there while a
Workload is admitted, with what its checks gave them.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from shared.domain.times import in_utc
from shared.kubernetes.api import ApiConflictError, ApiMissingError
from shared.kubernetes.names import GRANT, HOSTNAME
from shared.kubernetes.objects import time_us
from shared.kubernetes.quantities import quantity
from shared.kueue.names import ORIGIN, PLACEMENT_CHECK, WORKLOAD
from shared.kueue.workloads import WorkloadKey
from tests.support.kubernetes_api import merged

Object = dict[str, Any]
NAMESPACE = "physics"
CHECK, MULTIKUEUE = "placement", "multikueue"


def owned_fields(status: Mapping[str, Any]) -> Object:
    """What Kueue owns of a status, as managedFields say it."""
    conditions: Object = {
        f'k:{{"type":"{each["type"]}"}}': {".": {}, "f:type": {}, "f:status": {}, "f:reason": {}}
        for each in status.get("conditions", ())
    }
    names = [name for name in ("admission", "nominatedClusterNames") if status.get(name)]
    return {"f:status": {"f:conditions": conditions, **{f"f:{name}": {} for name in names}}}


@dataclass
class Run:
    """What really ran under a grant: since when as many pods as it has were ready, and when the
    last one ended, us; 0: not."""

    began_us: int = 0
    ended_us: int = 0
    is_evicted: bool = False


@dataclass
class MemoryKueue:
    """One cluster."""

    server: str
    now_us: Callable[[], int]
    quota: int = 16
    checks: tuple[str, ...] = (CHECK,)
    slots: Mapping[str, int] = field(default_factory=dict)
    version: int = 0
    uids: int = 0
    workloads: dict[WorkloadKey, Object] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    log: list[tuple[str, str, Object]] = field(default_factory=list)
    told: list[Object] = field(default_factory=list)
    records: dict[str, Object] = field(default_factory=dict)
    groups: dict[WorkloadKey, list[Object]] = field(default_factory=dict)
    runs: dict[tuple[str, int], Run] = field(default_factory=dict)
    on_write: Callable[[], None] = lambda: None

    # What users do.

    def submit(
        self,
        name: str,
        *,
        pods: int = 1,
        cpu: int | str = 2,
        priority: int = 0,
        kind: str = "Job",
    ) -> WorkloadKey:
        """A job of a user's, of which Kueue makes a Workload."""
        container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
        template = {"metadata": {"labels": {}}, "spec": {"containers": [container]}}
        spec = {
            "queueName": "main",
            "priority": priority,
            "maximumExecutionTimeSeconds": 600,
            "podSets": [{"name": "main", "count": pods, "template": template}],
        }
        owners = [{"kind": kind, "name": name, "uid": f"{name}-uid"}]
        return self.create(name, spec, ownerReferences=owners)

    def create(self, name: str, spec: Object, **metadata: Any) -> WorkloadKey:
        """A Workload."""
        self.uids += 1
        key = WorkloadKey(self.server, NAMESPACE, name)
        own = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"{self.uids:08x}-{self.server}",
            "creationTimestamp": self._now(),
            **metadata,
        }
        body = {"metadata": own, "spec": {"active": True, **deepcopy(spec)}, "status": {}}
        self._store(key, body)
        return key

    def remove(self, key: WorkloadKey) -> None:
        """Its owner is deleted: its pods end, and it goes once its finalizers are removed."""
        if key in self.workloads:
            self.end_pods(key)
            self.change(key, {"metadata": {"deletionTimestamp": self._now()}})

    # What Kueue does.

    def tick(self) -> None:
        """Kueue looks at all Workloads: it evicts, gives quota, admits."""
        for key in sorted(self.workloads, key=self._rank):
            self.look(key)

    def _rank(self, key: WorkloadKey) -> tuple[int, str, str]:
        body = self.workloads[key]
        created = body["metadata"]["creationTimestamp"]
        return -body["spec"].get("priority", 0), created, key.name

    def look(self, key: WorkloadKey) -> None:
        """Kueue looks at one Workload."""
        body = self.workloads.get(key)
        if body is None or self.is_over(key):
            return
        if not self.condition(key, "QuotaReserved"):
            if self._may_reserve(key):
                self.reserve(key)
        elif self.condition(key, "Evicted"):
            self._release(key)
        else:
            self._heed_checks(key, body)

    def _heed_checks(self, key: WorkloadKey, body: Object) -> None:
        states = {each["state"] for each in body["status"].get("admissionChecks", ())}
        if not body["spec"]["active"]:
            self.evict(key, "Deactivated", "The workload is deactivated")
        elif "Rejected" in states:
            self.change(key, {"spec": {"active": False}})
        elif "Retry" in states:
            self.evict(key, "AdmissionCheck", "At least one admission check is in Retry")
        elif states <= {"Ready"} and not self.condition(key, "Admitted"):
            self._admit(key)

    def _may_reserve(self, key: WorkloadKey) -> bool:
        body = self.workloads[key]
        is_due = body["status"].get("requeueAt", 0) <= self.now_us()
        if not body["spec"]["active"] or not is_due:
            return False
        return self.cpu(key) <= self.quota - sum(map(self.cpu, self._reserved()))

    def _reserved(self) -> list[WorkloadKey]:
        held = [key for key in self.workloads if self.condition(key, "QuotaReserved")]
        return [key for key in held if not self.is_over(key)]

    def cpu(self, key: WorkloadKey) -> Fraction:
        """What it asks for in all."""
        found = Fraction(0)
        for each in self.workloads[key]["spec"]["podSets"]:
            container = each["template"]["spec"]["containers"][0]
            found += each["count"] * quantity("cpu", container["resources"]["requests"]["cpu"])
        return found

    def reserve(self, key: WorkloadKey) -> None:
        """Kueue has quota for it."""
        sets = self.workloads[key]["spec"]["podSets"]
        assigned = [{"name": each["name"], "count": each["count"]} for each in sets]
        checks = [self.pending(name) for name in self._checks(key)]
        status: Object = {
            "admission": {"clusterQueue": "cq", "podSetAssignments": assigned},
            "admissionChecks": checks,
            "conditions": self._with(key, QuotaReserved="True", Evicted="False"),
        }
        self.change(key, {"status": status})

    def _checks(self, key: WorkloadKey) -> tuple[str, ...]:
        return self.checks

    def pending(self, name: str) -> Object:
        """A check that nobody has answered."""
        return {"name": name, "state": "Pending", "lastTransitionTime": self._now()}

    def _admit(self, key: WorkloadKey) -> None:
        self.change(key, {"status": {"conditions": self._with(key, Admitted="True")}})
        if MULTIKUEUE not in self._checks(key):
            self._create_pods(key)

    def evict(self, key: WorkloadKey, reason: str, message: str = "") -> None:
        """Kueue takes its quota: first its pods have to end."""
        if not self.condition(key, "QuotaReserved") or self.is_over(key):
            return
        status = self.workloads[key]["status"]
        delays = [each.get("requeueAfterSeconds") or 0 for each in status["admissionChecks"]]
        stats = status.get("schedulingStats", {}).get("evictions", [{"count": 0}])
        conditions = self._with(key, Evicted="True")
        for each in conditions:
            if each["type"] == "Evicted":
                each |= {"reason": reason, "message": message}
        self.change(
            key,
            {
                "status": {
                    "conditions": conditions,
                    "admissionChecks": [self.pending(name) for name in self._checks(key)],
                    "schedulingStats": {"evictions": [{"count": stats[0]["count"] + 1}]},
                    "requeueAt": self.now_us() + max(delays, default=0) * 1_000_000,
                    "nominatedClusterNames": None,
                    "clusterName": None,
                }
            },
        )

    def _release(self, key: WorkloadKey) -> None:
        self.end_pods(key)
        conditions = self._with(key, QuotaReserved="False", Admitted="False")
        self.change(key, {"status": {"conditions": conditions, "admission": None}})

    def finish(self, key: WorkloadKey, reason: str = "Succeeded") -> None:
        """All of its pods have ended by themselves."""
        if key in self.workloads and self.condition(key, "Admitted") and not self.is_over(key):
            self.end_pods(key, is_removed=False)
            conditions = self._with(key, Finished="True")
            for each in conditions:
                if each["type"] == "Finished":
                    each["reason"] = reason
            self.change(key, {"status": {"conditions": conditions}})

    def is_over(self, key: WorkloadKey) -> bool:
        """Whether it has ended, or was deleted."""
        is_deleted = bool(self.workloads[key]["metadata"].get("deletionTimestamp"))
        return is_deleted or self.condition(key, "Finished")

    def condition(self, key: WorkloadKey, name: str) -> bool:
        """Whether a condition is true."""
        told = self.workloads[key]["status"].get("conditions", ())
        return any(each["type"] == name and each["status"] == "True" for each in told)

    def _with(self, key: WorkloadKey, **status: str) -> list[Object]:
        found = {
            e["type"]: e for e in deepcopy(self.workloads[key]["status"].get("conditions", []))
        }
        for name, value in status.items():
            if name in found and found[name]["status"] == value:
                continue
            if value == "True" or name in found:
                found[name] = {
                    "type": name,
                    "status": value,
                    "reason": name,
                    "lastTransitionTime": self._now(),
                }
        return list(found.values())

    # What pods do.

    def _create_pods(self, key: WorkloadKey) -> None:
        body, number = self.workloads[key], 0
        for each in body["spec"]["podSets"]:
            updates = [
                update
                for check in body["status"].get("admissionChecks", ())
                for update in check.get("podSetUpdates", ())
                if update["name"] == each["name"]
            ]
            labels = {k: v for update in updates for k, v in update.get("labels", {}).items()}
            selector = {
                k: v for update in updates for k, v in update.get("nodeSelector", {}).items()
            }
            for _ in range(each["count"]):
                self._create_pod(key, number, labels, selector)
                number += 1

    def _create_pod(self, key: WorkloadKey, number: int, labels: Object, selector: Object) -> None:
        self.uids += 1
        names = sorted(self.slots) or ["n1"]
        node = selector.get(HOSTNAME) or names[number % len(names)]
        uid = f"{self.uids:08x}-pod"
        pod = {
            "metadata": {
                "name": f"{key.name}-{uid}",
                "namespace": key.namespace,
                "uid": uid,
                "labels": labels,
                "annotations": {"of": key.name},
            },
            "spec": {"nodeName": node},
            "status": {"phase": "Pending"},
        }
        self._store_pod(pod)

    def pods_of(self, key: WorkloadKey) -> list[Object]:
        """Its pods that have not ended."""
        return [
            pod
            for pod in self.pods.values()
            if pod["metadata"]["annotations"]["of"] == key.name
            and pod["status"]["phase"] in ("Pending", "Running")
        ]

    def make_ready(self, key: WorkloadKey) -> None:
        """One of its pods that wait becomes ready."""
        for pod in self.pods_of(key):
            if pod["status"]["phase"] == "Pending":
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": self._now()}
                state = {"state": {"running": {"startedAt": self._now()}}}
                status = {"phase": "Running", "conditions": [ready], "containerStatuses": [state]}
                self._store_pod({**pod, "status": status})
                self._note_ready(key, pod)
                return

    def _note_ready(self, key: WorkloadKey, pod: Object) -> None:
        are_all = all(each["status"]["phase"] == "Running" for each in self.pods_of(key))
        if are_all and (run := self._run(pod)):
            run.began_us = self._second_us()

    def _run(self, pod: Object) -> Run | None:
        labels = pod["metadata"]["labels"]
        if WORKLOAD not in labels:
            return None
        return self.runs.setdefault((labels[WORKLOAD], int(labels[GRANT])), Run())

    def end_pods(self, key: WorkloadKey, *, is_removed: bool = True) -> None:
        """All of its pods end; they are removed, or stay as they ended."""
        for pod in self.pods_of(key):
            began = pod["status"].get("containerStatuses")
            if began:
                since = began[0]["state"]["running"]["startedAt"]
                over = {"terminated": {"startedAt": since, "finishedAt": self._now()}}
                status = {"phase": "Succeeded", "containerStatuses": [{"state": over}]}
            else:
                status = {"phase": "Failed"}
            if run := self._run(pod):
                run.ended_us, run.is_evicted = self._second_us(), is_removed
            self._store_pod({**pod, "status": status}, is_removed=is_removed)

    def _store_pod(self, pod: Object, *, is_removed: bool = False) -> None:
        self.version += 1
        pod = deepcopy(pod)
        pod["metadata"]["resourceVersion"] = str(self.version)
        uid = pod["metadata"]["uid"]
        kind = "pod changed"
        if is_removed:
            self.pods.pop(uid, None)
            kind = "pod deleted"
        else:
            self.pods[uid] = pod
        if WORKLOAD in pod["metadata"]["labels"]:
            self.log.append(("", kind, deepcopy(pod)))

    # What the adapter asks for.

    async def get(self, key: WorkloadKey) -> Object:
        if key not in self.workloads:
            raise ApiMissingError(f"{key} is missing")
        return deepcopy(self.workloads[key])

    async def patch(self, key: WorkloadKey, body: Mapping[str, Any]) -> Object:
        self._require(key, body)
        return self.change(key, deepcopy(dict(body)))

    async def answer_checks(self, key: WorkloadKey, body: Mapping[str, Any]) -> Object:
        self._require(key, body)
        told = {each["name"]: each for each in deepcopy(body["status"]["admissionChecks"])}
        checks = self.workloads[key]["status"].get("admissionChecks", [])
        kept = [told.pop(each["name"], each) for each in deepcopy(checks)]
        assert not told, f"no such check: {told}"
        return self.change(key, {"status": {"admissionChecks": kept}})

    async def nominate(self, key: WorkloadKey, body: Mapping[str, Any]) -> Object:
        self._require(key, body)
        status = deepcopy(body["status"])
        assert status.get("admission"), "the admission would be removed"
        kept = {each["type"] for each in status.get("conditions", ())}
        assert "QuotaReserved" in kept, "its quota would be removed"
        names = status["nominatedClusterNames"]
        return self.change(key, {"status": {"nominatedClusterNames": names}})

    async def group_pods(self, key: WorkloadKey) -> list[Object]:
        return deepcopy(self.groups.get(key, []))

    async def get_record(self, uid: str) -> Object:
        if uid not in self.records:
            raise ApiMissingError(f"no record {uid}")
        return deepcopy(self.records[uid])

    async def create_record(self, body: Mapping[str, Any]) -> Object:
        uid = body["metadata"]["name"]
        if uid in self.records:
            raise ApiConflictError(f"record {uid} is there")
        return self._store_record(uid, dict(body))

    async def patch_record(self, uid: str, body: Mapping[str, Any]) -> Object:
        self._require_record(uid, body["metadata"]["resourceVersion"])
        return self._store_record(uid, merged(self.records[uid], deepcopy(dict(body))))

    async def delete_record(self, uid: str, version: str) -> None:
        self._require_record(uid, version)
        self.version += 1
        self.log.append(("", "record deleted", self.records.pop(uid)))

    def _require_record(self, uid: str, version: str) -> None:
        if uid not in self.records:
            raise ApiMissingError(f"no record {uid}")
        if self.records[uid]["metadata"]["resourceVersion"] != version:
            raise ApiConflictError(f"record {uid} is newer")

    def _store_record(self, uid: str, body: Object) -> Object:
        self.version += 1
        body = deepcopy(body)
        body["metadata"]["resourceVersion"] = str(self.version)
        self.records[uid] = body
        self.log.append(("", "record changed", deepcopy(body)))
        return deepcopy(body)

    async def activate(self, name: str, body: Mapping[str, Any]) -> None:
        self.told.append({"activated": name})

    async def tell(self, namespace: str, event: Mapping[str, Any]) -> None:
        self.told.append(dict(event))

    def check_objects(self) -> Mapping[str, Object]:
        """Its AdmissionChecks."""
        found: dict[str, Object] = {}
        for name in self.checks:
            controller = PLACEMENT_CHECK if name == CHECK else "kueue.x-k8s.io/multikueue"
            spec = {"controllerName": controller, "parameters": {"name": "workers"}}
            found[name] = {"metadata": {"name": name}, "spec": spec}
        return found

    def _require(self, key: WorkloadKey, body: Mapping[str, Any]) -> None:
        if key not in self.workloads:
            raise ApiMissingError(f"{key} is missing")
        metadata = self.workloads[key]["metadata"]
        for name in ("uid", "resourceVersion"):
            if body["metadata"].get(name, metadata[name]) != metadata[name]:
                raise ApiConflictError(f"{name} is {metadata[name]}")

    def change(self, key: WorkloadKey, patch: Object) -> Object:
        """Merge into a Workload, whatever its version."""
        found = merged(self.workloads[key], patch)
        if found != self.workloads[key]:
            self._store(key, found)
        return deepcopy(self.workloads.get(key) or self.log[-1][2])

    def _store(self, key: WorkloadKey, body: Object) -> None:
        self.version += 1
        body = deepcopy(body)
        managed = {
            "manager": "kueue-admission",
            "operation": "Apply",
            "subresource": "status",
            "fieldsV1": owned_fields(body["status"]),
        }
        own = {"resourceVersion": str(self.version), "managedFields": [managed]}
        body["metadata"] |= own
        kind = "changed"
        self.workloads[key] = body
        if body["metadata"].get("deletionTimestamp") and not body["metadata"].get("finalizers"):
            del self.workloads[key]
            kind = "deleted"
        self.log.append((key.name, kind, deepcopy(body)))
        self.on_write()

    def _now(self) -> str:
        return in_utc(self.now_us() // 1_000_000)

    def _second_us(self) -> int:
        return time_us(self._now())


def synchronise(manager: MemoryKueue, workers: Mapping[str, MemoryKueue]) -> None:
    """MultiKueue looks at all Workloads of the manager: it copies, watches and removes."""
    for key in list(manager.workloads):
        _synchronise(manager, workers, key)
    for worker in workers.values():
        for at, body in list(worker.workloads.items()):
            is_its = body["metadata"].get("labels", {}).get(ORIGIN) == manager.server
            if is_its and at._replace(server=manager.server) not in manager.workloads:
                worker.remove(at)


def _synchronise(
    manager: MemoryKueue, workers: Mapping[str, MemoryKueue], key: WorkloadKey
) -> None:
    copies = {name: key._replace(server=name) for name in workers}
    there = {name: at for name, at in copies.items() if at in workers[name].workloads}
    has_quota = manager.condition(key, "QuotaReserved") and not manager.condition(key, "Evicted")
    if manager.is_over(key) or not has_quota:
        for name, at in there.items():
            workers[name].remove(at)
    elif not any(_followed(manager, workers[name], key, at) for name, at in there.items()):
        _copied(manager, workers, key, copies)


def _followed(manager: MemoryKueue, worker: MemoryKueue, key: WorkloadKey, at: WorkloadKey) -> bool:
    """Whether something became of a copy that its manager had not heard."""
    chosen = manager.workloads[key]["status"].get("clusterName")
    if worker.condition(at, "Finished"):
        of_it = [e for e in worker.pods.values() if e["metadata"]["annotations"]["of"] == at.name]
        manager.groups[key] = deepcopy(of_it)
        manager.finish(key)
    elif worker.condition(at, "Evicted") and chosen == worker.server:
        _set_check(manager, key, "Retry")
    elif worker.condition(at, "Admitted") and not chosen:
        chosen = {"clusterName": worker.server, "nominatedClusterNames": None}
        manager.change(key, {"status": chosen})
        _set_check(manager, key, "Ready")
    else:
        return False
    return True


def _copied(
    manager: MemoryKueue,
    workers: Mapping[str, MemoryKueue],
    key: WorkloadKey,
    copies: Mapping[str, WorkloadKey],
) -> None:
    body = manager.workloads[key]
    wanted = body["status"].get("nominatedClusterNames") or [body["status"].get("clusterName")]
    for name, at in copies.items():
        is_there = at in workers[name].workloads
        if name in wanted and not is_there:
            annotations = deepcopy(body["metadata"].get("annotations", {}))
            labels = {ORIGIN: manager.server}
            workers[name].create(key.name, body["spec"], annotations=annotations, labels=labels)
        elif name not in wanted and is_there:
            workers[name].remove(at)


def _set_check(manager: MemoryKueue, key: WorkloadKey, state: str) -> None:
    checks = deepcopy(manager.workloads[key]["status"]["admissionChecks"])
    for each in checks:
        if each["name"] == MULTIKUEUE:
            each["state"] = state
    manager.change(key, {"status": {"admissionChecks": checks}})
