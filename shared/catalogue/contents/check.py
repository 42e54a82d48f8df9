"""What each field of each event must be, wherever it comes from.

Ingest asks at the door, and stages ask of the records of topics that others can write. What only an
operator's clock or a fold can know is asked there.
"""

from typing import Final

from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from shared.catalogue.contents.compiled import compiled

MOST_UNKNOWN_BYTES: Final = 16_384


def check_contents(message: Message, size_bytes: int | None = None) -> None:
    """Raise RejectedError, naming the field, for a message of impossible contents.

    `size_bytes` is that of its serialised form, where it is known.
    """
    if (message.ByteSize() if size_bytes is None else size_bytes) > MOST_UNKNOWN_BYTES:
        _require_few_unknown(message)
    compiled(message.DESCRIPTOR)(message)


def check_all_contents(message: Message) -> None:
    """Raise RejectedError for a message of impossible contents, with every field that is wrong: for
    the caller that has to repair it."""
    try:
        check_contents(message)
    except RejectedError:
        compiled(message.DESCRIPTOR, names_all=True)(message)
        raise


def _require_few_unknown(message: Message) -> None:
    """Fields of a later version are carried and counted: by a stage after the other."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    size_bytes = message.ByteSize() - known.ByteSize()
    if size_bytes > MOST_UNKNOWN_BYTES:
        problem = f"fill {size_bytes} bytes, the limit is {MOST_UNKNOWN_BYTES}"
        raise RejectedError("fields that this version does not know", problem)
