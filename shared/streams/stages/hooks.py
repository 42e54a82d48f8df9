"""What a driver reports of its work; by default nobody listens."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import NamedTuple, Protocol

from shared.catalogue.event import Event


@dataclass(slots=True)
class Tally:
    """What happened to the records of one batch."""

    records_in: int = 0
    records_out: int = 0
    dead_letters: int = 0
    copies_dropped: int = 0
    unknown_fields: int = 0
    rounds_closed: int = 0
    published: Counter[str] = field(default_factory=Counter)
    """Events of the processor by type: `records_out` less the round barriers and dead letters."""
    quarantined: int = 0
    """Records and subjects that were left out since they made the stage fail: an alarm."""
    early: int = 0
    skipped: int = 0
    """Records of types that the stage does not consume."""

    def add(self, later: "Tally") -> None:
        """Count another batch into this one."""
        for counter in fields(self):
            total = getattr(self, counter.name) + getattr(later, counter.name)
            setattr(self, counter.name, total)


class Backlog(NamedTuple):
    """Records that wait for a stage, and how long ago the oldest that was fetched was written."""

    records: int
    oldest_age_s: float


class SpanStamper(Protocol):
    """Makes a published event part of the trace that caused it."""

    def stamp(self, stage: str, event: Event) -> Event:
        """Return the event with the `traceparent` of a new producer span below its own."""
        ...


class Meter(Protocol):
    """Counts committed batches."""

    def begin(self, stage: str, unit: int, published: Iterable[str] = ()) -> None:
        """Note that a unit is at work, which may publish events of these types."""
        ...

    def batch(self, stage: str, unit: int, tally: Tally, duration_s: float) -> None:
        """Note that one batch was committed; `duration_s` runs from receiving to committing it."""
        ...

    def watch_backlog(self, stage: str, backlog: Callable[[], Backlog]) -> None:
        """Note the function to ask, from now on, for what waits for this stage here."""
        ...

    def refused(self, stage: str, inconsistencies: int) -> None:
        """Note that a stage or read model must not work, so many things do not fit; 0: it works
        again."""
        ...


class CommitObserver(Protocol):
    """Notified of each point that a driver passes between receiving a batch and having committed
    it.

    Tests end the process in it.
    """

    def reached(self, point: str) -> None:
        """Observe that one of POINTS is passed."""
        ...


POINTS = (
    "received",
    "handled",
    "outputs sent",
    "changelog sent",
    "offsets sent",
    "committing",
    "committed",
)


class _Silent:
    def stamp(self, stage: str, event: Event) -> Event:
        return event

    def begin(self, stage: str, unit: int, published: Iterable[str] = ()) -> None:
        return None

    def batch(self, stage: str, unit: int, tally: Tally, duration_s: float) -> None:
        return None

    def watch_backlog(self, stage: str, backlog: Callable[[], Backlog]) -> None:
        return None

    def refused(self, stage: str, inconsistencies: int) -> None:
        return None

    def reached(self, point: str) -> None:
        return None


_SILENT = _Silent()


@dataclass(frozen=True, slots=True)
class Hooks:
    """The listeners of one process."""

    stamper: SpanStamper = field(default=_SILENT)
    meter: Meter = field(default=_SILENT)
    step: CommitObserver = field(default=_SILENT)
