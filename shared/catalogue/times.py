"""When an event says that something happened."""

from collections.abc import Iterator
from functools import cache
from typing import Final

from coplace.v1.telemetry_pb2 import NodeSamples
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

# When something is to happen, which may lie as far ahead as its user likes.
_PLANNED: Final = frozenset({"begin_at_us", "deadline_at_us"})


@cache
def time_fields(message: Descriptor) -> tuple[str, ...]:
    """Return the fields of a message that say when something happened."""
    names = (field.name for field in message.fields)
    return tuple(name for name in names if name.endswith("_at_us") and name not in _PLANNED)


def times_us(message: Message) -> Iterator[tuple[str, int]]:
    """Yield when a message says that something happened, by field."""
    for name in time_fields(message.DESCRIPTOR):
        yield name, getattr(message, name)
    if isinstance(message, NodeSamples):
        for index, sample in enumerate(message.samples):
            yield f"samples[{index}].time_us", sample.time_us
