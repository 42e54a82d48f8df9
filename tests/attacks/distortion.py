"""Messages out of all bounds, made of the golden examples of the topics."""

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from shared.catalogue.schemas import MESSAGES
from shared.catalogue.topics import TopicSpec

_INTEGERS: Final = (0, 1, -1, 2**31 - 1, 2**32 - 1, 2**53, 2**63 - 1, 2**64 - 1, -(2**63))
_FLOATS: Final = (0.0, -0.0, -1.0, 1e-300, 1e15, 1e300, math.inf, -math.inf, math.nan)
_TEXTS: Final = (
    *("", " ", "\n", "\x00", "a" * 257, "a" * 5_000, "ü" * 256, "../..", "a|b/c", "n[1-"),
    *("n[0-4294967295]", "a," * 500, "n[1-9][1-9][1-9]", "{job_id}", "%s", "\u202e", "\U0001d7d9"),
)


def examples(specs: Mapping[str, TopicSpec]) -> list[Message]:
    """The golden example of each topic that has one in protobuf."""
    found = [spec.example for spec in specs.values() if spec.messages and spec.example]
    return [ParseDict(each["value"], MESSAGES[each["headers"]["ce_type"]]()) for each in found]


def distorted(message: Message, rng: Random) -> Message:
    """A copy with some fields, at any depth, out of all bounds."""
    copy = type(message)()
    copy.CopyFrom(message)
    for _ in range(rng.randint(1, 4)):
        _distort(copy, rng)
    return copy


def _distort(message: Message, rng: Random) -> None:
    fields: Sequence[Any] = message.DESCRIPTOR.fields
    field = rng.choice(fields)
    if field.message_type is not None and not field.is_repeated:
        _distort(getattr(message, field.name), rng)
        return
    value = _extreme(field, rng)
    try:
        if field.is_repeated:
            values = getattr(message, field.name)
            if value is not None:
                values.extend([value] * rng.choice([0, 1, 3, 300]))
        else:
            setattr(message, field.name, value)
    except (ValueError, TypeError, AttributeError):
        return  # protobuf itself does not hold it


def _extreme(field: FieldDescriptor, rng: Random) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            text = rng.choice(_TEXTS)
            return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return rng.choice(_FLOATS)
        case FieldDescriptor.CPPTYPE_MESSAGE:
            return None
        case FieldDescriptor.CPPTYPE_BOOL:
            return rng.random() < 0.5
        case _:
            return rng.choice(_INTEGERS)
