"""Taints of nodes, and which of them pods tolerate, as partitions of a cluster.

Coplace knows no taints. What a set of tolerations lets a pod use is a partition, whose name says
which: `tolerates:dedicated=gpu:NoSchedule+spot:` has the nodes of that taint, of any taint with the
key `spot`, and all without taints. Jobs that tolerate nothing are in the default partition.

https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from coplace_client.errors import RejectedError
from shared.kubernetes.objects import mapping_of

UNTAINTED: Final = "untainted"
"""The default partition: nodes without taints."""
_TOLERATING: Final = "tolerates:"
KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")
# Kubernetes sets these for what conditions and `spec.unschedulable` say anyway.
_OF_STATE: Final = "node.kubernetes.io/"
_WORD: Final = re.compile(r"[A-Za-z0-9._/-]{0,316}")
_ONE: Final = re.compile(r"([^=:+]*)(=[^=:+]*)?:([^=:+]*)")
# Characters of a partition's name.
_MOST_TEXT: Final = 256


def lasting_taints(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the taints that keep pods away from a node until somebody takes them off."""
    return [
        taint
        for taint in node["spec"].get("taints") or ()
        if taint["effect"] in KEEPS_AWAY and not taint["key"].startswith(_OF_STATE)
    ]


@dataclass(frozen=True, slots=True)
class Toleration:
    """Of taints with a key (empty: any) and an effect (empty: any), of any value where it is
    None."""

    key: str
    value: str | None
    effect: str

    def __str__(self) -> str:
        return f"{self.key}{'' if self.value is None else f'={self.value}'}:{self.effect}"

    def covers(self, taint: Mapping[str, Any]) -> bool:
        """Return whether it tolerates a taint."""
        return (
            self.key in ("", taint["key"])
            and self.value in (None, taint.get("value") or "")
            and self.effect in ("", taint["effect"])
        )


@dataclass(frozen=True, slots=True)
class Tolerations:
    """All of a pod."""

    each: frozenset[Toleration] = frozenset()

    @classmethod
    def parse(cls, partition: str) -> Self | None:
        """Return those that the name of a partition says; None where it says none."""
        if not partition.startswith(_TOLERATING):
            return None
        found = [_ONE.fullmatch(text) for text in partition.removeprefix(_TOLERATING).split("+")]
        return cls(
            frozenset(
                Toleration(one[1], None if one[2] is None else one[2][1:], one[3])
                for one in found
                if one
            )
        )

    @property
    def partition(self) -> str:
        """Return the name of the partition; empty for none."""
        return _TOLERATING + "+".join(map(str, sorted(self.each, key=str))) if self.each else ""

    def allow(self, taints: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether a pod may run beside all of these taints."""
        return all(any(each.covers(taint) for each in self.each) for taint in taints)


def tolerations_of(pod: Mapping[str, Any], where: str) -> Tolerations:
    """Return what a pod tolerates for as long as it runs, which is the field `where`. Raises
    RejectedError, which names the field."""
    field, told = f"{where}.tolerations", pod.get("tolerations") or []
    if not isinstance(told, list):
        raise RejectedError(field, "must be a list")
    found = (_one(f"{field}[{number}]", mapping_of(each)) for number, each in enumerate(told))
    all_of_them = Tolerations(frozenset(each for each in found if each))
    if len(all_of_them.partition) > _MOST_TEXT:
        raise RejectedError(field, f"must be at most {_MOST_TEXT} characters together")
    return all_of_them


def _one(field: str, told: Mapping[str, Any]) -> Toleration | None:
    """None where it is of what comes and goes, or only for a time."""
    key, effect = told.get("key") or "", told.get("effect") or ""
    value = told.get("value") or ""
    for text in (key, effect, value):
        if not isinstance(text, str) or not _WORD.fullmatch(text):
            raise RejectedError(field, f"must be words as taints have, got {str(text)[:40]!r}")
    is_any = told.get("operator") == "Exists"
    if not key and not is_any:
        raise RejectedError(field, "must have a key, or the operator Exists")
    is_brief = told.get("tolerationSeconds") is not None
    if key.startswith(_OF_STATE) or effect not in ("", *KEEPS_AWAY) or is_brief:
        return None
    return Toleration(key, None if is_any else value, effect)
