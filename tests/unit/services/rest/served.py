"""REST over real gRPC services, asked over a real socket."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import grpc
import uvicorn
from coplace.v1.watch_service_pb2 import WatchDecisionsResponse
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from opentelemetry.metrics import NoOpMeter

from coplace_client.health import Readiness
from services.energy.api.meter import EnergyApiMeter
from services.energy.api.service import EnergyService
from services.history.database import Database
from services.history.meter import HistoryMeter
from services.history.reading import HistoryReader
from services.history.service import HistoryService
from services.ingest.meter import IngestMeter
from services.ingest.model import Intake
from services.ingest.service import IngestService
from services.placement.service import Duty, PlacementService
from services.rest.calls import answer_of, answers_of
from services.rest.meter import RestMeter
from services.rest.routes import routes
from services.rest.service import Caller, RestService
from services.rest.settings import RestSettings
from services.webhooks.addresses import AddressRules
from services.webhooks.service import WebhookService
from shared.authority.door import Door
from shared.authority.table import TableInForce
from shared.catalogue.event import Publish
from shared.catalogue.topics import Topics
from shared.placement.processor.placement import Placement
from shared.pricing.terms import PriceTerms
from tests.unit.services.calls import served
from tests.unit.services.energy.api.appdb import AppDB, coefficients
from tests.unit.services.history.made import FactLog, batch, database
from tests.unit.services.ingest.envelopes import NOW_US
from tests.unit.services.ingest.test_service import Broker
from tests.unit.services.webhooks.made import KEY, World
from tests.unit.shared.authority.test_bearing import Audit


class HttpAnswer(NamedTuple):
    """What came over the socket."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def problem(self) -> tuple[str, list[tuple[str, str]]]:
        """The last part of the problem's type, and the fields that it names."""
        assert self.headers["content-type"] == "application/problem+json", self
        found = self.json
        assert found["status"] == self.status
        assert found["title"]
        assert found["detail"]
        errors = [(one["field"], one["detail"]) for one in found.get("errors", ())]
        return found["type"].rpartition(":")[2], errors


class Outcomes:
    """Knows what came of the commands that the test says."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    async def of(self, command_id: str, _within_s: float) -> Any:
        """What the test said."""
        return self.known.get(command_id)


@dataclass
class Region:
    """The services behind REST."""

    placement: Placement | None = None
    broker: Broker = field(default_factory=Broker)
    appdb: AppDB = field(default_factory=AppDB)
    outcomes: Outcomes = field(default_factory=Outcomes)
    crashes: list[Exception] = field(default_factory=list)
    facts: FactLog = field(default_factory=FactLog)

    @property
    def published(self) -> list[Publish]:
        """What ingest took."""
        return self.broker.taken

    def handlers(self) -> Mapping[str, grpc.GenericRpcHandler]:
        """The services by their names."""
        duty, intake, meter = Duty(), Intake(Topics(kafka_partitions=4)), NoOpMeter("test")
        if self.placement is not None:
            duty.begin(self.placement.queries)
        if not self.appdb.tables:
            self.appdb.learn(coefficients())
            self.appdb.measure("hpcg")
        ingest = IngestService(
            intake,
            self.broker,
            IngestMeter(meter),
            self.crashes.append,
            outcomes=self.outcomes,
        )
        energy = EnergyService(self.appdb, EnergyApiMeter(meter), 1_000, self.crashes.append)
        return {
            "coplace.v1.PlacementService": PlacementService(
                duty, 100, PriceTerms(Decimal(1))
            ).handlers(),
            "coplace.v1.IngestService": ingest.handlers(),
            "coplace.v1.EnergyService": energy.handlers(),
            "coplace.v1.WatchService": _one_heartbeat(),
            "coplace.v1.HistoryService": self._history().handlers(),
            "coplace.v1.WebhookService": self._webhooks().handlers(),
        }

    def _history(self) -> HistoryService:
        """With what the facts say."""
        engine, writer = database(Database(str(Path(mkdtemp()) / "history.db")))
        writer.apply([batch(records) for records in self.facts.records.values() if records])
        meter = HistoryMeter(NoOpMeter("test"))
        return HistoryService(HistoryReader(engine), meter, self.crashes.append)

    def _webhooks(self) -> WebhookService:
        """Without a webhook."""
        world, rules = World(Path(mkdtemp())), AddressRules()

        async def check(url: str) -> None:
            rules.parse(url)

        door = Door("webhooks", TableInForce(), Audit(), NoOpMeter("test"))
        return WebhookService(
            *(world.registry, world.queue, world.deliverer(), KEY, check, door),
            self.crashes.append,
            budget_percent=80,
            old_secret_us=0,
            now_us=world.now_us,
        )


def _one_heartbeat() -> grpc.GenericRpcHandler:
    """A stream that ends: what it hands over is tested with the service that makes it."""

    async def answers(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
        yield WatchDecisionsResponse(cursor="here").SerializeToString()

    stream: Any = grpc.unary_stream_rpc_method_handler(answers)
    return grpc.method_handlers_generic_handler(
        "coplace.v1.WatchService", {"WatchDecisions": stream}
    )


class Channels:
    """Asks over the channels of a test, and remembers with which tokens."""

    def __init__(self, channels: Mapping[str, grpc.aio.Channel]) -> None:
        self.channels = channels
        self.tokens: list[str] = []

    async def call(self, method: MethodDescriptor, request: Message, token: str) -> Message:
        """Ask a service."""
        self.tokens.append(token)
        return await answer_of(self._of(method), method, request, timeout=30)

    def stream(
        self, method: MethodDescriptor, request: Message, token: str
    ) -> AsyncGenerator[Message, None]:
        """Ask a service for answers without end."""
        self.tokens.append(token)
        return answers_of(self._of(method), method, request)

    def _of(self, method: MethodDescriptor) -> grpc.aio.Channel:
        return self.channels[method.containing_service.full_name]


class Client:
    """A client of the port."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def raw(self, data: bytes, *, closes: bool = False) -> HttpAnswer:
        """Send bytes, and read what comes until the server closes; no more comes where the client
        `closes` its side."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            if closes:
                writer.write_eof()
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines)
            }
            body = await asyncio.wait_for(reader.read(), 30)
            # Bytes behind a request are one more, with an answer of its own.
            size = int(headers.get("content-length", len(body)))
            return HttpAnswer(int(first.split()[1]), headers, body[:size])
        finally:
            writer.close()

    async def send(
        self, verb: str, target: str, data: bytes | None, /, **headers: str
    ) -> HttpAnswer:
        """Send a body as it is; underscores in names of headers are hyphens."""
        told = {"Host": "test", "Connection": "close"}
        if data is not None:
            told |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{verb} {target} HTTP/1.1", *(f"{n}: {v}" for n, v in told.items()), "", ""]
        return await self.raw("\r\n".join(lines).encode("latin-1") + (data or b""))

    async def ask(self, verb: str, target: str, /, **headers: str) -> HttpAnswer:
        """Ask without a body."""
        return await self.send(verb, target, None, **headers)

    async def get(self, target: str, **headers: str) -> HttpAnswer:
        """Ask by GET."""
        return await self.send("GET", target, None, **headers)

    async def post(self, target: str, body: object, **headers: str) -> HttpAnswer:
        """Publish or ask by POST."""
        return await self.send("POST", target, json.dumps(body).encode(), **headers)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Any:
        """Leave signals to pytest."""
        yield


@asynccontextmanager
async def listening(
    caller: Caller, readiness: Readiness | None = None, **own: Any
) -> AsyncIterator[Client]:
    """REST on a free port, with what asks the services."""
    ready = readiness or Readiness("")
    meter = RestMeter(NoOpMeter("test"))
    rest = RestService(routes(), caller, RestSettings(**own), meter, ready, lambda: NOW_US)
    server = _Server(uvicorn.Config(rest.app(), port=0, lifespan="off", log_config=None))
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield Client(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        await running


@asynccontextmanager
async def rest_over(region: Region, **own: Any) -> AsyncIterator[Client]:
    """REST over the services of a region."""
    async with AsyncExitStack() as stack:
        channels = {
            name: await stack.enter_async_context(served(handlers))
            for name, handlers in region.handlers().items()
        }
        yield await stack.enter_async_context(listening(Channels(channels), **own))
