"""The server of the Model Context Protocol: lists the tools, and asks the services for a caller.

https://modelcontextprotocol.io/specification
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, Final

import orjson
from google.protobuf.message import Message
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from cli.mcp.tools import description, input_schema, questions
from services.rest.problems import ProblemError
from services.rest.routes import Route
from shared.catalogue.answer_json import answer_json

_INSTRUCTIONS: Final = (
    "Coplace places batch jobs on clusters. These tools only ask: they show jobs, queues, "
    "clusters, power caps and the policy, and why a job waits. Whole numbers of 64 bits are texts. "
    "Times are microseconds since 1970 in UTC. A call sees what the caller may see."
)

Ask = Callable[[Route, object], Awaitable[Message]]


@cache
def tools() -> Sequence[Tool]:
    """Return every tool."""
    only_reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return tuple(
        Tool(
            name=name,
            description=description(route),
            input_schema=input_schema(route),
            annotations=only_reads,
        )
        for name, route in questions().items()
    )


def server(ask: Ask) -> Server[Any]:
    """Return a server whose tools `ask` the services, which raises ProblemError."""
    routes, listed = questions(), ListToolsResult(tools=list(tools()))

    async def list_tools(_context: Any, _asked: PaginatedRequestParams | None) -> ListToolsResult:
        return listed

    async def call_tool(_context: Any, asked: CallToolRequestParams) -> CallToolResult:
        if asked.name not in routes:
            known = ", ".join(routes)
            raise MCPError(INVALID_PARAMS, f"no tool {asked.name[:80]!r}: there are {known}")
        try:
            answer = await ask(routes[asked.name], asked.arguments or {})
        except ProblemError as error:
            return _result(orjson.dumps(error.document()), is_error=True)
        return _result(answer_json(answer), is_error=False)

    return Server(
        "coplace",
        version=version("coplace"),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _result(document: bytes, *, is_error: bool) -> CallToolResult:
    """Return a document as text, whose bytes are those over HTTP, and as data."""
    return CallToolResult(
        content=[TextContent(text=document.decode())],
        structured_content=orjson.loads(document),
        is_error=is_error,
    )
