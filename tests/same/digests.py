"""SHA-256 over what was published, with the texts that people read and without them."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

import orjson
from google.protobuf.message import Message

from shared.catalogue.event_json import data_of

# Words of our own, by message. All else that a decision says is figures and names.
TEXTS: Final[Mapping[str, frozenset[str]]] = {
    "PlacementDecided": frozenset({"reason"}),
    "Candidate": frozenset({"constraint"}),
    "OwnPState": frozenset({"constraint"}),
    "Misfit": frozenset({"reason"}),
}


class Digests(NamedTuple):
    """Of one play, as hexadecimal numbers."""

    with_texts: str
    without_texts: str

    @classmethod
    def over(cls, messages: Iterable[Message]) -> Self:
        """Of messages in their order, by the fields that are set: one that a schema gets, and that
        nobody sets, changes nothing."""
        whole, silent = hashlib.sha256(), hashlib.sha256()
        for message in messages:
            whole.update(_line(message, data_of(message)))
            silent.update(_line(message, data_of(without_texts(message))))
        return cls(whole.hexdigest(), silent.hexdigest())


def _line(message: Message, data: Mapping[str, Any]) -> bytes:
    return orjson.dumps([message.DESCRIPTOR.name, data], option=orjson.OPT_APPEND_NEWLINE)


def without_texts(message: Message) -> Message:
    """A copy that says the same and has no words."""
    copy = type(message)()
    copy.CopyFrom(message)
    _clear_texts(copy)
    return copy


def _clear_texts(message: Message) -> None:
    for name in TEXTS.get(message.DESCRIPTOR.name, ()):
        message.ClearField(name)
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for inner in value if field.is_repeated else (value,):
            _clear_texts(inner)
