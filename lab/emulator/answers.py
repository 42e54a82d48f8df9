"""What an emulated run is answered, round by round: decisions, and plans of a planner."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Self

from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.plans_pb2 import PlanProposed

from shared.catalogue.event import Event

DECISIONS: Final = "placement.decisions"
PLANS: Final = "placement.plans"


class Answers(NamedTuple):
    """What was decided on a round, and what was proposed after it."""

    decisions: Sequence[PlacementDecided]
    proposed: Event | None = None

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> Self:
        """Return the answers among the events of one round."""
        found = list(events)
        decided = [e.payload for e in found if isinstance(e.payload, PlacementDecided)]
        proposed = [event for event in found if isinstance(event.payload, PlanProposed)]
        return cls(decided, proposed[-1] if proposed else None)


def answered_in(*, planned: bool) -> tuple[str, ...]:
    """Return the topics of answers."""
    return (DECISIONS, PLANS) if planned else (DECISIONS,)
