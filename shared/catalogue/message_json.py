"""Answers as JSON: by REST and by the command line the same bytes."""

import orjson
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message


def message_json(message: Message) -> bytes:
    """Return a message as protobuf maps it to JSON, with fields of 0 and empty ones; its names are
    in the order of their letters, so that equal answers are equal bytes."""
    fields = MessageToDict(message, always_print_fields_with_no_presence=True)
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
