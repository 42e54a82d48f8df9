"""Why a cluster can never run a job."""

from dataclasses import dataclass

from coplace.v1.placement_pb2 import Misfit as MisfitMessage
from coplace.v1.placement_pb2 import MisfitKind


@dataclass(frozen=True, slots=True)
class Misfit:
    """What a cluster lacks, by kind and in words; `resource` names it where the kind does not.
    `needed` and `available` are 0 where nothing is counted."""

    cluster: str
    kind: MisfitKind.ValueType
    reason: str
    needed: float = 0.0
    available: float = 0.0
    resource: str = ""

    def __post_init__(self) -> None:
        # A count would be written as a whole number, and restored as another one.
        object.__setattr__(self, "needed", float(self.needed))
        object.__setattr__(self, "available", float(self.available))

    def message(self) -> MisfitMessage:
        """Return the misfit as decisions and answers carry it."""
        return MisfitMessage(
            cluster=self.cluster,
            kind=self.kind,
            resource=self.resource,
            needed=self.needed,
            available=self.available,
            reason=self.reason,
        )
