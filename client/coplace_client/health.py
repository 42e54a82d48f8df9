"""Health, readiness and metrics of a process over HTTP.

By Python's own server: a web framework would take as long to load as the rest of what every process
needs of libraries. Its threads read requests; answers are worked out in the loop that does the
process's work, so that one that is stuck does not say that it is alive.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple, Protocol

# Who asks for longer is not answered, and no process that is asked for longer.
_PATIENCE_S: Final = 10.0
# A loop that nobody connects to wakes up as seldom as this.
_LOOK_S: Final = 60.0
_CONNECTED_WITHIN_S: Final = 0.1
_TEXT: Final = "text/plain; charset=utf-8"
# Of Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats/
_METRICS: Final = "text/plain; version=1.0.0; charset=utf-8"

log = logging.getLogger(__name__)


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
        """What is wrong although the process works; it is shown beside its readiness."""

    def ready(self) -> None:
        """Report that everything that the process needs is there."""
        self._becomes("")

    def wait_for(self, what: str) -> None:
        """Report that the process cannot work before `what` is there."""
        self._becomes(what)

    def refuse(self, why: str) -> None:
        """Report that the process must not work: data were replaced, and an operator has to repair
        them."""
        self._becomes(f"an operator: {why}")

    def _becomes(self, waiting_for: str) -> None:
        if waiting_for != self.waiting_for:
            log.info("readiness", extra={"ready": not waiting_for, "waiting_for": waiting_for})
        self.waiting_for = waiting_for


class ShownReadiness(Protocol):
    """What a process shows of its readiness."""

    alarm: str

    @property
    def waiting_for(self) -> str:
        """Return what it waits for; empty where it does its work."""
        ...


class JointReadiness:
    """The readiness of services that share a process, by their names."""

    def __init__(self, parts: Mapping[str, Readiness]) -> None:
        self._parts = parts
        self.alarm = ""

    @property
    def waiting_for(self) -> str:
        """Return what those that do not work yet wait for; with the name where there are others."""
        waiting = {name: part.waiting_for for name, part in self._parts.items() if part.waiting_for}
        if len(self._parts) == 1:
            return "".join(waiting.values())
        return "; ".join(f"{name}: {what}" for name, what in waiting.items())


@asynccontextmanager
async def http_server(
    host: str, port: int, readiness: ShownReadiness, metrics: Callable[[], bytes]
) -> AsyncIterator[int]:
    """Serve /healthz, /readyz and /metrics; yields the port, a free one where it is to be 0."""
    handler = partial(_Handler, _pages(readiness, metrics), asyncio.get_running_loop())
    server = _server_of(host)((host, port), handler)
    threading.Thread(target=server.serve_forever, args=(_LOOK_S,), daemon=True).start()
    try:
        served: int = server.server_address[1]
        log.info("serving health and metrics", extra={"host": host, "port": served})
        yield served
    finally:
        await asyncio.to_thread(_end, server)
        server.server_close()


def _end(server: ThreadingHTTPServer) -> None:
    """End the server's loop: a connection wakes it up."""
    host, port = str(server.server_address[0]), server.server_address[1]
    ending = threading.Thread(target=server.shutdown, daemon=True)
    ending.start()
    while ending.is_alive():
        with suppress(OSError):
            socket.create_connection((host, port), _CONNECTED_WITHIN_S).close()
        ending.join(_CONNECTED_WITHIN_S)


def _server_of(host: str) -> type[ThreadingHTTPServer]:
    """A server for the family of an address, whose threads end with the process."""
    [(family, *_), *_] = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    own = {"address_family": family, "block_on_close": False}
    return type("HealthServer", (ThreadingHTTPServer,), own)


def _pages(readiness: ShownReadiness, metrics: Callable[[], bytes]) -> Pages:
    def healthz() -> Answer:
        return Answer(b"alive\n")

    def readyz() -> Answer:
        if readiness.waiting_for:
            waiting = f"waiting for {readiness.waiting_for}\n".encode()
            return Answer(waiting, HTTPStatus.SERVICE_UNAVAILABLE)
        alarm = f", but {readiness.alarm}" if readiness.alarm else ""
        return Answer(f"ready{alarm}\n".encode())

    def exposition() -> Answer:
        return Answer(metrics(), content_type=_METRICS)

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": exposition}


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    def __init__(self, pages: Pages, loop: asyncio.AbstractEventLoop, *connection: Any) -> None:
        self._pages = pages
        self._loop = loop
        super().__init__(*connection)

    def setup(self) -> None:
        """Wait no longer for anything that is to be said."""
        self.request.settimeout(_PATIENCE_S)
        super().setup()

    def do_GET(self) -> None:
        """Answer with the whole page."""
        self.wfile.write(self._begin())

    def do_HEAD(self) -> None:
        """Answer without the page itself."""
        self._begin()

    def _begin(self) -> bytes:
        """Send all but the body, which is returned."""
        answer = self._answer(self.path.partition("?")[0])
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        return answer.body

    def _answer(self, path: str) -> Answer:
        page = self._pages.get(path)
        if page is None:
            return Answer(b"", HTTPStatus.NOT_FOUND)

        async def worked_out() -> Answer:
            return page()

        answer = asyncio.run_coroutine_threadsafe(worked_out(), self._loop)
        try:
            return answer.result(_PATIENCE_S)
        except TimeoutError:
            answer.cancel()
            return Answer(b"the process is stuck\n", HTTPStatus.SERVICE_UNAVAILABLE)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 its name there
        """Nobody wants a line for each time that Prometheus asks."""
