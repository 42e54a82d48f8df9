"""What the API servers were seen to have."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from coplace_client.errors import RejectedError
from services.kueue.model.records import (
    LET_GO_LEAST,
    PackedRecord,
    WorkloadRecord,
    name_of,
    parse_record,
    version_of,
)
from services.kueue.model.run_id import RunId, run_of
from shared.kubernetes.objects import is_older, mapping_of, texts_of
from shared.kubernetes.packed import pack, unpack
from shared.kubernetes.pods import RunPod, read_pod, removed_pod
from shared.kueue.names import MULTIKUEUE_CHECK, PLACEMENT_CHECK
from shared.kueue.workloads import CheckNames, KueueWorkload, WorkloadKey, WorkloadUid, unseen

_Objects = Mapping[str, Mapping[str, Any]]
_PodName = tuple[str, str]


class _KeptWorkload(NamedTuple):
    """A Workload, packed: as objects of Python it takes eight times the memory, and of thousands
    few are looked at."""

    key: WorkloadKey
    packed: bytes
    version: str
    is_deleted_there: bool

    @property
    def workload(self) -> KueueWorkload:
        """Return it as it was seen."""
        return KueueWorkload(self.key.server, unpack(self.packed), self.is_deleted_there)


class _KeptRecord(NamedTuple):
    """A record of an API server, packed, or why it cannot be read."""

    told: PackedRecord | RejectedError
    version: str
    run_label: int = -1
    """The number that pods of its run carry; -1 where none runs."""


class WorkloadMirror:
    """The Workloads of all API servers with their records, the pods of those that were granted, and
    what Kueue has around them. `clusters` are the API servers on which Workloads run, `managers`
    those that send them to these."""

    def __init__(
        self,
        id_of: Callable[[KueueWorkload], str],
        clusters: Iterable[str],
        managers: Iterable[str],
    ) -> None:
        self._id_of = id_of
        self._clusters, self._managers = frozenset(clusters), tuple(managers)
        self._workloads: dict[WorkloadUid, _KeptWorkload] = {}
        self._records: dict[WorkloadUid, _KeptRecord] = {}
        self._dropped: set[WorkloadUid] = set()
        self._of_keys: dict[WorkloadKey, WorkloadUid] = {}
        self._of_ids: dict[str, WorkloadUid] = {}
        self._of_uids: dict[str, WorkloadUid] = {}
        self._pods: dict[WorkloadUid, dict[_PodName, RunPod]] = {}
        self._early: dict[_PodName, tuple[str, Mapping[str, Any]]] = {}
        self._checks: dict[str, _Objects] = {}
        self._configs: dict[str, _Objects] = {}
        self._flavors: dict[str, _Objects] = {}
        self._names: dict[str, CheckNames] = {}

    def __len__(self) -> int:
        return len(self._workloads)

    def workloads(self) -> list[KueueWorkload]:
        """Return the Workloads of all API servers as they were seen last."""
        return [each.workload for each in self._workloads.values()]

    def uids(self, server: str) -> list[WorkloadUid]:
        """Return which Workloads an API server was seen to have."""
        return [uid for uid in self._workloads if uid.server == server]

    def workload(self, uid: WorkloadUid) -> KueueWorkload | None:
        """Return a Workload as it was seen last."""
        found = self._workloads.get(uid)
        return found.workload if found else None

    def at(self, key: WorkloadKey) -> KueueWorkload | None:
        """Return the newest Workload of a name, as it was seen last."""
        uid = self._of_keys.get(key)
        return self.workload(uid) if uid else None

    def record(self, uid: WorkloadUid) -> WorkloadRecord | None:
        """Return the record of a Workload; None where it has none. Raises RejectedError for one
        that cannot be read."""
        found = self._records.get(uid)
        if found is None:
            return None
        if isinstance(found.told, RejectedError):
            raise RejectedError(found.told.field, found.told.problem)
        return found.told.record

    def of_id(self, job_id: str) -> WorkloadUid | None:
        """Return the Workload that Coplace knows by an id."""
        return self._of_ids.get(job_id)

    def is_copy(self, workload: KueueWorkload) -> bool:
        """Return whether a Workload is the copy of one of a manager of this process."""
        return bool(self._managers) and workload.is_copy and workload.server in self._clusters

    def root(self, workload: KueueWorkload) -> KueueWorkload | None:
        """Return the Workload of a manager that a copy runs for; None where there is none."""
        for manager in self._managers:
            if found := self.at(workload.key._replace(server=manager)):
                return found
        return None

    def copy(self, workload: KueueWorkload, record: WorkloadRecord) -> KueueWorkload | None:
        """Return what runs for a Workload on the cluster that it was granted, or let go to."""
        cluster = record.cluster or workload.chosen_cluster
        if cluster in ("", workload.server):
            return None
        found = self.at(workload.key._replace(server=cluster))
        is_there = found is not None and found.is_copy and not found.is_deleted_there
        return found if is_there else None

    def put(self, workload: KueueWorkload) -> None:
        """Note a Workload that was seen; what was seen of it later stays."""
        uid, key, version = workload.id, workload.key, workload.resource_version
        before = self._workloads.get(uid)
        if before is not None and is_older(version, before.version):
            return
        packed = pack(workload.fields)
        self._workloads[uid] = _KeptWorkload(key, packed, version, workload.is_deleted_there)
        self._of_keys[key] = uid
        if not self.is_copy(workload):
            self._of_ids[self._id_of(workload)] = uid
            self._of_uids[uid.uid] = uid

    def put_record(self, server: str, fields: Mapping[str, Any]) -> WorkloadUid:
        """Note a record that was seen, also of a Workload that was not; what was seen of it later
        stays. Raises RejectedError where it does not say whose it is."""
        name, version = name_of(fields), version_of(fields)
        uid = WorkloadUid(server, name.uid)
        before = self._records.get(uid)
        if uid in self._dropped or (before and is_older(version, before.version)):
            return uid
        try:
            told = parse_record(fields)
        except RejectedError as error:
            self._records[uid] = _KeptRecord(error, version)
            return uid
        runs = told.claim.is_live or told.let_go is not None
        label = told.run_label if runs else -1
        self._records[uid] = _KeptRecord(PackedRecord.of(told), version, label)
        if not runs:
            self._pods.pop(uid, None)
        if uid not in self._workloads:
            self._put_unseen(unseen(server, name, told.submitted.submitted_at_us))
        if told.let_go is not None:
            self._see_early(uid)
        return uid

    def _put_unseen(self, workload: KueueWorkload) -> None:
        """Note a Workload of a record; where another has its name it was deleted."""
        newer = self._of_keys.get(workload.key)
        self.put(workload)
        if newer is not None:
            self._of_keys[workload.key] = newer
            self.note_deleted(workload.id)

    def drop_record(self, uid: WorkloadUid) -> None:
        """Forget the record of a Workload; what is heard of it later is from before."""
        if self._records.pop(uid, None):
            self._dropped.add(uid)
        self._pods.pop(uid, None)

    def note_dropped(self, uid: WorkloadUid) -> None:
        """Note that an API server has a record no more: nothing of it comes any more."""
        self._records.pop(uid, None)
        self._dropped.discard(uid)

    def replace_records(self, server: str, found: Iterable[Mapping[str, Any]]) -> list[WorkloadUid]:
        """Replace all records that an API server has, after a gap; returns what may have
        changed. Raises RejectedError for one that does not say whose it is."""
        before = {uid for uid in self._records if uid.server == server}
        there = {self.put_record(server, each) for each in found}
        for uid in before - there:
            self.note_dropped(uid)
        self._dropped -= {uid for uid in self._dropped if uid.server == server and uid not in there}
        return [*(before | there)]

    def note_deleted(self, uid: WorkloadUid) -> None:
        """Note that an API server has a Workload no more."""
        before = self._workloads.get(uid)
        if before is not None:
            self._workloads[uid] = before._replace(is_deleted_there=True)

    def remove(self, uid: WorkloadUid) -> None:
        """Forget a Workload."""
        workload = self.workload(uid)
        self._workloads.pop(uid, None)
        self._records.pop(uid, None)
        self._pods.pop(uid, None)
        if workload is None:
            return
        if self._of_keys.get(workload.key) == uid:
            del self._of_keys[workload.key]
        self._of_ids.pop(self._id_of(workload), None)
        self._of_uids.pop(uid.uid, None)

    def replace(self, server: str, found: Iterable[KueueWorkload]) -> list[WorkloadUid]:
        """Replace all that an API server has, after a gap; returns what may have changed."""
        there = set[WorkloadUid]()
        for each in found:
            self.put(each)
            there.add(each.id)
        for uid in self.uids(server):
            if uid not in there:
                self.note_deleted(uid)
        return self.uids(server)

    def see_pod(
        self, server: str, pod: Mapping[str, Any], removed_us: int = 0
    ) -> WorkloadUid | None:
        """Note a pod, which was deleted at `removed_us`, 0: it was not. Return the Workload that
        was granted what it runs under; None where there is none."""
        run = run_of(pod)
        uid = self._of_uids.get(run.uid) if run else None
        name = (server, str(mapping_of(pod.get("metadata")).get("uid")))
        if run is None or uid is None or not self._is_run(run, uid):
            self._note_early(name, run, pod, removed_us)
            return None
        pods = self._pods.setdefault(uid, {})
        before = pods.get(name)
        found = removed_pod(pod, before, removed_us) if removed_us else read_pod(pod, before)
        if found == before or found.namespace != self._workloads[uid].key.namespace:
            return None
        pods[name] = found
        return uid

    def _note_early(
        self, name: _PodName, run: RunId | None, pod: Mapping[str, Any], removed_us: int
    ) -> None:
        """Keep a pod of a Workload that was let go: another process keeps that, and its record may
        be heard of after its pods."""
        if removed_us:
            self._early.pop(name, None)
        elif run is not None and run.grant >= LET_GO_LEAST:
            self._early[name] = (run.uid, pod)

    def _see_early(self, uid: WorkloadUid) -> None:
        """Note the pods that were heard of before the record of their Workload."""
        found = [(name, pod) for name, (of, pod) in self._early.items() if of == uid.uid]
        for name, pod in found:
            del self._early[name]
            self.see_pod(name[0], pod)

    def _is_run(self, run: RunId, uid: WorkloadUid) -> bool:
        found = self._records.get(uid)
        return found is not None and found.run_label == run.grant

    def pods(self, uid: WorkloadUid) -> Sequence[RunPod]:
        """Return the pods of the newest grant of a Workload."""
        return tuple(self._pods.get(uid, {}).values())

    def lose_pods(
        self, server: str, there: Iterable[Mapping[str, Any]], now_us: int
    ) -> list[WorkloadUid]:
        """Note that pods which are not `there` were deleted in a gap; returns whose."""
        known = {str(mapping_of(each.get("metadata")).get("uid")) for each in there}
        for name in [each for each in self._early if each[0] == server and each[1] not in known]:
            del self._early[name]
        return [uid for uid, pods in self._pods.items() if _lost(pods, server, known, now_us)]

    def note_checks(self, server: str, checks: _Objects) -> None:
        """Note the AdmissionChecks of an API server, by name."""
        self._checks[server] = checks
        self._names.clear()

    def note_configs(self, server: str, configs: _Objects) -> None:
        """Note the MultiKueueConfigs of an API server, by name."""
        self._configs[server] = configs
        self._names.clear()

    def note_flavors(self, server: str, flavors: _Objects) -> None:
        """Note the ResourceFlavors of an API server, by name."""
        self._flavors[server] = flavors

    def flavors(self, server: str) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of the nodes of each flavor of an API server."""
        return {
            name: texts_of(mapping_of(each.get("spec")).get("nodeLabels"))
            for name, each in self._flavors.get(server, {}).items()
        }

    def own_checks(self, server: str) -> list[Mapping[str, Any]]:
        """Return the AdmissionChecks of an API server that Coplace answers."""
        return [each for each in self._checks.get(server, {}).values() if _is_own(each)]

    def checks(self, server: str) -> CheckNames:
        """Return what the AdmissionChecks of an API server mean to Coplace."""
        if server not in self._names:
            self._names[server] = self._named(server)
        return self._names[server]

    def _named(self, server: str) -> CheckNames:
        found = self._checks.get(server, {})
        own = frozenset(name for name, each in found.items() if _is_own(each))
        dispatched = {
            name: clusters
            for name, each in found.items()
            if server in self._managers and _controller(each) == MULTIKUEUE_CHECK
            if (clusters := self._dispatched_to(server, each))
        }
        return CheckNames(own, dispatched, server if server in self._clusters else "")

    def _dispatched_to(self, server: str, check: Mapping[str, Any]) -> Sequence[str]:
        parameters = mapping_of(mapping_of(check.get("spec")).get("parameters"))
        config = self._configs.get(server, {}).get(str(parameters.get("name")), {})
        told = mapping_of(config.get("spec")).get("clusters")
        names = told if isinstance(told, list) else []
        return [each for each in names if isinstance(each, str) and each in self._clusters]


def _controller(check: Mapping[str, Any]) -> object:
    return mapping_of(check.get("spec")).get("controllerName")


def _is_own(check: Mapping[str, Any]) -> bool:
    return _controller(check) == PLACEMENT_CHECK


def _lost(pods: dict[_PodName, RunPod], server: str, known: Collection[str], now_us: int) -> bool:
    """Note which of these pods of a Workload were deleted; return whether any was."""
    gone = [
        name
        for name, pod in pods.items()
        if name[0] == server and name[1] not in known and not pod.is_over
    ]
    for name in gone:
        pods[name] = pods[name]._replace(is_over=True, ended_us=pods[name].ended_us or now_us)
    return bool(gone)
