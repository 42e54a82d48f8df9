"""Receivers of webhooks over real sockets: one that is good, and those that mean harm."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

_OK: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_CHUNK: Final = b"x" * 65_536
_ENDLESS: Final = b"HTTP/1.1 %d OK\r\ncontent-type: text/plain\r\n\r\n"


@dataclass
class Taken:
    """What a receiver got: the headers and the body of each request."""

    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    connections: int = 0
    sent_bytes: int = 0

    @property
    def documents(self) -> list[Any]:
        """The bodies."""
        return [orjson.loads(body) for _, body in self.requests]


Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Taken], Awaitable[None]]


async def read_request(reader: asyncio.StreamReader) -> tuple[dict[str, str], bytes]:
    """Read one request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
    headers = {
        name.lower(): value.strip() for name, _, value in (each.partition(":") for each in head)
    }
    return headers, await reader.readexactly(int(headers["content-length"]))


async def good(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, taken: Taken) -> None:
    taken.requests.append(await read_request(reader))
    writer.write(_OK)


def answering(head: bytes) -> Behaviour:
    """One that answers so."""

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, taken: Taken
    ) -> None:
        taken.requests.append(await read_request(reader))
        writer.write(head + b"content-length: 0\r\nconnection: close\r\n\r\n")

    return answer


async def hanging(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter, _: Taken) -> None:
    await read_request(reader)
    await asyncio.sleep(3_600)


async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: Taken) -> None:
    await read_request(reader)
    while True:
        writer.write(b"H")
        await writer.drain()
        await asyncio.sleep(0.05)


def flooding(status: int) -> Behaviour:
    """One whose answer has no end."""

    async def flood(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, taken: Taken
    ) -> None:
        taken.requests.append(await read_request(reader))
        writer.write(_ENDLESS % status)
        while True:
            writer.write(_CHUNK)
            await writer.drain()
            taken.sent_bytes += len(_CHUNK)

    return flood


async def flooding_heads(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, taken: Taken
) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\n")
    number = 0
    while True:
        writer.write(b"x-%d: %s\r\n" % (number, b"y" * 4_000))
        await writer.drain()
        taken.sent_bytes += 4_000
        number += 1


async def resetting(_: asyncio.StreamReader, writer: asyncio.StreamWriter, _taken: Taken) -> None:
    writer.transport.abort()


async def talking_nonsense(
    _reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: Taken
) -> None:
    writer.write(b"220 mail.example.org ESMTP\r\n" * 10)


def redirecting(url: str) -> Behaviour:
    """One that leads elsewhere."""
    return answering(b"HTTP/1.1 307 Moved\r\nlocation: " + url.encode() + b"\r\n")


class Receivers:
    """Receivers by names, each on a port of its own."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.taken: dict[str, Taken] = {}
        self.ports: dict[str, int] = {}

    async def listen(
        self, name: str, behaviour: Behaviour, tls: ssl.SSLContext | None = None
    ) -> int:
        """Have one more, and return its port."""
        taken = self.taken[name] = Taken()
        tasks = set[asyncio.Task[None]]()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task
            tasks.add(task)
            taken.connections += 1
            try:
                with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                    await behaviour(reader, writer, taken)
                    await writer.drain()
            finally:
                tasks.discard(task)
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)

        async def end() -> None:
            server.close()
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._stack.push_async_callback(end)
        self.ports[name] = server.sockets[0].getsockname()[1]
        return self.ports[name]


@asynccontextmanager
async def receivers() -> AsyncIterator[Receivers]:
    """Receivers that end with it."""
    async with AsyncExitStack() as stack:
        yield Receivers(stack)


def server_tls(certificate: Any, key: Any) -> ssl.SSLContext:
    """TLS of a receiver."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
