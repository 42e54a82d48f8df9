"""When something was said: of two messages on one subject the newer counts.

A clock ahead would make one the newer for as long as it is ahead. So a stamp that lies ahead of the
end of the round that brought it, by more than clocks may differ, is set back to that end: what
comes in a later round is newer.
"""

from dataclasses import replace

from coplace_client.clock import TOLERANCE_US
from shared.catalogue.codec import format_time
from shared.catalogue.event import Event
from shared.streams.stages.stage import AlreadyAppliedError, OvertakenError

Stamp = tuple[int, str]
"""The time and the id of an event."""


def stamp_of(event: Event) -> Stamp:
    """Return the stamp of an event."""
    return event.time_us, event.id


def require_newer(event: Event, known: Stamp) -> None:
    """Raise AlreadyAppliedError for a copy of what is known, OvertakenError where that is newer."""
    if event.id == known[1]:
        raise AlreadyAppliedError(event.id)
    if stamp_of(event) < known:
        raise overtaken(event, known)


def overtaken(event: Event, known: Stamp) -> OvertakenError:
    """Return the error for a command that counts no more, since something newer is known."""
    told = f"it is dated {format_time(event.time_us)}, and what {known[1][:256]} says is newer"
    return OvertakenError(f"{told} ({format_time(known[0])}): say it again to replace that")


def is_ahead(time_us: int, ended_us: int) -> bool:
    """Return whether a time lies further ahead of the end of a round than clocks may differ."""
    return time_us > ended_us + TOLERANCE_US


def set_back(stamp: Stamp, ended_us: int) -> Stamp:
    """Return a stamp that does not lie ahead of the end of a round."""
    return (ended_us, stamp[1]) if is_ahead(stamp[0], ended_us) else stamp


def set_event_back(event: Event, ended_us: int) -> Event:
    """Return an event whose time does not lie ahead of the end of a round."""
    return replace(event, time_us=ended_us) if is_ahead(event.time_us, ended_us) else event
