"""What a gRPC server does with callers that left, and with a port that is not free."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NoReturn

import grpc
import pytest

from coplace_client.errors import CannotStartError
from deploy.local.ports import free_ports
from shared.process.grpc_calls import ends_process, receive
from shared.process.grpc_errors import RefusedCallError
from shared.process.grpc_server import grpc_server
from shared.process.life import Process
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry


class Gone:
    """A call that the client cancelled: nothing more can be said in it."""

    async def abort(self, *_status: object) -> NoReturn:
        """As gRPC does, whose error is no class that it shows."""
        raise RuntimeError("Failed execute_batch")


async def refuse(_request: object, _context: object) -> None:
    """Whatever is asked."""
    raise RefusedCallError(grpc.StatusCode.INVALID_ARGUMENT, "nodes: must be a number above 0")


async def test_a_caller_that_left_before_it_is_refused_does_not_end_the_process() -> None:
    crashes: list[Exception] = []
    with pytest.raises(asyncio.CancelledError):
        await ends_process(refuse, crashes.append)(b"", Gone())
    assert not crashes


async def test_a_stream_that_breaks_does_not_end_the_process() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"one"
        raise RuntimeError("the connection is lost")

    async def read(requests: AsyncIterator[bytes], _context: object) -> list[bytes]:
        return [message async for message in receive(requests, 1.0)]

    crashes: list[Exception] = []
    with pytest.raises(asyncio.CancelledError):
        await ends_process(read, crashes.append)(broken(), Gone())
    assert not crashes


async def test_a_bug_ends_the_process() -> None:
    async def fail(_request: object, _context: object) -> None:
        raise KeyError("a bug")

    crashes: list[Exception] = []
    with suppress(KeyError):
        await ends_process(fail, crashes.append)(b"", Gone())
    assert [type(crash) for crash in crashes] == [KeyError]


async def test_a_port_that_another_process_has_is_named_in_one_line() -> None:
    process: Any = Process(Settings(), Telemetry("test", Settings()))
    handlers = grpc.method_handlers_generic_handler("test", {})
    [port] = free_ports(1)
    async with grpc_server(process, "127.0.0.1", port, handlers):
        with pytest.raises(CannotStartError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with grpc_server(process, "127.0.0.1", port, handlers):
                pass
    async with grpc_server(process, "127.0.0.1", port, handlers):
        pass
