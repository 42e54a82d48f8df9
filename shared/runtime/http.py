"""Health, readiness and metrics of a process over HTTP: three pages, one request a connection.

A web framework would take as long to load as the rest of what every process needs of libraries.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from shared.runtime.settings import Settings

# Who asks for longer, or more than this, is not answered.
_PATIENCE_S: Final = 10.0
_MOST_HEAD_BYTES: Final = 16_384
_TEXT: Final = "text/plain; charset=utf-8"
_LEFT: Final = (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError)

log = structlog.get_logger(__name__)


class Answer(NamedTuple):
    """What a page says at this moment."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = _TEXT


Pages = Mapping[str, Callable[[], Answer]]


class Readiness:
    """Whether the process does its work, and if not, why."""

    def __init__(self, waiting_for: str = "start-up") -> None:
        self.waiting_for = waiting_for
        self.alarm = ""
        """What is wrong although the process works; it is told beside its readiness."""

    def ready(self) -> None:
        """Everything that the process needs is there."""
        self._becomes("")

    def wait_for(self, what: str) -> None:
        """The process cannot work before `what` is there."""
        self._becomes(what)

    def refuse(self, why: str) -> None:
        """The process must not work: data were replaced, and an operator has to mend them."""
        self._becomes(f"an operator: {why}")

    def _becomes(self, waiting_for: str) -> None:
        if waiting_for != self.waiting_for:
            log.info("readiness", ready=not waiting_for, waiting_for=waiting_for)
        self.waiting_for = waiting_for


@asynccontextmanager
async def http_server(
    settings: Settings, readiness: Readiness, metrics: CollectorRegistry
) -> AsyncIterator[int]:
    """Serve /healthz, /readyz and /metrics; yields the port."""
    answer = partial(_converse, _pages(readiness, metrics))
    host = settings.http_host
    server = await asyncio.start_server(answer, host, settings.http_port, limit=_MOST_HEAD_BYTES)
    try:
        port: int = server.sockets[0].getsockname()[1]
        log.info("serving health and metrics", host=host, port=port)
        yield port
    finally:
        server.close()


def _pages(readiness: Readiness, metrics: CollectorRegistry) -> Pages:
    def healthz() -> Answer:
        return Answer(b"alive\n")

    def readyz() -> Answer:
        if readiness.waiting_for:
            waiting = f"waiting for {readiness.waiting_for}\n".encode()
            return Answer(waiting, HTTPStatus.SERVICE_UNAVAILABLE)
        alarm = f", but {readiness.alarm}" if readiness.alarm else ""
        return Answer(f"ready{alarm}\n".encode())

    def exposition() -> Answer:
        return Answer(generate_latest(metrics), content_type=CONTENT_TYPE_LATEST)

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": exposition}


async def _converse(
    pages: Pages, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with suppress(*_LEFT):
        async with asyncio.timeout(_PATIENCE_S):
            writer.write(_response(pages, await reader.readuntil(b"\r\n\r\n")))
            await writer.drain()
    writer.close()


def _response(pages: Pages, head: bytes) -> bytes:
    """The whole response to a request's head (RFC 9112); its body, if any, is not read."""
    method, _, rest = head.decode("latin-1").partition(" ")
    page = pages.get(rest.partition(" ")[0].partition("?")[0])
    if method not in ("GET", "HEAD"):
        answer = Answer(b"", HTTPStatus.METHOD_NOT_ALLOWED)
    else:
        answer = page() if page else Answer(b"", HTTPStatus.NOT_FOUND)
    fields = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        "Allow: GET, HEAD",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Connection: close",
        "\r\n",
    )
    return "\r\n".join(fields).encode() + (b"" if method == "HEAD" else answer.body)
