"""Pods that Coplace does not start: DaemonSets, services, Jobs of nobody's queue. What they ask for
is not there for its Jobs."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, Final

from coplace_client.errors import RejectedError
from shared.kubernetes.names import GRANT
from shared.kubernetes.nodes import PodAmounts
from shared.kubernetes.objects import mapping_of, texts_of
from shared.kubernetes.units import PODS, pod_amounts

SELECTOR: Final = f"!{GRANT}"
"""Pods of no grant."""
_ENDED: Final = ("Succeeded", "Failed")
_GIB: Final = 1024**3
# Amounts are counted up to these: a cluster is declared anew for each change of them.
_STEPS: Final[Mapping[str, Fraction]] = {
    "cpu": Fraction(1, 10),
    "memory": Fraction(_GIB, 4),
}


def trimmed_other_pod(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is read of a pod: who it is, where, and what it asks for of its node, as text."""
    metadata, spec = mapping_of(pod.get("metadata")), mapping_of(pod.get("spec"))
    is_over = mapping_of(pod.get("status")).get("phase") in _ENDED
    node = "" if is_over else str(spec.get("nodeName") or "")
    names = ("name", "namespace", "uid", "resourceVersion")
    kept = {name: metadata.get(name) for name in names}
    labels = {
        name: told for name, told in texts_of(metadata.get("labels")).items() if name == GRANT
    }
    found: dict[str, Any] = {"metadata": {**kept, "labels": labels}, "node": node, "amounts": {}}
    if node:
        amounts = {**_asked(spec), PODS: Fraction(1)}
        found["amounts"] = {name: str(amount) for name, amount in amounts.items()}
    return found


def _asked(spec: Mapping[str, Any]) -> PodAmounts:
    try:
        return pod_amounts(spec, "spec")
    except RejectedError:  # it runs all the same, and nobody knows on what
        return {}


class OtherPods:
    """Of one cluster; `changed_amounts` is called when nodes have other amounts left."""

    def __init__(self, changed_amounts: Callable[[], object]) -> None:
        self._changed_amounts = changed_amounts
        self._pods: dict[str, tuple[str, PodAmounts]] = {}

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Replace what is known by a list of all pods."""
        self._pods.clear()
        for pod in found:
            self._note(pod)
        self._changed_amounts()

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note a pod that is new, or has changed."""
        if self._note(found):
            self._changed_amounts()

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a pod was deleted, or is of a grant by now."""
        if self._pods.pop(_uid(found), None):
            self._changed_amounts()

    def by_node(self) -> Mapping[str, PodAmounts]:
        """Return what pods ask for together on each node, in steps."""
        found: dict[str, Counter[str]] = {}
        for node, amounts in self._pods.values():
            found.setdefault(node, Counter()).update(amounts)
        return {node: _stepped(amounts) for node, amounts in found.items()}

    def _note(self, pod: Mapping[str, Any]) -> bool:
        """Whether a pod has other amounts than it had."""
        uid, before = _uid(pod), self._pods.get(_uid(pod))
        node, told = str(pod.get("node") or ""), mapping_of(pod.get("amounts"))
        if not (node and told):
            return self._pods.pop(uid, None) is not None
        amounts = {name: Fraction(amount) for name, amount in told.items()}
        self._pods[uid] = (node, amounts)
        return before != self._pods[uid]


def _uid(pod: Mapping[str, Any]) -> str:
    return str(mapping_of(pod.get("metadata")).get("uid"))


def _stepped(amounts: Mapping[str, Any]) -> PodAmounts:
    one = Fraction(1)
    return {name: ceil(n / (step := _STEPS.get(name, one))) * step for name, n in amounts.items()}
