"""Answers that come one after another, as server-sent events.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

import grpc
import orjson
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from services.rest.problems import ProblemError
from services.rest.routes import CURSOR

EVENTS: Final = "text/event-stream"
LAST_EVENT_ID: Final = "Last-Event-ID"
# Nobody between us and the client keeps an event back.
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(StreamingResponse):
    """A response that goes on until the client or the service ends it; what is `opened` for it is
    closed then, however that was."""

    def __init__(
        self,
        answers: AsyncIterator[Message],
        first: Message,
        problem: Callable[[grpc.aio.AioRpcError], ProblemError],
        opened: AsyncExitStack,
    ) -> None:
        self._opened = opened
        super().__init__(_events(answers, first, problem), headers=_HEADERS, media_type=EVENTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write events, then let the call go."""
        async with self._opened:
            await super().__call__(scope, receive, send)


async def _events(
    answers: AsyncIterator[Message],
    first: Message,
    problem: Callable[[grpc.aio.AioRpcError], ProblemError],
) -> AsyncIterator[bytes]:
    yield event(first)
    try:
        async for answer in answers:
            yield event(answer)
    except grpc.aio.AioRpcError as error:
        yield b"event: problem\ndata: " + orjson.dumps(problem(error).document()) + b"\n\n"


def event(answer: Message) -> bytes:
    """Return an answer as an event with its cursor as id; one that has nothing else is a comment
    that shows that the connection lives, and moves the id on."""
    fields: dict[str, Any] = MessageToDict(answer)
    cursor = str(fields.pop(CURSOR, ""))
    if not fields:
        return f": alive\nid: {cursor}\n\n".encode()
    data = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    return f"id: {cursor}\ndata: ".encode() + data + b"\n\n"
