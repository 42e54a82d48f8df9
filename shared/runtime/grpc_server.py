"""The life of a gRPC server in a process: one port, TLS as the settings say, crash only."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import grpc
import structlog
from grpc.aio import AbortError

from shared.runtime.grpc_security import grpc_server_credentials
from shared.runtime.service import Process

# A call that runs when the process shall stop gets this long to finish.
_GRACE_S: Final = 5.0

_T = TypeVar("_T")
log = structlog.get_logger(__name__)


async def serve_grpc(
    process: Process, host: str, port: int, handlers: grpc.GenericRpcHandler
) -> None:
    """Answer calls until the process shall stop; a port of 0 takes a free one and logs it."""
    async with grpc_server(process, host, port, handlers):
        process.readiness.ready()
        await process.stop.wait()
        process.readiness.wait_for("its end")


@asynccontextmanager
async def grpc_server(
    process: Process,
    host: str,
    port: int,
    handlers: grpc.GenericRpcHandler,
    most_calls: int | None = None,
) -> AsyncIterator[None]:
    """Answer calls meanwhile, beside other work of the process: at most so many at once, others
    are refused with RESOURCE_EXHAUSTED."""
    server = await _start(process, host, port, handlers, most_calls)
    try:
        yield
    finally:
        await server.stop(_GRACE_S)


async def _start(
    process: Process,
    host: str,
    port: int,
    handlers: grpc.GenericRpcHandler,
    most_calls: int | None,
) -> grpc.aio.Server:
    largest = process.settings.max_message_bytes
    options = [("grpc.max_receive_message_length", largest)]
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=most_calls)
    server.add_generic_rpc_handlers((handlers,))
    address, credentials = f"{host}:{port}", grpc_server_credentials(process.settings)
    if credentials:
        port = server.add_secure_port(address, credentials)
    else:
        port = server.add_insecure_port(address)
    await server.start()
    log.info("serving gRPC", host=host, port=port, tls=credentials is not None)
    return server


def ends_process(
    handler: Callable[[Any, Any], Awaitable[_T]], crash: Callable[[Exception], object]
) -> Callable[[Any, Any], Awaitable[_T]]:
    """The handler, where whatever is no fault of the caller is told to `crash`.

    Crash only: a send that failed, or a bug, must not be answered and forgotten.
    """

    async def guarded(request: Any, context: Any) -> _T:
        try:
            return await handler(request, context)
        except AbortError:
            raise
        except Exception as error:
            crash(error)
            raise

    return guarded
