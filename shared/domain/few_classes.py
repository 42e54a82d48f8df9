"""Nodes in as few classes as a cluster may be declared with. A class is of nodes that follow each
other."""

from collections.abc import Sequence
from itertools import groupby
from math import frexp, ldexp
from operator import itemgetter
from typing import Any, Final, TypeVar

from coplace_client.bounds import LENGTHS

MOST_CLASSES: Final = LENGTHS["node_classes"].most

_Node = TypeVar("_Node")
_Kind = TypeVar("_Kind", bound=tuple[Any, ...])


def few_classes(nodes: Sequence[tuple[_Node, _Kind]]) -> Sequence[tuple[_Node, _Kind]]:
    """Return nodes with their kinds in their order, or those that are alike together where there
    would be more classes than a cluster can have."""
    classes = sum(1 for _ in groupby(kind for _, kind in nodes))
    return nodes if classes <= MOST_CLASSES else sorted(nodes, key=itemgetter(1))


def less_exact(amount: float) -> float:
    """Return the power of two that is no more than an amount; 0 for none."""
    return ldexp(1.0, frexp(amount)[1] - 1) if amount else 0.0
