"""Services that are called over a real channel."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from deploy.local.ports import free_ports
from shared.process.grpc_server import grpc_server
from shared.process.life import Process
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry


@asynccontextmanager
async def serving(
    handlers: grpc.GenericRpcHandler, most_bytes: int = 4 * 2**20
) -> AsyncIterator[Callable[[], grpc.aio.Channel]]:
    """A running service, and what connects to it: each channel has a connection of its own."""
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", most_bytes)])
    server.add_generic_rpc_handlers((handlers,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    own = [("grpc.use_local_subchannel_pool", 1)]
    yield lambda: grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=own)
    await server.stop(None)


@asynccontextmanager
async def served(
    handlers: grpc.GenericRpcHandler, most_bytes: int = 4 * 2**20
) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a running service."""
    async with serving(handlers, most_bytes) as connect, connect() as channel:
        yield channel


async def refusal(call: Awaitable[object]) -> tuple[grpc.StatusCode, str]:
    """How a call ends that is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value.code(), str(error.value.details())


@asynccontextmanager
async def served_by_process(
    handlers: grpc.GenericRpcHandler,
    most_calls: int | None = None,
    is_on_duty: Callable[[], bool] = lambda: True,
    **settings: object,
) -> AsyncIterator[tuple[str, Process]]:
    """Where a service is served as its process serves it, ready, and the process."""
    given = Settings().model_copy(update=settings)
    process, [port] = Process(given, Telemetry("test", given)), free_ports(1)
    async with grpc_server(process, "127.0.0.1", port, handlers, most_calls, is_on_duty=is_on_duty):
        process.readiness.ready()
        yield f"127.0.0.1:{port}", process


def details_of(error: grpc.RpcError) -> dict[str, Any]:
    """What a refusal says for programs, by the names of the messages of google.rpc."""
    status = rpc_status.from_call(error)
    assert status is not None
    found: dict[str, Any] = {}
    for each in status.details:
        name = each.type_url.rpartition(".")[2]
        found[name] = getattr(error_details_pb2, name)()
        assert each.Unpack(found[name])
    return found
