"""The life of a gRPC server in a process: one port, TLS as the settings say, crash only."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, cast

import grpc
import structlog

from coplace_client.errors import CannotStartError
from coplace_client.tls import files_problem
from shared.process.grpc_health import MOST_WATCHERS, Health
from shared.process.grpc_health import NAME as HEALTH
from shared.process.grpc_limits import CallLimits
from shared.process.grpc_reflection import reflection_handlers
from shared.process.grpc_security import grpc_server_credentials
from shared.process.life import Process
from shared.process.settings import Settings

# A call that runs when the process shall stop gets this long to finish.
_GRACE_S: Final = 5.0
OPTIONS: Final = (
    # Else a second process on the same port would get half of the calls, and nobody would know.
    ("grpc.so_reuseport", 0),
    # A client that vanished is noticed, one that does nothing is disconnected.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_connection_idle_ms", 600_000),
    # Clients may look every 30 s whether the server is there, also between calls; clocks differ.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 20_000),
    # What one connection has open at once; its client keeps the rest back.
    ("grpc.max_concurrent_streams", 128),
)

log = structlog.get_logger(__name__)


class CallerGate(Protocol):
    """Lets calls in where tokens count, and knows whose a call is."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        details: grpc.HandlerCallDetails,
    ) -> Any:
        """Return the handler of a call behind the gate, as an interceptor of gRPC does."""

    def identity(self, context: Any) -> str:
        """Return who calls; empty where nobody is known by name."""


async def serve_grpc(
    process: Process,
    host: str,
    port: int,
    handlers: grpc.GenericRpcHandler,
    most_calls: int | None = None,
    *,
    gate: CallerGate | None = None,
) -> None:
    """Answer calls until the process shall stop; a port of 0 takes a free one and logs it."""
    async with grpc_server(process, host, port, handlers, most_calls, gate=gate):
        process.readiness.ready()
        await process.stop.wait()


@asynccontextmanager
async def grpc_server(
    process: Process,
    host: str,
    port: int,
    handlers: grpc.GenericRpcHandler,
    most_calls: int | None = None,
    *,
    gate: CallerGate | None = None,
    is_on_duty: Callable[[], bool] = lambda: True,
) -> AsyncIterator[None]:
    """Answer calls meanwhile, beside other work of the process: at most so many at once, others
    are refused with RESOURCE_EXHAUSTED. Where tokens count, all pass the gate, which looks at them.
    Health says that the service is served while the process is ready and on duty. Raises
    CannotStartError where another process has the port."""
    assert isinstance(handlers, grpc.ServiceRpcHandler), "its name is needed"
    health = Health(process.readiness, handlers.service_name(), is_on_duty)
    every = (handlers, health.handlers(), reflection_handlers((handlers.service_name(), HEALTH)))
    server = await _start(process, host, port, every, most_calls, gate)
    try:
        yield
    finally:
        process.readiness.wait_for("its end")
        health.end()
        await server.stop(_GRACE_S)


async def _start(
    process: Process,
    host: str,
    port: int,
    handlers: Sequence[grpc.GenericRpcHandler],
    most_calls: int | None,
    gate: CallerGate | None,
) -> grpc.aio.Server:
    settings = process.settings
    options = [("grpc.max_receive_message_length", settings.max_message_bytes), *OPTIONS]
    if settings.grpc_token_port and gate is None:
        raise CannotStartError("no client comes here with a token: unset COPLACE_GRPC_TOKEN_PORT")
    gates = [gate] if settings.grpc_token_port and gate else []
    identity = gate.identity if gate else _nobody
    limits = CallLimits(most_calls, _most_of_one(settings, most_calls), identity)
    interceptors = cast(Sequence[grpc.aio.ServerInterceptor], [*gates, limits])
    server = grpc.aio.server(
        interceptors=interceptors,
        options=options,
        # Beyond these gRPC refuses by itself, before a message is read.
        maximum_concurrent_rpcs=None if most_calls is None else 2 * most_calls + MOST_WATCHERS,
    )
    server.add_generic_rpc_handlers(handlers)
    if problem := files_problem(settings, "grpc"):
        raise CannotStartError(f"gRPC on {host}:{port}: {problem}")
    credentials = grpc_server_credentials(settings)
    port = _take_port(server, f"{host}:{port}", credentials)
    if gates:
        _take_token_port(server, f"{host}:{settings.grpc_token_port}", settings)
    await server.start()
    log.info("serving gRPC", host=host, port=port, tls=credentials is not None)
    return server


def _most_of_one(settings: Settings, most_calls: int | None) -> int:
    """Return how many calls one client may have open: a quarter is left for the others."""
    most = settings.grpc_calls_per_client
    return most if most_calls is None else min(most, most_calls - most_calls // 4)


def _nobody(_context: object) -> str:
    return ""


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
