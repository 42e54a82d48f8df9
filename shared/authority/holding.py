"""Which resource manager holds each run of a job: what was granted, declined and started. Pure.

A run that was granted is held by the resource manager of the cluster of its grant, from the start
that placement decided until it declines. A run without a grant is held by the resource manager of
the cluster where it is; it never replaces a granted run. The epoch is 1 until sites decide for
themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from coplace.v1.jobs_pb2 import JobDeclined, JobFinished, JobRequeued, JobStarted
from coplace.v1.placement_pb2 import PlacementDecided
from google.protobuf.message import Message

from shared.authority.binding import SitedCluster

# Grants and runs of a job that are remembered: later ones push the oldest out.
_MOST: Final = 32
_FIRST_EPOCH: Final = 1


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run of a job: under which grant, 0 without one, and the cluster whose resource manager
    holds it."""

    attempt: int
    grant: int
    cluster: SitedCluster
    epoch: int = _FIRST_EPOCH

    def __str__(self) -> str:
        by = f"grant {self.grant}" if self.grant else "no grant"
        return f"attempt {self.attempt} on {self.cluster} under {by}"


@dataclass(frozen=True, slots=True)
class RunClaim:
    """Which run a message says something of: 0 and empty where it does not say. It `is_declined`
    where it says that its grant was, and `never_started` where it says that there was no run."""

    attempt: int = 0
    grant: int = 0
    cluster: str = ""
    is_declined: bool = False
    never_started: bool = False


def claim_of(payload: Message) -> RunClaim:
    """Return which run a message names. A requeue speaks of the attempt before the one that it
    begins."""
    attempt = int(getattr(payload, "attempt", 0))
    return RunClaim(
        attempt - 1 if isinstance(payload, JobRequeued) else attempt,
        int(getattr(payload, "grant", 0)),
        str(getattr(payload, "cluster", "")),
        is_declined=isinstance(payload, JobDeclined),
        never_started=isinstance(payload, JobFinished) and not payload.started_at_us,
    )


@dataclass(slots=True)
class Holdings:
    """The runs of a job, by the names of their clusters: by the numbers of their grants those that
    were granted and those of them that were declined, by attempt those that nobody granted."""

    granted: dict[int, tuple[int, str]] = field(default_factory=dict)
    declined: dict[int, tuple[int, str]] = field(default_factory=dict)
    by_hand: dict[int, str] = field(default_factory=dict)
    newest_grant: int = 0

    def grant(self, decided: PlacementDecided) -> None:
        """Note a start that was decided."""
        self.granted[decided.grant] = decided.attempt, decided.cluster
        self.newest_grant = max(self.newest_grant, decided.grant)
        _drop_oldest(self.granted)

    def start(self, started: JobStarted) -> None:
        """Note a run that nobody granted; of two the first counts."""
        if not started.grant and not self._granted_to(started.attempt):
            self.by_hand.setdefault(started.attempt, started.cluster)
            _drop_oldest(self.by_hand)

    def decline(self, declined: JobDeclined) -> None:
        """Note that a grant was given back: it gives no right any more, but to say so again."""
        if declined.grant in self.granted:
            self.declined[declined.grant] = self.granted.pop(declined.grant)
            _drop_oldest(self.declined)

    def runs(self) -> Iterator[tuple[int, int, str]]:
        """Yield attempt, grant and cluster of each run, the newest last; those of one attempt that
        nobody granted before those that were."""
        found = [(attempt, 0, cluster) for attempt, cluster in self.by_hand.items()]
        found += [(attempt, grant, cluster) for grant, (attempt, cluster) in self.granted.items()]
        yield from sorted(found)

    def _granted_to(self, attempt: int) -> bool:
        return any(each == attempt for each, _ in self.granted.values())


def _drop_oldest(rows: dict[int, Any]) -> None:
    if len(rows) > _MOST:
        del rows[next(iter(rows))]
