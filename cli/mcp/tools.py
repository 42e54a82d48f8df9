"""Questions as tools: named, described and read by the same descriptors as over HTTP."""

import re
from collections.abc import Mapping
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from services.rest import problems
from services.rest.calls import answer_of
from services.rest.publishing import request_name
from services.rest.reading import Wrongs, read_body
from services.rest.routes import Route, routes
from shared.catalogue.comments import comments
from shared.catalogue.described_schemas import described_schemas, references

_BASE: Final = "#/$defs/"
# A service may wait for an outcome for 60 s.
_WITHIN_S: Final = 90.0
_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def questions() -> Mapping[str, Route]:
    """Return what can be asked and changes nothing, by the names of the tools: every method with a
    route, but for those that change something, events that are published and answers without
    end."""
    asked = (route for route in routes() if not (route.payload or route.streams or route.changes))
    return {_WORDS.sub("_", route.operation).lower(): route for route in asked}


def description(route: Route) -> str:
    """Return what a question is, as its schema says."""
    return comments()[route.method.full_name]


def input_schema(route: Route) -> dict[str, Any]:
    """Return the JSON Schema of the arguments: the fields of the question, and no others."""
    name = route.request.full_name
    own = described_schemas([name], _BASE).pop(name)
    inner = described_schemas(references(own, _BASE), _BASE)
    return {**own, "additionalProperties": False, **({"$defs": inner} if inner else {})}


async def ask(channel: grpc.aio.Channel, route: Route, arguments: object) -> Message:
    """Return what a service answers. Raises ProblemError, which names each wrong argument."""
    asked, wrongs = GetMessageClass(route.request)(), Wrongs()
    read_body(arguments, asked, wrongs)
    if wrongs.found:
        raise problems.invalid(wrongs.found)
    try:
        return await answer_of(channel, route.method, asked, timeout=_WITHIN_S)
    except grpc.aio.AioRpcError as error:
        raise problems.of_call(error, lambda field: request_name(route, field)) from None
