"""Services that are called over a real channel."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import grpc
import pytest


@asynccontextmanager
async def served(
    handlers: grpc.GenericRpcHandler, most_bytes: int = 4 * 2**20
) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a running service."""
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", most_bytes)])
    server.add_generic_rpc_handlers((handlers,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(None)


async def refusal(call: Awaitable[object]) -> tuple[grpc.StatusCode, str]:
    """How a call ends that is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value.code(), str(error.value.details())
