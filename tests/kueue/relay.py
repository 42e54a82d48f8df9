"""A way to a server that can be cut."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final, Self

from deploy.local.ports import free_ports

_CHUNK: Final = 64 * 1024


class Relay:
    """Passes on what its port gets; use it as a context manager."""

    def __init__(self, port: int) -> None:
        self._to = port
        [self.port] = free_ports(1)
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.restore()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()

    async def restore(self) -> None:
        """Take connections."""
        self._server = await asyncio.start_server(self._passed_on, "127.0.0.1", self.port)

    async def cut(self) -> None:
        """Break all connections off, and take no more."""
        if self._server is not None:
            self._server.close()
        for each in list(self._open):
            each.transport.abort()

    async def _passed_on(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):  # at the end of a play
            there, on = await asyncio.open_connection("127.0.0.1", self._to)
            ends = {back, on}
            self._open |= ends
            try:
                await _until_one_ends(_copied(here, on), _copied(there, back))
            finally:
                self._open -= ends
                for each in ends:
                    each.close()


async def _until_one_ends(*copying: Awaitable[None]) -> None:
    tasks = [asyncio.ensure_future(each) for each in copying]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()


async def _copied(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while told := await source.read(_CHUNK):
            target.write(told)
            await target.drain()
