"""Terms on the labels of nodes: pods select nodes by them, and Coplace does by features.

A term is one feature, and its name says which: `zone=a`, `zone<>a` (it has not), `gpu` (it has the
label), `no:gpu`, `cores>8`, `cores<8`. So whoever reads the name can say which nodes have it.

https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from coplace_client.errors import RejectedError
from shared.domain.features import parse_features
from shared.kubernetes.objects import mapping_of, texts_of

NAME: Final = "metadata.name"
"""In place of a label: the name of the node."""
_KEY: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,315}[A-Za-z0-9])?")
_VALUE: Final = re.compile(r"[A-Za-z0-9._-]{0,253}")
_TERM: Final = re.compile(r"(no:)?([^=<>:]+)(?:(=|<>|>|<)([^=<>:]*))?")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_SIGNS: Final[Mapping[str, str]] = {"In": "=", "NotIn": "<>", "Gt": ">", "Lt": "<"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One term: `sign` is `=`, `<>`, `>` or `<` before a value; without a sign it asks whether the
    label is there, or `is_absent`."""

    key: str
    sign: str = ""
    value: str = ""
    is_absent: bool = False

    @classmethod
    def parse(cls, feature: str) -> Self | None:
        """Return the term that a feature is; None where it is none."""
        found = _TERM.fullmatch(feature)
        return found and cls(found[2], found[3] or "", found[4] or "", found[1] is not None)

    def __str__(self) -> str:
        return f"{'no:' if self.is_absent else ''}{self.key}{self.sign}{self.value}"

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node has it, whose name is among its labels as `metadata.name`."""
        found = labels.get(self.key)
        match self.sign:
            case "=":
                return found == self.value
            case "<>":
                return found != self.value
            case "":
                return (found is None) == self.is_absent
        if found is None or not (_NUMBER.fullmatch(found) and _NUMBER.fullmatch(self.value)):
            return False
        return int(found) > int(self.value) if self.sign == ">" else int(found) < int(self.value)


def terms_of(features: str) -> Iterable[NodeTerm]:
    """Yield the terms in an expression of features."""
    for name in parse_features(features).names() if features else ():
        if term := NodeTerm.parse(name):
            yield term


def labels_of(node: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of a node, and its name."""
    metadata = node["metadata"]
    return {**texts_of(metadata.get("labels")), NAME: str(metadata["name"])}


def selected(pod: Mapping[str, Any], where: str) -> str:
    """Return as an expression of features which nodes a pod selects, which is the field `where`:
    its nodeSelector and its required node affinity; empty: all. Raises RejectedError, which names
    the field."""
    told = _mapping(f"{where}.nodeSelector", pod.get("nodeSelector"))
    parts = [_term(f"{where}.nodeSelector", key, "=", value) for key, value in told.items()]
    affinity = mapping_of(mapping_of(pod.get("affinity")).get("nodeAffinity"))
    if required := affinity.get(_REQUIRED):
        field = f"{where}.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
        parts.append(_any_of(_alternatives(field, mapping_of(required).get("nodeSelectorTerms"))))
    expression = _joined(parts, "&")
    if expression:
        parse_features(expression)
    return expression


def _alternatives(field: str, told: object) -> list[str]:
    """Of each of the terms, one of which has to hold. An empty one selects nothing."""
    found = []
    for number, term in enumerate(_list(field, told)):
        parts = [
            _requirement(f"{field}[{number}].{name}", each)
            for name in ("matchExpressions", "matchFields")
            for each in _list(f"{field}[{number}].{name}", mapping_of(term).get(name) or [])
        ]
        if parts:
            found.append(_all_of(parts))
    if not found:
        raise RejectedError(field, "must select some nodes")
    return found


def _requirement(field: str, told: object) -> str:
    of = mapping_of(told)
    key, operator = of.get("key"), str(of.get("operator"))
    values = _list(f"{field}.values", of.get("values") or [])
    if operator in ("Exists", "DoesNotExist"):
        return _named(field, NodeTerm(_key(field, key), is_absent=operator == "DoesNotExist"))
    if operator not in _SIGNS or not values:
        shown = f"{operator[:40]} {str(values)[:40]}"
        raise RejectedError(field, f"must be a known operator with its values, got {shown}")
    terms = [_term(field, key, _SIGNS[operator], value) for value in values]
    return _any_of(terms) if operator == "In" else _all_of(terms)


def _term(field: str, key: object, sign: str, value: object) -> str:
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise RejectedError(field, f"must have values as labels have, got {str(value)[:40]!r}")
    return _named(field, NodeTerm(_key(field, key), sign, value))


def _key(field: str, told: object) -> str:
    if not isinstance(told, str) or not _KEY.fullmatch(told):
        raise RejectedError(field, f"must have keys as labels have, got {str(told)[:40]!r}")
    return told


def _named(field: str, term: NodeTerm) -> str:
    if NodeTerm.parse(str(term)) != term:
        raise RejectedError(field, f"cannot be followed: {term}")
    return str(term)


def _all_of(parts: Sequence[str]) -> str:
    return _grouped(parts, "&")


def _any_of(parts: Sequence[str]) -> str:
    return _grouped(parts, "|")


def _grouped(parts: Sequence[str], sign: str) -> str:
    return f"({_joined(parts, sign)})" if len(set(parts)) > 1 else parts[0]


def _joined(parts: Sequence[str], sign: str) -> str:
    return sign.join(dict.fromkeys(parts))


def _list(field: str, told: object) -> Sequence[Any]:
    if not isinstance(told, list):
        raise RejectedError(field, "must be a list")
    return told


def _mapping(field: str, told: object) -> Mapping[str, Any]:
    if told is None:
        return {}
    if not isinstance(told, Mapping):
        raise RejectedError(field, "must be values by labels")
    return told
