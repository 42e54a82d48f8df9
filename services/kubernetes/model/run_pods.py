"""Pods of a run as an executor reports them: as many as what follows from all of them needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared.kubernetes.objects import mapping_of, mappings_of, whole_of
from shared.kubernetes.pods import RunPod, all_ready_us, ended_us
from shared.kubernetes.texts import shown

_NEVER_US: Final = 1 << 62
# An object has 1.5 MiB at most. A pod takes up to 200 bytes of it, and twice as many are kept.
_MOST: Final = 2500


@dataclass(frozen=True, slots=True)
class PodDisruption:
    """That pods of a run were ended by Kubernetes, not by themselves; `failed_nodes` are those that
    were lost with them."""

    reason: str
    failed_nodes: tuple[str, ...] = ()

    def to_fields(self) -> Mapping[str, Any]:
        """Return it as an executor reports it."""
        return {"reason": shown(self.reason), "failedNodes": list(self.failed_nodes)}


def read_disruption(told: object) -> PodDisruption | None:
    """Return what an executor reported; None where it has seen none."""
    fields = mapping_of(told)
    names = fields.get("failedNodes")
    failed = tuple(map(str, names)) if isinstance(names, list) else ()
    return PodDisruption(str(fields.get("reason") or ""), failed) if fields else None


def pod_fields(pod: RunPod) -> Mapping[str, Any]:
    """Return a pod as an executor reports it: without what is not known of it."""
    found = {
        "uid": pod.uid,
        "node": pod.node,
        "readyUs": pod.ready_us,
        "startedUs": pod.started_us,
        "endedUs": pod.ended_us,
        "isOver": pod.is_over,
        "waitsFor": pod.waits_for,
    }
    return {name: told for name, told in found.items() if told}


def read_pods(told: object, namespace: str) -> Sequence[RunPod]:
    """Return the pods that an executor reported."""
    return [
        RunPod(
            str(each.get("uid")),
            namespace,
            str(each.get("node") or ""),
            ready_us=whole_of(each.get("readyUs")) or 0,
            started_us=whole_of(each.get("startedUs")) or 0,
            ended_us=whole_of(each.get("endedUs")) or 0,
            is_over=each.get("isOver") is True,
            waits_for=str(each.get("waitsFor") or ""),
        )
        for each in mappings_of(told)
    ]


def kept_pods(before: Sequence[RunPod], seen: Sequence[RunPod], count: int) -> Sequence[RunPod]:
    """Return the pods of a run of `count` at a time: as they were reported `before`, with what was
    seen since. Of those that are over the first ones say since when it counts, and the last end is
    kept: what follows from all pods follows from these. Of a run of thousands none is kept: it
    counts from its start to its end."""
    if count > _MOST:
        return ()
    since_us = all_ready_us(before, count)
    pods = {each.uid: each for each in before}
    for each in seen:
        pods[each.uid] = _joined(pods.get(each.uid), each, since_us)
    live = [each for each in pods.values() if not each.is_over]
    over = sorted((each for each in pods.values() if each.is_over), key=_first)
    kept, last_us = over[: max(count, 1)], ended_us(over)
    if last_us > ended_us(kept):
        kept[0] = kept[0]._replace(ended_us=last_us)
    return sorted([*kept, *live], key=lambda pod: pod.uid)


def _first(pod: RunPod) -> tuple[int, str]:
    return pod.began_us or _NEVER_US, pod.uid


def _joined(before: RunPod | None, seen: RunPod, since_us: int) -> RunPod:
    """What is known of a pod: a process that has begun anew has not seen when it was ready. One
    that nobody saw before all were ready counts from then on at the earliest."""
    known = before or seen
    found = seen._replace(
        ready_us=known.ready_us or seen.ready_us,
        started_us=max(known.started_us, seen.started_us),
        ended_us=max(known.ended_us, seen.ended_us),
        is_over=known.is_over or seen.is_over,
        node=seen.node or known.node,
    )
    is_new = not known.began_us if before else True
    if since_us and is_new and found.began_us:
        return found._replace(ready_us=max(found.began_us, since_us))
    return found
