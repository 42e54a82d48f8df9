"""What decisions say in words they say typed too."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_POWER_BUDGET,
    CONSTRAINT_KIND_UNSPECIFIED,
    VERDICT_HELD,
    VERDICT_QUEUED,
    Constraint,
    PlacementDecided,
    PowerShortage,
)

# Of nodes, of nodes that are held for ever, of caps, and of nodes that are drained.
MOST_CONSTRAINTS: Final = 4


def untyped(decided: PlacementDecided) -> Iterator[str]:
    """Where a decision has words without a type, a type without words, or figures of watts that are
    not those of the cap that refuses longest."""
    waits = decided.verdict in (VERDICT_QUEUED, VERDICT_HELD)
    reason = decided.reason if waits else ""
    yield from _parted("the decision", reason, decided.constraints)
    own = decided.instead_of
    yield from _parted("its P-state", own.constraint, own.constraints)
    yield from _other_watts("its P-state", own.constraints, own.power.shortages)
    for one in decided.candidates:
        yield from _parted(one.cluster, one.constraint, one.constraints)
        yield from _other_watts(one.cluster, one.constraints, one.power.shortages)


def _parted(what: str, words: str, constraints: Sequence[Constraint]) -> Iterator[str]:
    kinds = [constraint.kind for constraint in constraints]
    if bool(words) != bool(kinds) or CONSTRAINT_KIND_UNSPECIFIED in kinds:
        yield f"{what} says {words!r} and is of kinds {kinds}"
    if len(kinds) > MOST_CONSTRAINTS:
        yield f"{what} has {len(kinds)} constraints"


def _other_watts(
    what: str, constraints: Sequence[Constraint], shortages: Sequence[PowerShortage]
) -> Iterator[str]:
    of_watts = [one for one in constraints if one.kind == CONSTRAINT_KIND_POWER_BUDGET]
    told = [(one.needed, one.available, one.until_us, one.by) for one in of_watts]
    last = sorted(shortages, key=lambda one: -(one.until_us or inf))[:1]
    caps = [(one.needed_w, one.available_w, one.until_us, one.name) for one in last]
    if told != caps:
        yield f"{what} says {told} of watts and {caps} of the last cap"
