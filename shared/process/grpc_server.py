"""The life of a gRPC server in a process: one port, TLS as the settings say, crash only."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import grpc
import structlog
from grpc.aio import AbortError

from coplace_client.errors import CannotStartError
from coplace_client.tls import files_problem
from shared.process.grpc_security import grpc_server_credentials
from shared.process.life import Process
from shared.process.settings import Settings

# A call that runs when the process shall stop gets this long to finish.
_GRACE_S: Final = 5.0
_OPTIONS: Final = (
    # Else a second process on the same port would get half of the calls, and nobody would know.
    ("grpc.so_reuseport", 0),
    # A client that vanished is noticed, one that does nothing is disconnected.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_connection_idle_ms", 600_000),
    # What one connection has open at once; its client keeps the rest back.
    ("grpc.max_concurrent_streams", 128),
)

_T = TypeVar("_T")
log = structlog.get_logger(__name__)


class RefusedCallError(Exception):
    """An error for the caller instead of an answer; nothing is wrong with this process."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


class EndedCallError(Exception):
    """The caller, or the connection to it, ended the call: nobody waits for an answer."""


async def serve_grpc(
    process: Process,
    host: str,
    port: int,
    handlers: grpc.GenericRpcHandler,
    most_calls: int | None = None,
    *,
    gate: grpc.aio.ServerInterceptor | None = None,
) -> None:
    """Answer calls until the process shall stop; a port of 0 takes a free one and logs it."""
    async with grpc_server(process, host, port, handlers, most_calls, gate=gate):
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
    *,
    gate: grpc.aio.ServerInterceptor | None = None,
) -> AsyncIterator[None]:
    """Answer calls meanwhile, beside other work of the process: at most so many at once, others
    are refused with RESOURCE_EXHAUSTED. Where tokens count, all pass the gate, which looks at them.
    Raises CannotStartError where another process has the port."""
    server = await _start(process, host, port, handlers, most_calls, gate)
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
    gate: grpc.aio.ServerInterceptor | None,
) -> grpc.aio.Server:
    settings = process.settings
    options = [("grpc.max_receive_message_length", settings.max_message_bytes), *_OPTIONS]
    if settings.grpc_token_port and gate is None:
        raise CannotStartError("no client comes here with a token: unset COPLACE_GRPC_TOKEN_PORT")
    gates = [gate] if settings.grpc_token_port and gate else []
    server = grpc.aio.server(
        interceptors=gates, options=options, maximum_concurrent_rpcs=most_calls
    )
    server.add_generic_rpc_handlers((handlers,))
    if problem := files_problem(settings, "grpc"):
        raise CannotStartError(f"gRPC on {host}:{port}: {problem}")
    credentials = grpc_server_credentials(settings)
    port = _take_port(server, f"{host}:{port}", credentials)
    if gates:
        _take_token_port(server, f"{host}:{settings.grpc_token_port}", settings)
    await server.start()
    log.info("serving gRPC", host=host, port=port, tls=credentials is not None)
    return server


def _take_port(
    server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None
) -> int:
    try:
        if credentials:
            return server.add_secure_port(address, credentials)
        return server.add_insecure_port(address)
    except RuntimeError:
        raise CannotStartError(
            f"gRPC cannot listen on {address}: another process has it, or it is not an address of "
            "this machine; stop the other one, or set another host and port"
        ) from None


def _take_token_port(server: grpc.aio.Server, address: str, settings: Settings) -> None:
    """gRPC asks all clients of a port for a certificate, or none."""
    _take_port(server, address, grpc_server_credentials(settings, for_tokens=True))
    log.info("serving gRPC to clients with a token", address=address)


def ends_process(
    work: Callable[[Any, Any], Awaitable[_T]], crash: Callable[[Exception], object]
) -> Callable[[Any, Any], Awaitable[_T]]:
    """Guard the handler of a call: whatever is no fault of the caller is passed to `crash`.

    Crash only: a send that failed, or a bug, must not be answered and forgotten. `work` never
    speaks to the caller itself: it reads by `received`, returns, or raises RefusedCallError. So
    what fails in talking to a caller that left is never taken for a failure of ours.
    """

    async def guarded(request: Any, context: Any) -> _T:
        try:
            return await work(request, context)
        except RefusedCallError as error:
            refusal = error
        except EndedCallError:
            raise asyncio.CancelledError from None
        except Exception as error:
            crash(error)
            raise
        await _refuse(refusal, context)
        raise asyncio.CancelledError

    return guarded


async def _refuse(refusal: RefusedCallError, context: Any) -> None:
    """Answer the caller; one that cancelled meanwhile gets none, and misses none."""
    try:
        await context.abort(refusal.code, refusal.details)
    except AbortError:
        raise
    except Exception as error:  # noqa: BLE001 nothing but the call itself can fail here
        log.info("the caller cancelled before it was refused", error=repr(error))


async def receive(requests: AsyncIterator[bytes], idle_s: float) -> AsyncIterator[bytes]:
    """Yield the messages of a stream. Raises RefusedCallError where none comes for so long, and
    EndedCallError where the stream breaks."""
    messages = aiter(requests)
    while True:
        try:
            async with asyncio.timeout(idle_s):
                message = await anext(messages)
        except StopAsyncIteration:
            return
        except TimeoutError:
            details = f"nothing came for {idle_s:g} s: what came before was taken; open a new one"
            raise RefusedCallError(grpc.StatusCode.DEADLINE_EXCEEDED, details) from None
        except Exception as error:
            raise EndedCallError(str(error)) from error
        yield message
