"""Why a job does not start, typed. The words that people read are those of the constraints, so that
the two cannot differ."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_MISFIT,
    MISFIT_KIND_CORES,
    MISFIT_KIND_MEMORY,
    MISFIT_KIND_NODES,
    MISFIT_KIND_SHARING,
    MISFIT_KIND_UNITS,
    ConstraintKind,
    MisfitKind,
)
from coplace.v1.placement_pb2 import Constraint as ConstraintMessage

from shared.placement.state.misfit import Misfit

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

# What is between several constraints, in words.
_AND: Final = "; "
# A decision on many clusters names as many of them; `coplace why` names all.
MOST_CANDIDATES: Final = 32
NODES: Final = "nodes"
UNITS: Final = "units"
JOBS: Final = "jobs"
WATTS: Final = "W"
SECONDS: Final = "s"
_MISFIT_UNITS: Final[Mapping[MisfitKind.ValueType, str]] = {
    MISFIT_KIND_NODES: NODES,
    MISFIT_KIND_UNITS: UNITS,
    MISFIT_KIND_CORES: "cores",
    MISFIT_KIND_SHARING: "cores",
    MISFIT_KIND_MEMORY: "GiB",
}


class Constraint(NamedTuple):
    """One of the reasons why a job does not start: its kind, its words, what is needed and what
    there is in some unit, until when, and who it is about. Where nothing is counted what is needed
    is None, where it was not worked out what there is; the time is 0 where it is not known."""

    kind: ConstraintKind.ValueType
    words: str
    needed: float | None = None
    available: float | None = None
    unit: str = ""
    until_s: float = 0.0
    by: str = ""

    @classmethod
    def of_misfit(cls, misfit: Misfit) -> "Constraint":
        """Return the constraint that a cluster can never run the job."""
        is_counted = misfit.needed > 0
        return cls(
            CONSTRAINT_KIND_MISFIT,
            misfit.reason,
            misfit.needed if is_counted else None,
            misfit.available if is_counted else None,
            misfit.resource or _MISFIT_UNITS.get(misfit.kind, ""),
        )


class WaitReason(NamedTuple):
    """Why a job waits: what keeps it out of all queues, or out of the cluster that it would go to
    first."""

    constraints: Sequence[Constraint]
    cluster: str = ""

    @property
    def text(self) -> str:
        """Return the reason in words."""
        said = in_words(self.constraints)
        return f"{self.cluster}: {said}" if self.cluster else said


def in_words(constraints: Iterable[Constraint]) -> str:
    """Return all constraints in words; empty where there are none."""
    return _AND.join([constraint.words for constraint in constraints])


def write(
    message: "RepeatedCompositeFieldContainer[ConstraintMessage]",
    constraints: Iterable[Constraint],
    cluster: str = "",
) -> None:
    """Write constraints into a message, which makes them in it, since what is put into another is
    copied. There are thousands a round: fields are set one by one, and those that say nothing are
    not, which takes half of what arguments do."""
    for kind, _, needed, available, unit, until_s, by in constraints:
        made = message.add()
        made.kind = kind
        if needed is not None:
            made.needed, made.unit = needed, unit
            if available is not None:
                made.available = available
        if until_s:
            made.until_us = round(until_s * 1e6)
        if by:
            made.by = by
        if cluster:
            made.cluster = cluster
