"""Workloads of Kueue as the API server shows them.

A field that is missing, or of another type, counts as missing: Kueue of another version, or who
writes a Workload by hand, stops nothing."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from shared.domain.times import in_utc
from shared.kubernetes.objects import (
    ApiObject,
    condition_of,
    conditions_of,
    mapping_of,
    mappings_of,
    require_identity,
    texts_of,
    time_us,
    whole_of,
)
from shared.kueue.names import APP, ORIGIN, RECALLED

_EVICTED: Final = "Evicted"
_CONDITION: Final = ("type", "status", "reason", "lastTransitionTime")
_METADATA: Final = (
    *("name", "namespace", "uid", "resourceVersion"),
    *("creationTimestamp", "deletionTimestamp"),
)
_SPEC: Final = ("queueName", "priority", "active", "maximumExecutionTimeSeconds")
_NUMBER_AT_END: Final = re.compile(r"-[0-9]+$")
# Kueue's own words on why a Workload does not count any more.
_TIMED_OUT: Final = "MaximumExecutionTimeExceeded"


class WorkloadKey(NamedTuple):
    """API server, namespace and name of a Workload."""

    server: str
    namespace: str
    name: str


class WorkloadUid(NamedTuple):
    """API server and uid of a Workload: another one of its name has another one."""

    server: str
    uid: str


class RecordName(NamedTuple):
    """The Workload that a record is of."""

    uid: str
    namespace: str
    name: str


class CheckState(StrEnum):
    """The state of one AdmissionCheck of a Workload."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True)
class PodSet:
    """Alike pods of a Workload: how many, and what they are made of."""

    name: str
    count: int
    template: Mapping[str, Any]

    @property
    def pod(self) -> Mapping[str, Any]:
        """Return the specification of its pods."""
        return mapping_of(self.template.get("spec"))

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels of its pods."""
        return texts_of(mapping_of(self.template.get("metadata")).get("labels"))


@dataclass(frozen=True, slots=True)
class Assignment:
    """What Kueue gave a pod set: its flavors, how much of each resource, for how many pods."""

    flavors: frozenset[str]
    usage: Mapping[str, Any]
    count: int | None
    has_topology: bool


class Eviction(NamedTuple):
    """Why Kueue took a Workload its quota, and when."""

    reason: str
    message: str
    at_us: int

    @property
    def is_time_out(self) -> bool:
        """Return whether it ran for longer than it may."""
        return self.reason.endswith(_TIMED_OUT)


def identified(server: str, fields: Mapping[str, Any]) -> "KueueWorkload":
    """Return the Workload that an API server shows. Raises RejectedError where it has no
    identity."""
    found = KueueWorkload(server, trimmed(fields))
    require_identity(found.metadata)
    return found


def trimmed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is read of a Workload: most of it is templates of pods, of which thousands would
    be kept."""
    fields = mapping_of(fields)
    metadata, spec = mapping_of(fields.get("metadata")), mapping_of(fields.get("spec"))
    sets = [_trimmed_set(each) for each in mappings_of(spec.get("podSets"))]
    labels = texts_of(metadata.get("labels"))
    owners = mappings_of(metadata.get("ownerReferences"))[:1]
    own = {
        **_only(metadata, _METADATA),
        "labels": _only(labels, (ORIGIN, APP)),
        "annotations": _only(texts_of(metadata.get("annotations")), (RECALLED,)),
        "ownerReferences": [_only(each, ("kind", "name", "uid")) for each in owners],
    }
    asked = {**_only(spec, _SPEC), "podSets": sets}
    return {"metadata": own, "spec": asked, "status": _trimmed_status(fields.get("status"))}


def _trimmed_status(told: object) -> Mapping[str, Any]:
    """Of all messages that of an eviction alone is read."""
    status, conditions = mapping_of(told), list[Mapping[str, Any]]()
    for each in conditions_of(status):
        names = (*_CONDITION, "message") if each.get("type") == _EVICTED else _CONDITION
        conditions.append(_only(each, names))
    checks = [_only(each, ("name", "state")) for each in mappings_of(status.get("admissionChecks"))]
    admission = mapping_of(status.get("admission"))
    names = ("name", "flavors", "resourceUsage", "count")
    assigned = [
        {**_only(each, names), "topologyAssignment": bool(each.get("topologyAssignment"))}
        for each in mappings_of(admission.get("podSetAssignments"))
    ]
    return {
        **_only(status, ("nominatedClusterNames", "clusterName", "schedulingStats")),
        "conditions": conditions,
        "admissionChecks": checks,
        "admission": {"podSetAssignments": assigned},
    }


def _only(told: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: told[name] for name in names if name in told}


def _trimmed_set(told: Mapping[str, Any]) -> Mapping[str, Any]:
    template = mapping_of(told.get("template"))
    pod, labels = mapping_of(template.get("spec")), mapping_of(template.get("metadata"))
    kept = {name: pod[name] for name in ("nodeSelector", "overhead", "resources") if name in pod}
    for name in ("containers", "initContainers"):
        if name in pod:
            kept[name] = _trimmed_containers(pod[name])
    template = {"metadata": {"labels": _only(texts_of(labels.get("labels")), (APP,))}, "spec": kept}
    return {"name": told.get("name"), "count": told.get("count", 1), "template": template}


def _trimmed_containers(told: object) -> object:
    if not isinstance(told, list) or not all(isinstance(each, Mapping) for each in told):
        return told
    names = ("resources", "restartPolicy")
    return [{name: each[name] for name in names if name in each} for each in told]


def unseen(server: str, name: RecordName, created_at_us: int) -> "KueueWorkload":
    """Return a Workload of which its record alone is known: its API server is to be asked."""
    metadata = {
        **name._asdict(),
        "creationTimestamp": in_utc(created_at_us / 1e6),
    }
    return KueueWorkload(server, {"metadata": metadata})


@dataclass(frozen=True, slots=True)
class KueueWorkload(ApiObject):
    """One Workload of one API server; `is_deleted_there` where that has it no more."""

    server: str
    fields: Mapping[str, Any]
    is_deleted_there: bool = False

    @property
    def key(self) -> WorkloadKey:
        """Return its API server, namespace and name."""
        return WorkloadKey(self.server, self.metadata["namespace"], self.metadata["name"])

    @property
    def id(self) -> WorkloadUid:
        """Return its API server and uid."""
        return WorkloadUid(self.server, self.uid)

    @property
    def recalled(self) -> str:
        """Return the newest grant that was recalled from it; empty where none was."""
        return self.annotations.get(RECALLED, "")

    @property
    def is_copy(self) -> bool:
        """Return whether MultiKueue copied it from a manager."""
        return ORIGIN in self.labels

    @property
    def queue(self) -> str:
        """Return the LocalQueue that it is in."""
        return str(self.spec.get("queueName") or "")

    @property
    def priority(self) -> int:
        """Return what Kueue orders its queue by."""
        return whole_of(self.spec.get("priority")) or 0

    @property
    def limit_s(self) -> int:
        """Return after which time of running Kueue ends it, s; 0: it does not."""
        return max(0, whole_of(self.spec.get("maximumExecutionTimeSeconds")) or 0)

    @property
    def owner(self) -> Mapping[str, str]:
        """Return kind, name and uid of the object that it is of; none where it has no owner."""
        return next(map(texts_of, mappings_of(self.metadata.get("ownerReferences"))), {})

    @property
    def is_of_pods(self) -> bool:
        """Return whether its user created its pods, as a group of the name of the Workload."""
        return self.owner.get("kind") == "Pod"

    @property
    def owner_name(self) -> str:
        """Return what its owner is called, without the number that a CronJob gives each Job."""
        for owner in mappings_of(self.metadata.get("ownerReferences")):
            if isinstance(owner.get("name"), str):
                return _NUMBER_AT_END.sub("", owner["name"])
        return self.key.name

    @property
    def pod_sets(self) -> Sequence[PodSet]:
        """Return its pod sets that have pods."""
        found = [
            PodSet(str(each.get("name")), whole_of(each.get("count", 1)) or 0, template)
            for each in mappings_of(self.spec.get("podSets"))
            for template in [mapping_of(each.get("template"))]
        ]
        return [each for each in found if each.count > 0]

    @property
    def pods(self) -> int:
        """Return how many pods it has at a time, as Kueue counts them."""
        counts = self.assignments
        found = 0
        for each in self.pod_sets:
            given = counts[each.name].count if each.name in counts else None
            found += each.count if given is None else given
        return found

    @property
    def assignments(self) -> Mapping[str, Assignment]:
        """Return what Kueue gave each pod set; nothing while it has no quota."""
        admission = mapping_of(self.status.get("admission"))
        return {
            str(each.get("name")): Assignment(
                frozenset(texts_of(each.get("flavors")).values()),
                mapping_of(each.get("resourceUsage")),
                whole_of(each.get("count")),
                bool(each.get("topologyAssignment")),
            )
            for each in mappings_of(admission.get("podSetAssignments"))
        }

    @property
    def checks(self) -> Mapping[str, str]:
        """Return the state of each of its AdmissionChecks."""
        told = mappings_of(self.status.get("admissionChecks"))
        return {str(each.get("name")): str(each.get("state")) for each in told}

    @property
    def has_quota(self) -> bool:
        """Return whether Kueue has quota reserved for it."""
        return condition_of(self.status, "QuotaReserved") is not None

    @property
    def reservation(self) -> str:
        """Return what distinguishes its reservation of quota from others: an eviction lies between
        two of them. Empty while it has none."""
        reserved = condition_of(self.status, "QuotaReserved")
        if reserved is None:
            return ""
        evictions = mappings_of(mapping_of(self.status.get("schedulingStats")).get("evictions"))
        count = sum(whole_of(each.get("count")) or 0 for each in evictions)
        return f"{reserved.get('lastTransitionTime')}/{count}"

    @property
    def is_admitted(self) -> bool:
        """Return whether Kueue lets it run."""
        return condition_of(self.status, "Admitted") is not None

    @property
    def has_lost_admission(self) -> bool:
        """Return whether Kueue let it run once, and does not any more."""
        told = (each.get("type") for each in conditions_of(self.status))
        return "Admitted" in told and not self.is_admitted

    @property
    def admitted_at_us(self) -> int:
        """Return since when it may run; 0 where it may not."""
        return time_us(mapping_of(condition_of(self.status, "Admitted")).get("lastTransitionTime"))

    @property
    def eviction(self) -> Eviction | None:
        """Return why its quota is being taken, or was taken last; None where it has quota again."""
        return _eviction(condition_of(self.status, _EVICTED))

    @property
    def last_eviction(self) -> Eviction | None:
        """Return the last eviction, also once it has quota again; None where there was none."""
        for found in conditions_of(self.status):
            if found.get("type") == _EVICTED:
                return _eviction(found)
        return None

    @property
    def finished(self) -> Mapping[str, Any] | None:
        """Return the condition that it has ended; None where it has not."""
        return condition_of(self.status, "Finished")

    @property
    def is_active(self) -> bool:
        """Return whether it may be admitted at all."""
        return self.spec.get("active") is not False

    @property
    def is_over(self) -> bool:
        """Return whether it has ended, or was deleted."""
        return self.is_deleted_there or bool(self.deleted_at_us) or self.finished is not None

    @property
    def may_start(self) -> bool:
        """Return whether it has quota that is not being taken from it."""
        is_asked = self.has_quota and self.is_active and self.eviction is None
        return is_asked and not self.is_over

    @property
    def nominated(self) -> Sequence[str]:
        """Return the clusters that MultiKueue tries it on."""
        told = self.status.get("nominatedClusterNames")
        return [each for each in told if isinstance(each, str)] if isinstance(told, list) else []

    @property
    def chosen_cluster(self) -> str:
        """Return the cluster that MultiKueue has it on; empty where there is none."""
        return str(self.status.get("clusterName") or "")


class CheckNames(NamedTuple):
    """The AdmissionChecks of an API server: those that Coplace answers, and those of MultiKueue
    with the clusters that they choose from. `cluster` is its own, empty where Workloads do not run
    on it."""

    own: frozenset[str] = frozenset()
    dispatched: Mapping[str, Sequence[str]] = {}
    cluster: str = ""

    def own_of(self, workload: KueueWorkload) -> list[str]:
        """Return the checks of a Workload that Coplace answers."""
        return [name for name in workload.checks if name in self.own]

    def pending_of(self, workload: KueueWorkload) -> list[str]:
        """Return the checks of a Workload that Coplace answers, where it has not yet."""
        own, states = self.own_of(workload), workload.checks
        return own if any(states[name] == CheckState.PENDING for name in own) else []

    def dispatched_of(self, workload: KueueWorkload) -> str:
        """Return the check by which MultiKueue sends a Workload away; empty where it stays."""
        return next((name for name in workload.checks if name in self.dispatched), "")

    def asks(self, workload: KueueWorkload) -> bool:
        """Return whether a Workload waits for a word of Coplace alone, or beside others: its check,
        or where it has none the nomination of a cluster. One that runs does not."""
        if not workload.may_start or workload.is_admitted:
            return False
        if self.own_of(workload):
            return bool(self.pending_of(workload))
        return self.awaits_nomination(workload)

    def awaits_nomination(self, workload: KueueWorkload) -> bool:
        """Return whether MultiKueue waits for the cluster of a Workload: all other checks are
        ready, and none is nominated."""
        name = self.dispatched_of(workload)
        if not name or not workload.may_start or workload.nominated or workload.chosen_cluster:
            return False
        states = dict(workload.checks)
        is_pending = states.pop(name) == CheckState.PENDING
        return is_pending and all(state == CheckState.READY for state in states.values())

    def clusters_of(self, workload: KueueWorkload) -> Sequence[str]:
        """Return the clusters that a Workload may be sent to; its own where it stays."""
        if name := self.dispatched_of(workload):
            return self.dispatched[name]
        return [self.cluster] if self.cluster else []


def _eviction(found: Mapping[str, Any] | None) -> Eviction | None:
    if found is None:
        return None
    words = (str(found.get("reason") or "evicted"), str(found.get("message") or ""))
    return Eviction(*words, time_us(found.get("lastTransitionTime")))
