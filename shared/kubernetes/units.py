"""What one pod of a Job needs: a unit of it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, Final

from coplace_client.bounds import CORES_PER_NODE, NODE_MEMORY_GIB
from coplace_client.errors import RejectedError
from coplace_client.millicores import PER_CORE, whole_cores
from shared.domain.resources import require_resources, resources_of
from shared.kubernetes.quantities import quantity

_GIB: Final = 1024**3
_POD: Final = "spec.template.spec"
# What is not counted by nodes, or not chosen by.
_LEFT_OUT: Final = ("ephemeral-storage", "storage", "hugepages-", "attachable-volumes-")
PODS: Final = "pods"
"""How many pods a node takes: each takes one, whatever it asks for."""

_ASKED: Final = ("limits", "requests")
_MOST_KINDS: Final = 256

_Amounts = Counter[str]


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """Of one pod: thousandths of a core, memory, and `resources`, extended ones: see
    `resource_names`."""

    millicores: int
    memory_gib: float
    resources: Mapping[str, int]


def resource_names(name: str) -> tuple[str, ...]:
    """Return the names as clusters declare it: `nvidia.com/gpu` is a `gpu`, and of its kind
    `gpu:nvidia.com`; others keep their names."""
    kind, _, what = name.rpartition("/")
    return ("gpu", f"gpu:{kind}") if kind and what == "gpu" else (name,)


def count_resources(amounts: Mapping[str, Fraction]) -> dict[str, int]:
    """Return the extended resources among amounts, whole ones, by the names that clusters
    declare."""
    found: _Amounts = Counter()
    for name, amount in amounts.items():
        if name not in ("cpu", "memory") and not name.startswith(_LEFT_OUT) and amount > 0:
            found.update(dict.fromkeys(resource_names(name), ceil(amount)))
    return dict(found)


def amounts(field: str, told: object) -> dict[str, Fraction]:
    """Parse quantities by resource. Raises RejectedError, which names the field."""
    if not isinstance(told, Mapping) or len(told) > _MOST_KINDS:
        raise RejectedError(field, f"must be at most {_MOST_KINDS} quantities by resource")
    found = {str(name): quantity(f"{field}.{name}", text) for name, text in told.items()}
    for name, amount in found.items():
        if amount < 0:
            raise RejectedError(f"{field}.{name}", f"must be at least 0, got {amount}")
    return found


def pod_needs(pod: Mapping[str, Any], default_cpu: Fraction) -> PodNeeds:
    """Return what a pod asks for, with some CPU where it asks for none. Raises RejectedError, which
    names the field."""
    asked = pod_amounts(pod, _POD)
    return needs_of({**asked, "cpu": asked.get("cpu") or default_cpu})


def needs_of(asked: Mapping[str, Fraction]) -> PodNeeds:
    """Return amounts of a pod in thousandths of a core and whole resources. Raises RejectedError,
    which names the field."""
    memory_gib = float(asked.get("memory", Fraction(0)) / _GIB)
    resources = count_resources(asked)
    resources.pop(PODS, None)
    found = PodNeeds(
        millicores=ceil(asked.get("cpu", Fraction(0)) * PER_CORE),
        memory_gib=max(memory_gib, NODE_MEMORY_GIB.least) if memory_gib else 0.0,
        resources=resources,
    )
    CORES_PER_NODE.require("requests.cpu", whole_cores(found.millicores))
    NODE_MEMORY_GIB.require_if_known("requests.memory", found.memory_gib)
    require_resources("requests", resources_of(found.resources))
    return found


def pod_amounts(pod: Mapping[str, Any], where: str) -> dict[str, Fraction]:
    """Return what a pod, which is the field `where`, asks for, as Kubernetes counts it: all
    containers together, or the largest of those that run before them; sidecars beside both. Raises
    RejectedError, which names the field."""
    first = _containers(where, "initContainers", pod)
    sidecars = [each for each in first if each.get("restartPolicy") == "Always"]
    before = [each for each in first if each.get("restartPolicy") != "Always"]
    init = f"{where}.initContainers"
    beside = _sum(_requests(init, sidecars))
    most = _sum(_requests(f"{where}.containers", _containers(where, "containers", pod)))
    for each in _requests(init, before):
        most |= {name: max(amount, most.get(name, amount)) for name, amount in each.items()}
    inside = _sum([most, beside])
    for name, amount in _asked(f"{where}.resources", pod).items():  # of the pod as a whole
        inside[name] = max(amount, inside.get(name, amount))
    return _sum([inside, amounts(f"{where}.overhead", pod.get("overhead") or {})])


def _containers(where: str, field: str, pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    told = pod.get(field) or []
    if not isinstance(told, list) or not all(isinstance(each, Mapping) for each in told):
        raise RejectedError(f"{where}.{field}", "must be a list of containers")
    return told


def _requests(
    field: str, containers: Iterable[Mapping[str, Any]]
) -> Iterable[Mapping[str, Fraction]]:
    """Of each container; what has a limit alone requests that."""
    for number, container in enumerate(containers):
        yield _asked(f"{field}[{number}].resources", container)


def _asked(field: str, of: Mapping[str, Any]) -> Mapping[str, Fraction]:
    told = of.get("resources") or {}
    if not isinstance(told, Mapping):
        raise RejectedError(field, "must be requests and limits")
    limits, requests = (amounts(f"{field}.{each}", told.get(each) or {}) for each in _ASKED)
    return {**limits, **requests}


def _sum(each: Iterable[Mapping[str, Fraction]]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for found in each:
        for name, amount in found.items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total
