"""Events as services see them: a CloudEvents envelope around one protobuf message."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Self

from google.protobuf.message import Message


@dataclass(frozen=True, slots=True)
class Event:
    """One fact. `id` is a natural key, `{origin}/{type}/{subject}/{attempt or sequence}`.

    `key` decides the Kafka partition; `traceparent` is the W3C context of the job's trace.
    """

    id: str
    source: str
    time_us: int
    key: str
    payload: Message
    traceparent: str = ""

    @property
    def type(self) -> str:
        """Return the CloudEvents type: the full name of the protobuf message."""
        return self.payload.DESCRIPTOR.full_name

    @property
    def time_s(self) -> float:
        """Return the event time in seconds since the epoch."""
        return self.time_us / 1e6

    def traced(self, traceparent: str) -> Self:
        """Return the event as part of another span."""
        return replace(self, traceparent=traceparent)


@dataclass(frozen=True, slots=True)
class Publish:
    """An event on its way to a topic."""

    topic: str
    event: Event


# What reads the events of a topic by its name.
ReadTopic = Callable[[str], Iterable[Event]]
