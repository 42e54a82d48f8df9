"""The gRPC service: validates, publishes, and answers after the broker has it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Protocol

import grpc
from coplace.v1.ingest_service_pb2 import (
    Envelope,
    PublishRequest,
    PublishResponse,
    PublishStreamRequest,
    PublishStreamResponse,
    Rejection,
)
from grpc.aio import ServicerContext

from services.ingest.meter import IngestMeter
from services.ingest.model import Intake, check_source, parse_envelope
from shared.domain.errors import RejectedError
from shared.messaging.event import Publish
from shared.runtime.grpc_server import ends_process

NAME: Final = "coplace.v1.IngestService"
# Bounds what one stream holds in memory.
_MOST_IN_FLIGHT: Final = 2_000
_MOST_REJECTIONS: Final = 1_000


class Publisher(Protocol):
    """Where accepted events go."""

    async def send(self, publish: Publish) -> Awaitable[object]:
        """Hand an event over; what is returned is done when the broker has it."""
        ...


class IngestService:
    """Both RPCs. `crash` ends the process for an exception that is no fault of a caller."""

    def __init__(
        self,
        intake: Intake,
        publisher: Publisher,
        meter: IngestMeter,
        crash: Callable[[Exception], object],
    ) -> None:
        self._intake = intake
        self._publisher = publisher
        self._meter = meter
        self._crash = crash

    def handlers(self) -> grpc.GenericRpcHandler:
        """The RPCs on raw bytes, so that a message that is no protobuf is told which field."""
        return grpc.method_handlers_generic_handler(
            NAME,
            {
                "Publish": grpc.unary_unary_rpc_method_handler(
                    ends_process(self.publish, self._crash),
                    response_serializer=PublishResponse.SerializeToString,
                ),
                "PublishStream": grpc.stream_unary_rpc_method_handler(
                    ends_process(self.publish_stream, self._crash),
                    response_serializer=PublishStreamResponse.SerializeToString,
                ),
            },
        )

    async def publish(self, data: bytes, context: ServicerContext[Any, Any]) -> PublishResponse:
        """One event."""
        try:
            envelope = parse_envelope(PublishRequest, data)
            publish = self._accept(envelope, context)
        except RejectedError as error:
            self._meter.rejected()
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await (await self._publisher.send(publish))
        self._meter.published(publish)
        return PublishResponse()

    async def publish_stream(
        self, requests: AsyncIterator[bytes], context: ServicerContext[Any, Any]
    ) -> PublishStreamResponse:
        """Many events; what is refused is listed, everything else is published in order."""
        stream = _Stream(self._publisher)
        async for data in requests:
            envelope = Envelope()
            try:
                envelope = parse_envelope(PublishStreamRequest, data)
                publish = self._accept(envelope, context)
            except RejectedError as error:
                self._meter.rejected()
                await stream.refuse(envelope.id, str(error), context)
            else:
                self._meter.published(publish)
                await stream.send(publish)
        return await stream.finish()

    def _accept(self, envelope: Envelope, context: ServicerContext[Any, Any]) -> Publish:
        for speaker in context.auth_context().get("x509_common_name", ()):
            check_source(envelope, speaker.decode())
        return self._intake.accept(envelope, time.time())


class _Stream:
    """One call's progress: what is on its way to the broker, and what was refused."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._in_flight: list[Awaitable[object]] = []
        self._index = 0
        self._response = PublishStreamResponse()

    async def send(self, publish: Publish) -> None:
        """Hand an event over; waits when too many are on their way."""
        self._index += 1
        self._response.published += 1
        self._in_flight.append(await self._publisher.send(publish))
        if len(self._in_flight) >= _MOST_IN_FLIGHT:
            await self._delivered()

    async def refuse(self, event_id: str, reason: str, context: ServicerContext[Any, Any]) -> None:
        """Note a refusal; a stream of nothing else is broken off, since its answer must fit."""
        rejections = self._response.rejections
        rejections.append(Rejection(index=self._index, id=event_id[:1024], reason=reason))
        self._index += 1
        if len(rejections) > _MOST_REJECTIONS:
            await self._delivered()
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"more than {_MOST_REJECTIONS} events of this stream were refused: {reason}",
            )

    async def finish(self) -> PublishStreamResponse:
        """The answer, when the broker has everything."""
        await self._delivered()
        return self._response

    async def _delivered(self) -> None:
        await asyncio.gather(*self._in_flight)
        self._in_flight.clear()
