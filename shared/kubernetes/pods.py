"""Pods of runs: when each was ready, where it ran, and when its last container ended."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from shared.kubernetes.objects import (
    condition_of,
    mapping_of,
    mappings_of,
    time_us,
)
from shared.kubernetes.texts import shown

_ENDED: Final = ("Succeeded", "Failed")
_RAN: Final = ("Running", "Succeeded")


class RunPod(NamedTuple):
    """A pod, as far as it was seen; times are 0 where nobody knows them. `waits_for` is why it is
    not ready, in Kubernetes' words."""

    uid: str
    namespace: str
    node: str = ""
    ready_us: int = 0
    started_us: int = 0
    ended_us: int = 0
    is_over: bool = False
    waits_for: str = ""

    @property
    def began_us(self) -> int:
        """Return since when it was ready; of one that ended before that was seen, since when it
        ran. 0: it was not ready yet."""
        return self.ready_us or (self.started_us if self.is_over else 0)


def trimmed_pod(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is read of a pod."""
    metadata, status = mapping_of(pod.get("metadata")), mapping_of(pod.get("status"))
    names = ("name", "namespace", "uid", "labels", "resourceVersion")
    told = ("phase", "startTime", "conditions", "containerStatuses", "initContainerStatuses")
    return {
        "metadata": {name: metadata.get(name) for name in names},
        "spec": {"nodeName": mapping_of(pod.get("spec")).get("nodeName")},
        "status": {name: status.get(name) for name in told},
    }


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
    if status.get("phase") in _RAN and not any(began):  # its node says no more
        began = [time_us(status.get("startTime"))]
    ended = [_at(each.get("terminated"), "finishedAt") for each in states]
    known = before or RunPod(str(metadata.get("uid")), str(metadata.get("namespace")))
    is_over = status.get("phase") in _ENDED
    return known._replace(
        node=str(mapping_of(pod.get("spec")).get("nodeName") or known.node),
        ready_us=known.ready_us or time_us(ready.get("lastTransitionTime")),
        started_us=max(known.started_us, *began, 0),
        ended_us=max(known.ended_us, *ended, 0) if is_over else known.ended_us,
        is_over=known.is_over or is_over,
        waits_for="" if ready or is_over else _waits_for(status),
    )


def _waits_for(status: Mapping[str, Any]) -> str:
    for name in ("initContainerStatuses", "containerStatuses"):
        for each in mappings_of(status.get(name)):
            waiting = mapping_of(mapping_of(each.get("state")).get("waiting"))
            if waiting.get("reason"):
                more = waiting.get("message")
                return shown(f"{waiting['reason']}: {more}" if more else waiting["reason"])
    for each in mappings_of(status.get("conditions")):
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return shown(each.get("message") or each.get("reason") or "it was not scheduled")
    return ""


def why_not_ready(pods: Sequence[RunPod]) -> str:
    """Return why a run has not begun."""
    if not pods:
        return "it has no pods: see the events of the Job"
    found = next((each.waits_for for each in pods if each.waits_for), "")
    return found or "its pods are not ready: see their events"


def removed_pod(pod: Mapping[str, Any], before: RunPod | None, now_us: int) -> RunPod:
    """Return a pod that was deleted, as it was at last."""
    found = read_pod(pod, before)
    return found._replace(is_over=True, ended_us=found.ended_us or now_us)


def all_ready_us(pods: Sequence[RunPod], count: int) -> int:
    """Return since when as many pods as a run has were ready together, or had been; 0: they were
    not yet. Later ones replace pods that ended."""
    times = sorted(each.began_us for each in pods if each.began_us)
    return times[count - 1] if 0 < count <= len(times) else 0


def begun_us(pods: Iterable[RunPod], count: int) -> int:
    """Return since when a run that is over counts: since as many pods were ready as it has, or
    since the last of them ran where they never were; 0 where none did."""
    times = sorted(at_us for each in pods if (at_us := each.began_us or each.started_us))
    return max(times[:count], default=0)


def ended_us(pods: Iterable[RunPod]) -> int:
    """Return when the last of these pods ended that ran; 0 where nobody knows. One that never did
    may be deleted much later: behind a lost answer a Job controller creates one too many."""
    ran = (each.ended_us for each in pods if each.ready_us or each.started_us)
    return max(ran, default=0)


def units_by_node(pods: Iterable[RunPod]) -> Mapping[str, int]:
    """Return how many pods are on each node."""
    return Counter(each.node for each in pods if each.node)


def _at(state: object, name: str) -> int:
    return time_us(mapping_of(state).get(name))
