"""What a stage skips before decoding: events that it does not consume."""

from collections.abc import Mapping
from typing import Final

from coplace.v1.control_pb2 import RoundEnded, WakeWanted

from shared.catalogue.record import Record, type_of
from shared.catalogue.schemas import MESSAGES, names_of
from shared.catalogue.topics import Topics
from shared.streams.stages.stage import Stage

_PACKAGE: Final = b"coplace.v1."
_KNOWN: Final = frozenset(name.encode() for name in MESSAGES)
# What units take themselves.
_OF_UNITS: Final = names_of(RoundEnded, WakeWanted)


class Skipping:
    """Which records a stage skips: of types that it does not consume, and of types that a later
    release has. What is in the wrong topic is refused as ever."""

    def __init__(self, stage: Stage, topics: Topics) -> None:
        taken = None if stage.consumes is None else stage.consumes | _OF_UNITS
        self._skipped: Mapping[str, frozenset[bytes]] = {
            name: frozenset(
                kind.encode()
                for kind in topics.spec(name).messages
                if taken is not None and kind not in taken
            )
            for name in stage.inputs
        }

    def has(self, record: Record) -> bool:
        """Return whether a record is skipped."""
        kind = type_of(record)
        return kind in self._skipped[record.partition.topic] or _is_later(kind)


def is_later(record: Record) -> bool:
    """Return whether a record is of a type that only a later release has."""
    return _is_later(type_of(record))


def _is_later(kind: bytes) -> bool:
    return kind not in _KNOWN and kind.startswith(_PACKAGE)
