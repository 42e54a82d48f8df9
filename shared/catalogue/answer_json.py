"""Answers of services as JSON: the same bytes over HTTP and from the command line."""

import orjson
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message


def answer_json(answer: Message) -> bytes:
    """Return an answer as protobuf maps it to JSON, with fields of 0 and empty ones; its names are
    in the order of their letters, so that equal answers are equal bytes."""
    fields = MessageToDict(answer, always_print_fields_with_no_presence=True)
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
