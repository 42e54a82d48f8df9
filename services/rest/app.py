"""Composition root of REST."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import structlog
import uvicorn

from coplace_client.errors import CannotStartError
from coplace_client.tls import files_problem
from services.rest.calls import Services
from services.rest.meter import RestMeter
from services.rest.routes import routes
from services.rest.service import RestService
from services.rest.settings import RestSettings, ServiceAddresses
from shared.process.clock import now_us
from shared.process.life import Process, run_process
from shared.process.settings import Settings

NAME: Final = "rest"
# How soon a certificate that was replaced is shown, s.
_LOOKED_AT_EACH_S: Final = 5.0
_GRACE_S: Final = 5
_BACKLOG: Final = 256

log = structlog.get_logger(__name__)


class _Server(uvicorn.Server):
    """A server that leaves signals to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signal."""
        yield


async def serve(process: Process) -> None:
    """Serve HTTP until the process shall stop."""
    own, shared = RestSettings(), process.settings
    addresses = ServiceAddresses().of_services()
    services = Services(addresses, shared.grpc_ca_file, own.answered_within_s)
    meter = RestMeter(process.telemetry.meter)
    rest = RestService(routes(), services, own, meter, process.readiness, now_us)
    if problem := files_problem(shared, "grpc"):
        raise CannotStartError(f"HTTP on {own.host}:{own.port}: {problem}")
    config = uvicorn.Config(
        rest.app(),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_S,
        ssl_certfile=shared.grpc_cert_file,
        ssl_keyfile=shared.grpc_key_file,
    )
    config.load()
    server = _Server(config)
    with _listening(own) as listener:
        served = asyncio.create_task(server.serve([listener]))
        renewing = asyncio.create_task(_renew(config.ssl, shared))
        process.readiness.ready()
        stopping = asyncio.create_task(process.stop.wait())
        await asyncio.wait({served, stopping, renewing}, return_when=asyncio.FIRST_COMPLETED)
        process.readiness.wait_for("its end")
        server.should_exit = True
        await served
        for task in (stopping, renewing):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    await services.close()


@contextmanager
def _listening(own: RestSettings) -> Iterator[socket.socket]:
    """Take the port. Raises CannotStartError where another process has it."""
    try:
        [(family, *_), *_] = socket.getaddrinfo(own.host, None, type=socket.SOCK_STREAM)
        listener = socket.create_server((own.host, own.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise CannotStartError(
            f"HTTP cannot listen on {own.host}:{own.port}: {error.strerror}: stop the other "
            "process, or set COPLACE_REST_HOST and COPLACE_REST_PORT"
        ) from None
    with listener:
        host, port = listener.getsockname()[:2]
        log.info("serving REST", host=host, port=port)
        yield listener


async def _renew(context: ssl.SSLContext | None, shared: Settings) -> None:
    """Show connections that begin the certificate as its files have it now."""
    certificate, key = shared.grpc_cert_file, shared.grpc_key_file
    shown_at = certificate.stat().st_mtime_ns if certificate else 0
    while True:
        await asyncio.sleep(_LOOKED_AT_EACH_S)
        if context is None or certificate is None:
            continue
        changed_at = certificate.stat().st_mtime_ns
        if changed_at != shown_at:
            context.load_cert_chain(certificate, key)
            shown_at = changed_at


def main() -> None:
    """Run the process of REST."""
    run_process(NAME, serve)
