"""Placement that answers on a port of its own, for commands that ask it."""

import asyncio
import threading

import grpc

from services.placement.service import Duty, PlacementService
from shared.placement.processor.placement import Placement
from shared.pricing.settings import RateSettings
from shared.pricing.terms import PriceTerms


class Served:
    """The service of a processor, or of the one on duty, on a loop of its own thread."""

    def __init__(self, processor: Placement | Duty, terms: PriceTerms | None = None) -> None:
        duty = processor if isinstance(processor, Duty) else Duty()
        if isinstance(processor, Placement):
            duty.begin(processor.queries)
        self._service = PlacementService(
            duty, 100, terms or PriceTerms(RateSettings().rate_su_per_core_s)
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> str:
        """Its address."""
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return f"127.0.0.1:{port}"

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(None), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> int:
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self._service.handlers(),))
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return port
