"""Nodes that an executor reports, with what pods of others have taken of each: the kind
`ExecutorNode` of `coplace.io/v1`, in the home cluster."""

from collections.abc import Mapping
from typing import Any, Final

from services.kubernetes.model.bodies import Body
from services.kubernetes.model.records import API_VERSION
from shared.kubernetes.nodes import PodAmounts, node_name
from shared.kubernetes.objects import mapping_of, texts_of

KIND: Final = "ExecutorNode"
PLURAL: Final = "executornodes"
# Each write of a kubelet makes another version.
_VERSIONS: Final = ("resourceVersion", "uid")


def node_spec(node: Mapping[str, Any], taken: PodAmounts) -> Body:
    """Return what is reported of a node, as it is read, and of what others have taken of it."""
    metadata = {
        name: told
        for name, told in mapping_of(node.get("metadata")).items()
        if name not in _VERSIONS
    }
    amounts = {name: str(amount) for name, amount in taken.items()}
    return {"node": {**node, "metadata": metadata}, "taken": amounts}


def node_body(spec: Body) -> Body:
    """Return what is created for a node."""
    metadata = {"name": node_name(spec["node"])}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def node_of(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the node that was reported."""
    return mapping_of(mapping_of(fields.get("spec")).get("node"))


def others_of(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the pods of others on a node together, as one is read."""
    name = str(mapping_of(fields.get("metadata")).get("name"))
    taken = texts_of(mapping_of(fields.get("spec")).get("taken"))
    return {"metadata": {"uid": name}, "node": name, "amounts": taken}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that makes one object of another."""
    found: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if inner := difference(old, value):
                found[name] = inner
        elif old != value:
            found[name] = value
    return found
