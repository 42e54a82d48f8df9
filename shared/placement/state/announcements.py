"""Facts that placement publishes beside its decisions."""

from typing import Final

from google.protobuf.message import Message

from shared.catalogue.event import Event, Publish
from shared.streams.stages.stage import Round

OUTPUT: Final = "placement.decisions"
SOURCE: Final = "placement"


def announce(message: Message, subject: str, key: str, ended: Round) -> Publish:
    """Return a fact of a round as an event, distinguished by `subject` from others of its type."""
    event_id = f"{SOURCE}/{message.DESCRIPTOR.full_name}/{subject}"
    return Publish(OUTPUT, Event(event_id, SOURCE, ended.ended_at_us, key, message))
