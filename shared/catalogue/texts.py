"""How long texts may be: what stages keep and write is made of them."""

from collections.abc import Iterable
from functools import cache
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from shared.domain.folding import MOST_HOST_LIST_BYTES

# Keys and attributes become parts of other keys: ids of 1,024 characters are the longest.
MOST_TEXT_BYTES: Final = 4_096
# All texts of one list, such as node names: a processor may keep it as JSON, which at worst doubles
# each and puts three bytes around it, in one record.
MOST_LIST_BYTES: Final = MOST_HOST_LIST_BYTES
_AROUND_BYTES: Final = 3
# What is said in words, to people alone: nobody looks something up by it.
_WORDS: Final = frozenset({"reason", "constraint"})
_ELLIPSIS: Final = " ..."


def require_short_texts(message: Message) -> None:
    """Raise RejectedError, naming the field, where a text or a list of them is too long.

    Only worth asking of a message that is itself longer than a text may be.
    """
    for field in _fields_with_text(message.DESCRIPTOR):
        value = getattr(message, field.name)
        if field.type == FieldDescriptor.TYPE_STRING:
            _require_short(field.name, [value] if not field.is_repeated else value, field)
        elif _is_map(field):
            _require_short(field.name, value, field)
        else:
            for each in value if field.is_repeated else [value]:
                require_short_texts(each)


def truncate(message: Message) -> bool:
    """Cut what is said in words to what its readers take: what it is made of came in by
    itself, each part as long as a text may be. True where something was too long.

    Only worth asking of a message that is itself longer than a text may be.
    """
    is_cut = False
    for field in _fields_with_words(message.DESCRIPTOR):
        value = getattr(message, field.name)
        if field.type == FieldDescriptor.TYPE_STRING:
            if len(value.encode()) > MOST_TEXT_BYTES:
                setattr(message, field.name, _cut(value))
                is_cut = True
        elif field.is_repeated or message.HasField(field.name):
            for each in value if field.is_repeated else [value]:
                is_cut |= truncate(each)
    return is_cut


def _cut(text: str) -> str:
    end = _ELLIPSIS.encode()
    return text.encode()[: MOST_TEXT_BYTES - len(end)].decode(errors="ignore") + _ELLIPSIS


def _require_short(name: str, texts: Iterable[str], field: FieldDescriptor) -> None:
    if not field.is_repeated:
        limit_bytes, size_bytes = MOST_TEXT_BYTES, sum(len(text.encode()) for text in texts)
    else:
        limit_bytes = MOST_LIST_BYTES
        size_bytes = sum(len(text.encode()) + _AROUND_BYTES for text in texts)
    if size_bytes > limit_bytes:
        problem = f"has {size_bytes} bytes of text, the limit is {limit_bytes}"
        raise RejectedError(name, problem)


@cache
def _fields_with_text(message: Descriptor) -> tuple[FieldDescriptor, ...]:
    return tuple(field for field in message.fields if _holds_text(field))


def _holds_text(field: FieldDescriptor) -> bool:
    if field.type == FieldDescriptor.TYPE_STRING:
        return True
    return field.message_type is not None and bool(_fields_with_text(field.message_type))


@cache
def _fields_with_words(message: Descriptor) -> tuple[FieldDescriptor, ...]:
    return tuple(field for field in message.fields if _holds_words(field))


def _holds_words(field: FieldDescriptor) -> bool:
    if field.type == FieldDescriptor.TYPE_STRING:
        return field.name in _WORDS and not field.is_repeated
    is_message = field.message_type is not None and not _is_map(field)
    return is_message and bool(_fields_with_words(field.message_type))


def _is_map(field: FieldDescriptor) -> bool:
    """A map from text: iterating it gives its keys."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry
