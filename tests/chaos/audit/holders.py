"""Which jobs hold what they were granted, by the decisions and by what placement took in since."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from coplace.v1.jobs_pb2 import (
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobRequeued,
    JobSeized,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from shared.catalogue.event import Event
from tests.chaos.audit.evidence import Evidence


@dataclass(slots=True)
class Holders:
    """The start of each job that may still run. Of one that somebody cancelled nobody outside knows
    when it lets go: it is `cancelled`, as are the tasks of an array that is."""

    starts: dict[str, PlacementDecided] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)

    def learn(self, event: Event) -> None:
        """Fold what ends a start."""
        told = event.payload
        if isinstance(told, JobCancelled):
            self.cancelled.add(told.job_id)
        start = self.starts.get(getattr(told, "job_id", ""))
        if start is not None and _ends(event, start):
            del self.starts[start.job_id]

    def decide(self, evidence: Evidence, number: int) -> list[PlacementDecided]:
        """Add the starts of a round; return them."""
        decisions = evidence.by_round.get(number, [])
        found = [decided for decided in decisions if decided.verdict == VERDICT_START]
        self.starts.update((decided.job_id, decided) for decided in found)
        return found

    def sure(self) -> Iterator[PlacementDecided]:
        """The starts of jobs that nobody cancelled."""
        for start in self.starts.values():
            if not self.is_cancelled(start):
                yield start

    def is_cancelled(self, start: PlacementDecided) -> bool:
        """Whether somebody cancelled a job or its array."""
        return bool({start.job_id, start.array_job_id} & self.cancelled)


def _ends(event: Event, start: PlacementDecided) -> bool:
    """Whether this says that the start holds nothing any more."""
    match event.payload:
        case JobDeclined() as told:
            return (told.attempt, told.grant) == (start.attempt, start.grant)
        case JobFinished() as told:
            return told.attempt >= start.attempt
        case JobSeized() as told:
            return told.attempt == start.attempt and told.grant in (0, start.grant)
        case JobRequeued() | JobSubmitted() as told:
            return told.attempt > start.attempt
        case _:
            return False
