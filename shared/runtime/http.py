"""Health, readiness and metrics of a process over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from shared.runtime.settings import Settings

log = structlog.get_logger(__name__)


class Readiness:
    """Whether the process does its work, and if not, why."""

    def __init__(self, waiting_for: str = "start-up") -> None:
        self.waiting_for = waiting_for
        self.alarm = ""
        """What is wrong although the process works; it is told beside its readiness."""

    def ready(self) -> None:
        """Everything that the process needs is there."""
        self._becomes("")

    def wait_for(self, what: str) -> None:
        """The process cannot work before `what` is there."""
        self._becomes(what)

    def refuse(self, why: str) -> None:
        """The process must not work: data were replaced, and an operator has to mend them."""
        self._becomes(f"an operator: {why}")

    def _becomes(self, waiting_for: str) -> None:
        if waiting_for != self.waiting_for:
            log.info("readiness", ready=not waiting_for, waiting_for=waiting_for)
        self.waiting_for = waiting_for


@asynccontextmanager
async def http_server(
    settings: Settings, readiness: Readiness, metrics: CollectorRegistry
) -> AsyncIterator[int]:
    """Serve /healthz, /readyz and /metrics; yields the port."""
    runner = web.AppRunner(_application(readiness, metrics), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.http_host, settings.http_port)
        await site.start()
        port: int = runner.addresses[0][1]
        log.info("serving health and metrics", host=settings.http_host, port=port)
        yield port
    finally:
        await runner.cleanup()


def _application(readiness: Readiness, metrics: CollectorRegistry) -> web.Application:
    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def readyz(_request: web.Request) -> web.Response:
        if readiness.waiting_for:
            return web.Response(status=503, text=f"waiting for {readiness.waiting_for}\n")
        alarm = f", but {readiness.alarm}" if readiness.alarm else ""
        return web.Response(text=f"ready{alarm}\n")

    async def exposition(_request: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(metrics), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    application = web.Application()
    application.router.add_get("/healthz", healthz)
    application.router.add_get("/readyz", readyz)
    application.router.add_get("/metrics", exposition)
    return application
