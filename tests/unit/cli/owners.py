"""A region whose owners do what a test says: placement answers, ingest takes, and the owners of
commands have them in force, refuse them or say nothing."""

import asyncio
import threading
from collections.abc import Awaitable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import grpc
from coplace.v1.control_pb2 import CommandOutcome, CommandResult
from opentelemetry.metrics import NoOpMeter

from services.ingest.meter import IngestMeter
from services.ingest.model import Intake
from services.ingest.service import IngestService
from services.placement.service import Duty, PlacementService
from shared.catalogue.event import Event, Publish
from shared.catalogue.options import owners
from shared.catalogue.topics import Topics
from shared.placement.processor.placement import Placement
from shared.pricing.terms import PriceTerms


@dataclass
class Owners:
    """What comes of every command: None where nobody says it. Knows what was published."""

    result: CommandResult.ValueType | None = None
    reason: str = ""
    published: list[Event] = field(default_factory=list)

    async def send(self, publish: Publish) -> Awaitable[object]:
        """Take an event, as the broker does."""
        self.published.append(publish.event)
        return asyncio.sleep(0)

    async def of(self, command_id: str, _within_s: float) -> CommandOutcome | None:
        """Say what came of a command, without waiting."""
        [event] = [each for each in self.published if each.id == command_id]
        if self.result is None:
            return None
        return CommandOutcome(
            command_id=command_id,
            command_type=event.type,
            command_source=event.source,
            result=self.result,
            round=7,
            owner=owners()[event.type],
            reason=self.reason,
        )


class Region:
    """Servers on a loop of their own thread."""

    def __init__(self, processor: Placement) -> None:
        self.owners = Owners()
        duty = Duty()
        duty.begin(processor.queries)
        intake, meter = Intake(Topics()), IngestMeter(NoOpMeter("test"))
        ingest = IngestService(intake, self.owners, meter, print, outcomes=self.owners)
        self._handlers = [
            PlacementService(duty, 100, PriceTerms(Decimal(1))).handlers(),
            ingest.handlers(),
        ]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: list[grpc.aio.Server] = []
        self._ending: dict[tuple[grpc.StatusCode, str], str] = {}

    def __enter__(self) -> "Region":
        self._thread.start()
        self.address = self._serve(*self._handlers)
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            asyncio.run_coroutine_threadsafe(server.stop(None), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def ends_with(self, code: grpc.StatusCode, details: str) -> str:
        """The address of a service that ends every call so."""
        if (code, details) not in self._ending:
            self._ending[code, details] = self._serve(_Ending(code, details))
        return self._ending[code, details]

    def _serve(self, *handlers: grpc.GenericRpcHandler) -> str:
        async def start() -> int:
            server = grpc.aio.server()
            server.add_generic_rpc_handlers(handlers)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            self._servers.append(server)
            return port

        return f"127.0.0.1:{asyncio.run_coroutine_threadsafe(start(), self._loop).result(10)}"


class _Ending(grpc.GenericRpcHandler):
    """Ends whatever call."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._code, self._details = code, details

    def service(self, _details: Any) -> Any:
        async def end(_request: bytes, context: Any) -> None:
            await context.abort(self._code, self._details)

        return grpc.unary_unary_rpc_method_handler(end)
