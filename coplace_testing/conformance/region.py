"""Coplace as an adapter meets it: ingest and watch over gRPC, whose decisions a check makes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

import grpc
from coplace.v1.ingest_service_pb2 import (
    Envelope,
    PublishRequest,
    PublishResponse,
    PublishStreamRequest,
    PublishStreamResponse,
    Rejection,
)
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.watch_service_pb2 import WatchDecisionsRequest, WatchDecisionsResponse
from grpc.aio import ServicerContext

from coplace_client.errors import RejectedError
from services.ingest.app import intake
from shared.process.clock import now_us
from shared.process.grpc_server import OPTIONS
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment

_INGEST: Final = "coplace.v1.IngestService"
_WATCH: Final = "coplace.v1.WatchService"
_CURSOR: Final = "conformance-"
_HEARTBEAT_S: Final = 5.0
_LOOK_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Reported:
    """An event that an adapter reported, when, and why it was refused."""

    event: Envelope
    at_us: int
    problem: str
    was_taken: bool


class PlayedRegion:
    """Takes facts as ingest does, and hands over the decisions that it is given. A context."""

    def __init__(self, ingest_port: int, watch_port: int) -> None:
        self._ports = ingest_port, watch_port
        self._intake = intake(Deployment.from_settings(Settings()))
        self._server: grpc.aio.Server | None = None
        self._decisions: list[PlacementDecided] = []
        self._repeat = 0
        self.is_unavailable = False
        self.reported: list[Reported] = []
        self.requests: list[WatchDecisionsRequest] = []

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._close()

    async def cut(self, *, repeat: int = 0) -> None:
        """Break all connections. The next stream hands over so many decisions again."""
        self._repeat = repeat
        await self._close()
        await self._open()

    def decide(self, decision: PlacementDecided) -> None:
        """Hand a decision over."""
        self._decisions.append(decision)

    @property
    def cursor(self) -> str:
        """Return the cursor behind all that was decided."""
        return f"{_CURSOR}{len(self._decisions)}"

    def events(self, name: str) -> Sequence[Envelope]:
        """Return the accepted events of a field of the envelope."""
        taken = (each.event for each in self.reported if each.was_taken)
        return [event for event in taken if event.WhichOneof("payload") == name]

    async def until(self, is_so: Callable[[], object], within_s: float) -> bool:
        """Return whether something came about in time."""
        deadline_s = asyncio.get_running_loop().time() + within_s
        while not is_so():
            if asyncio.get_running_loop().time() >= deadline_s:
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    async def _open(self) -> None:
        self._server = grpc.aio.server(options=OPTIONS)
        self._server.add_generic_rpc_handlers(_handlers(self))
        for port in self._ports:
            self._server.add_insecure_port(f"127.0.0.1:{port}")
        await self._server.start()

    async def _close(self) -> None:
        if self._server is not None:
            await self._server.stop(None)

    def _take(self, event: Envelope) -> str:
        """Note an event, and return why it is refused."""
        problem = ""
        try:
            self._intake.accept(event, now_us() / 1e6)
        except RejectedError as error:
            problem = str(error)
        taken = not problem and not self.is_unavailable
        self.reported.append(Reported(event, now_us(), problem, taken))
        return problem

    async def publish(
        self, request: PublishRequest, context: ServicerContext[Any, Any]
    ) -> PublishResponse:
        """Take one event."""
        problem = self._take(request.event)
        await self._answer(context, problem)
        return PublishResponse()

    async def publish_stream(
        self, requests: AsyncIterator[PublishStreamRequest], context: ServicerContext[Any, Any]
    ) -> PublishStreamResponse:
        """Take many events."""
        events = [request.event async for request in requests]
        problems = [self._take(event) for event in events]
        await self._answer(context, "")
        refused = [
            Rejection(index=index, id=event.id, reason=problem)
            for index, (event, problem) in enumerate(zip(events, problems, strict=True))
            if problem
        ]
        return PublishStreamResponse(
            published=len(events) - len(refused), rejections=refused, rejected=len(refused)
        )

    async def _answer(self, context: ServicerContext[Any, Any], problem: str) -> None:
        if self.is_unavailable:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "as a part of the check")
        if problem:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)

    async def watch(
        self, request: WatchDecisionsRequest, context: ServicerContext[Any, Any]
    ) -> AsyncIterator[WatchDecisionsResponse]:
        """Hand over decisions behind a cursor, and heartbeats."""
        self.requests.append(request)
        number = request.cursor.removeprefix(_CURSOR)
        if request.cursor and (request.from_earliest or not number.isdecimal()):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "cursor: is not one of here")
        at = int(number) if request.cursor else 0 if request.from_earliest else len(self._decisions)
        at, self._repeat = max(0, at - self._repeat), 0
        yield WatchDecisionsResponse(cursor=f"{_CURSOR}{at}")
        while True:
            if not await self.until(partial(self._has, at), _HEARTBEAT_S):
                yield WatchDecisionsResponse(cursor=f"{_CURSOR}{at}")
                continue
            decision, at = self._decisions[at], at + 1
            yield WatchDecisionsResponse(decision=decision, cursor=f"{_CURSOR}{at}")

    def _has(self, at: int) -> bool:
        return len(self._decisions) > at


def _handlers(region: PlayedRegion) -> Sequence[grpc.GenericRpcHandler]:
    ingest: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Publish": grpc.unary_unary_rpc_method_handler(
            region.publish, PublishRequest.FromString, PublishResponse.SerializeToString
        ),
        "PublishStream": grpc.stream_unary_rpc_method_handler(
            region.publish_stream,
            PublishStreamRequest.FromString,
            PublishStreamResponse.SerializeToString,
        ),
    }
    watch: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "WatchDecisions": grpc.unary_stream_rpc_method_handler(
            region.watch, WatchDecisionsRequest.FromString, WatchDecisionsResponse.SerializeToString
        )
    }
    return [
        grpc.method_handlers_generic_handler(_INGEST, ingest),
        grpc.method_handlers_generic_handler(_WATCH, watch),
    ]
