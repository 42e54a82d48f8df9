"""Jobs that choose their nodes, drawn by their number, and nodes that differ."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, NamedTuple

from services.kubernetes.model.names import MANAGED_BY
from tests.support.kubernetes_api import merged

_ZONES: Final = ("a", "b", "c")
_TAINT: Final = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_HOST: Final = "kubernetes.io/hostname"


class DrawnNode(NamedTuple):
    """What a node has: every third is in one zone, every fourth is tainted."""

    zone: str
    is_tainted: bool

    @classmethod
    def named(cls, name: str) -> "DrawnNode":
        """Return what the node `CLUSTER-NUMBER` has."""
        number = int(name.rpartition("-")[2])
        return cls(_ZONES[number % 3], number % 4 == 3)

    def fields(self) -> Mapping[str, Any]:
        """Return a patch of a node that gives it that."""
        labels, taints = {"zone": self.zone}, [_TAINT] if self.is_tainted else None
        return {"metadata": {"labels": labels}, "spec": {"taints": taints}}


class Chooser(NamedTuple):
    """What a Job adds to itself, and on which nodes it may run."""

    patch: Mapping[str, Any]
    may_use: Callable[[DrawnNode], bool]


def chooser(number: int) -> Chooser:
    """Return what the Job of a number chooses."""
    rng = Random(number)
    zone, tolerates = rng.choice(_ZONES), rng.random() < 0.3
    draw = rng.choice((_by_selector, _by_affinity, _by_distance, _by_nothing))
    spec, may_use = draw(zone, number)
    pod: dict[str, Any] = {}
    if tolerates:
        told = rng.choice(({**_TAINT}, {"key": "dedicated", "operator": "Exists"}))
        pod["tolerations"] = [told]
    if rng.random() < 0.2:  # its pods request nothing
        pod["containers"] = [{"name": "main", "image": "none"}]
    if rng.random() < 0.2:
        spec = {**spec, "activeDeadlineSeconds": None}
    if rng.random() < 0.5:
        spec = {**spec, "managedBy": MANAGED_BY}
    patch = merged({"spec": spec}, {"spec": {"template": {"spec": pod}}})
    return Chooser(patch, lambda node: may_use(node) and (tolerates or not node.is_tainted))


_Drawn = tuple[Mapping[str, Any], Callable[[DrawnNode], bool]]


def _of_pod(**pod: Any) -> Mapping[str, Any]:
    return {"template": {"spec": pod}}


def _by_nothing(_zone: str, _number: int) -> _Drawn:
    return {}, lambda _: True


def _by_selector(zone: str, _number: int) -> _Drawn:
    return _of_pod(nodeSelector={"zone": zone}), lambda node: node.zone == zone


def _by_affinity(zone: str, _number: int) -> _Drawn:
    term = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": [zone]}]}
    required = {_REQUIRED: {"nodeSelectorTerms": [term]}}
    return _of_pod(affinity={"nodeAffinity": required}), lambda node: node.zone != zone


def _by_distance(_zone: str, number: int) -> _Drawn:
    """Three pods, of which no two may be on one node: the scheduler of Kubernetes sees to that."""
    selector = {"matchLabels": {"batch.kubernetes.io/job-name": job_name(number)}}
    apart = {_REQUIRED: [{"topologyKey": _HOST, "labelSelector": selector}]}
    spec = {"parallelism": 3, "completions": 3, **_of_pod(affinity={"podAntiAffinity": apart})}
    return spec, lambda _: True


def job_name(number: int) -> str:
    """Return how the Job of a number is called."""
    return f"job-{number:05}"
