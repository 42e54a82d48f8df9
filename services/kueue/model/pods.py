"""Pods of Workloads: when each was ready, where it ran, and when its last container ended."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from services.kueue.model.names import WORKLOAD
from shared.kubernetes.names import GRANT
from shared.kubernetes.objects import (
    condition_of,
    is_number,
    mapping_of,
    mappings_of,
    texts_of,
    time_us,
)

_ENDED: Final = ("Succeeded", "Failed")


class RunId(NamedTuple):
    """The uid of a Workload, and the grant that its pods run under."""

    uid: str
    grant: int


class RunPod(NamedTuple):
    """A pod, as far as it was seen; times are 0 where nobody knows them."""

    uid: str
    namespace: str
    node: str = ""
    ready_us: int = 0
    started_us: int = 0
    ended_us: int = 0
    is_over: bool = False

    @property
    def began_us(self) -> int:
        """Return since when it was ready; of one that ended before that was seen, since when it
        ran. 0: it was not ready yet."""
        return self.ready_us or (self.started_us if self.is_over else 0)


def trimmed_pod(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is read of a pod."""
    metadata, status = mapping_of(pod.get("metadata")), mapping_of(pod.get("status"))
    names = ("name", "namespace", "uid", "labels", "resourceVersion")
    told = ("phase", "conditions", "containerStatuses")
    return {
        "metadata": {name: metadata.get(name) for name in names},
        "spec": {"nodeName": mapping_of(pod.get("spec")).get("nodeName")},
        "status": {name: status.get(name) for name in told},
    }


def run_of(pod: Mapping[str, Any]) -> RunId | None:
    """Return whose pod it is; None where it is not of a Workload that Coplace started."""
    labels = texts_of(mapping_of(mapping_of(pod).get("metadata")).get("labels"))
    uid, grant = labels.get(WORKLOAD, ""), labels.get(GRANT, "")
    return RunId(uid, int(grant)) if uid and is_number(grant) else None


def read_pod(pod: Mapping[str, Any], before: RunPod | None = None) -> RunPod:
    """Return a pod as it is, with what was seen of it before: one that has ended does not say any
    more since when it was ready."""
    metadata, status = mapping_of(pod.get("metadata")), mapping_of(pod.get("status"))
    ready = mapping_of(condition_of(status, "Ready"))
    states = [
        mapping_of(each.get("state")) for each in mappings_of(status.get("containerStatuses"))
    ]
    began = [_at(each.get("running"), "startedAt") for each in states]
    began += [_at(each.get("terminated"), "startedAt") for each in states]
    ended = [_at(each.get("terminated"), "finishedAt") for each in states]
    known = before or RunPod(str(metadata.get("uid")), str(metadata.get("namespace")))
    is_over = status.get("phase") in _ENDED
    return known._replace(
        node=str(mapping_of(pod.get("spec")).get("nodeName") or known.node),
        ready_us=known.ready_us or time_us(ready.get("lastTransitionTime")),
        started_us=max(known.started_us, *began, 0),
        ended_us=max(known.ended_us, *ended, 0) if is_over else known.ended_us,
        is_over=known.is_over or is_over,
    )


def removed_pod(pod: Mapping[str, Any], before: RunPod | None, now_us: int) -> RunPod:
    """Return a pod that was deleted, as it was at last."""
    found = read_pod(pod, before)
    return found._replace(is_over=True, ended_us=found.ended_us or now_us)


def all_ready_us(pods: Sequence[RunPod], count: int) -> int:
    """Return since when as many pods as a Workload has were ready together, or had been; 0: they
    were not yet. Later ones replace pods that ended."""
    times = sorted(each.began_us for each in pods if each.began_us)
    return times[count - 1] if 0 < count <= len(times) else 0


def begun_us(pods: Iterable[RunPod], count: int) -> int:
    """Return since when a run that is over counts: since as many pods were ready as a Workload has,
    or since the last of them ran where they never were; 0 where none did."""
    times = sorted(at_us for each in pods if (at_us := each.began_us or each.started_us))
    return max(times[:count], default=0)


def ended_us(pods: Iterable[RunPod]) -> int:
    """Return when the last of these pods ended; 0 where nobody knows."""
    return max((each.ended_us for each in pods), default=0)


def units_by_node(pods: Iterable[RunPod]) -> Mapping[str, int]:
    """Return how many pods are on each node."""
    return Counter(each.node for each in pods if each.node)


def _at(state: object, name: str) -> int:
    return time_us(mapping_of(state).get(name))
