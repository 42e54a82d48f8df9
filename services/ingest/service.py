"""The gRPC service: validates, publishes, and answers after the broker has it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import grpc
from coplace.v1.control_pb2 import CommandOutcome
from coplace.v1.ingest_service_pb2 import (
    Envelope,
    PublishRequest,
    PublishResponse,
    PublishStreamRequest,
    PublishStreamResponse,
    Rejection,
    ShowAuthorityResponse,
    ShowIssuerResponse,
    ShowOutcomeRequest,
    ShowOutcomeResponse,
)
from google.protobuf.message import DecodeError
from grpc.aio import ServicerContext

from coplace_client.errors import RejectedError
from services.ingest.gate import Gate, NotAllowedError, NotYetKnownError
from services.ingest.judge import DECLARE
from services.ingest.meter import IngestMeter
from services.ingest.model import Intake, check_source, parse_envelope, speaks_for
from shared.authority.callers import caller, callers
from shared.authority.rules import About
from shared.catalogue.event import Publish
from shared.process.clock import now_us
from shared.process.grpc_calls import ends_process, receive
from shared.process.grpc_errors import RefusalReason, RefusedCallError
from shared.process.grpc_limits import LONGEST_CALL_S

NAME: Final = "coplace.v1.IngestService"
# Bounds what one stream holds in memory.
_MOST_IN_FLIGHT: Final = 2_000
_MOST_REJECTIONS: Final = 1_000
# What an answer lists of them; clients take 4 MiB at most unless they say otherwise.
_MOST_LISTED_BYTES: Final = 262_144
_MOST_LISTED_TEXT: Final = 1_024
# What is checked beside the loop, so that other calls go on meanwhile.
_LARGE_BYTES: Final = 65_536
# So long a call waits for an outcome at most, s; without a deadline it has to be answered by then.
_MOST_WAIT_S: Final = LONGEST_CALL_S
_TO_ANSWER_S: Final = 1.0

# Where a request has what it publishes.
_EVENT: Final = "event"

_Request = type[PublishRequest | PublishStreamRequest]


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How many streams may be open at once, and how long nothing may come on one."""

    most: int = 64
    idle_s: float = 60.0


class EventSink(Protocol):
    """Where accepted events go."""

    async def send(self, publish: Publish) -> Awaitable[object]:
        """Hand an event over; what is returned is done when the broker has it."""
        ...


class OutcomeSource(Protocol):
    """Knows what came of commands."""

    async def of(self, command_id: str, within_s: float) -> CommandOutcome | None:
        """Return what came of a command, None where nothing is known in time."""
        ...


@dataclass(frozen=True, slots=True)
class _Admitted:
    """An event to publish, and the records of the audit that are on their way."""

    publish: Publish
    recorded: Sequence[Awaitable[object]] = ()


class IngestService:
    """All RPCs. `crash` ends the process for an exception that is no fault of a caller; without a
    `gate` whatever is valid comes in, and without `outcomes` it does not say what came of it."""

    def __init__(
        self,
        intake: Intake,
        publisher: EventSink,
        meter: IngestMeter,
        crash: Callable[[Exception], object],
        streams: StreamLimits | None = None,
        gate: Gate | None = None,
        outcomes: OutcomeSource | None = None,
    ) -> None:
        self._gate = gate
        self._outcomes = outcomes
        self._limits = streams or StreamLimits()
        self._open_streams = 0
        self._intake = intake
        self._publisher = publisher
        self._meter = meter
        self._crash = crash

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the RPCs on raw bytes, so that a message that is not protobuf is refused with its
        field."""
        told: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "ShowOutcome": grpc.unary_unary_rpc_method_handler(
                ends_process(self.show_outcome, self._crash),
                response_serializer=ShowOutcomeResponse.SerializeToString,
            )
        }
        return grpc.method_handlers_generic_handler(
            NAME,
            {
                **(told if self._outcomes is not None else {}),
                "ShowIssuer": grpc.unary_unary_rpc_method_handler(
                    ends_process(self.show_issuer, self._crash),
                    response_serializer=ShowIssuerResponse.SerializeToString,
                ),
                "ShowAuthority": grpc.unary_unary_rpc_method_handler(
                    ends_process(self.show_authority, self._crash),
                    response_serializer=ShowAuthorityResponse.SerializeToString,
                ),
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
        """Publish one event; the answer comes once Kafka has it."""
        try:
            admitted = await self._accepted(PublishRequest, data, context)
        except RejectedEnvelopeError as error:
            self._meter.rejected()
            raise error.refusal(error.reason) from None
        await asyncio.gather(*admitted.recorded, await self._publisher.send(admitted.publish))
        await self._confirm(admitted.publish)
        self._meter.published(admitted.publish)
        return PublishResponse()

    async def show_outcome(
        self, data: bytes, context: ServicerContext[Any, Any]
    ) -> ShowOutcomeResponse:
        """Say what came of a command of the caller's."""
        assert self._outcomes is not None
        try:
            asked = ShowOutcomeRequest.FromString(data)
        except DecodeError:
            problem = "must be a protobuf message with UTF-8 strings"
            raise RefusedCallError.invalid(RejectedError("request", problem), problem) from None
        if not 0 <= asked.within_s <= _MOST_WAIT_S:
            problem = f"must be 0 to {_MOST_WAIT_S:g}, got {asked.within_s}"
            raise RefusedCallError.invalid(RejectedError("within_s", problem))
        within_s = min(asked.within_s, _MOST_WAIT_S - _TO_ANSWER_S)
        found = await self._outcomes.of(asked.event_id, within_s)
        try:
            speakers = callers(context)
        except RejectedError as error:
            code, reason = grpc.StatusCode.UNAUTHENTICATED, RefusalReason.CALLER_UNKNOWN
            raise RefusedCallError(code, str(error), reason) from None
        if found is None or not all(
            speaks_for(speaker, found.command_source) for speaker in speakers
        ):
            return ShowOutcomeResponse()
        return ShowOutcomeResponse(outcome=found)

    async def show_issuer(
        self, _data: bytes, _context: ServicerContext[Any, Any]
    ) -> ShowIssuerResponse:
        """Say at whom callers sign in, to whoever asks."""
        issuer = self._gate.door.table.issuer if self._gate else None
        return ShowIssuerResponse(issuer=issuer.message if issuer else None)

    async def show_authority(
        self, _data: bytes, context: ServicerContext[Any, Any]
    ) -> ShowAuthorityResponse:
        """Say who may do what, to who may change it."""
        if self._gate is None:
            return ShowAuthorityResponse()
        door = self._gate.door
        verdict = await door.answer(context, "ShowAuthority", About(is_region=True))
        if not verdict.is_allowed:
            code = grpc.StatusCode.PERMISSION_DENIED
            raise RefusedCallError(code, verdict.reason, RefusalReason.NOT_ALLOWED)
        return door.table.answer()

    async def _confirm(self, publish: Publish) -> None:
        if self._gate is not None:
            try:
                await self._gate.confirm(publish)
            except RejectedError as error:
                code = grpc.StatusCode.ABORTED
                raise RefusedCallError(code, str(error), RefusalReason.DECLARED_MEANWHILE) from None

    async def publish_stream(
        self, requests: AsyncIterator[bytes], context: ServicerContext[Any, Any]
    ) -> PublishStreamResponse:
        """Publish many events: those refused are listed, everything else is published in order."""
        if self._open_streams >= self._limits.most:
            details = f"{self._open_streams} streams are open: try again, or publish one by one"
            code = grpc.StatusCode.UNAVAILABLE
            raise RefusedCallError(code, details, RefusalReason.TOO_MANY_STREAMS)
        self._open_streams += 1
        try:
            return await self._publish_all(requests, context)
        finally:
            self._open_streams -= 1

    async def _publish_all(
        self, requests: AsyncIterator[bytes], context: ServicerContext[Any, Any]
    ) -> PublishStreamResponse:
        stream = _Stream(self._publisher)
        try:
            async for data in receive(requests, self._limits.idle_s):
                await self._publish_one(stream, data, context)
        finally:
            await stream.delivered()
        return stream.response

    async def _publish_one(
        self, stream: "_Stream", data: bytes, context: ServicerContext[Any, Any]
    ) -> None:
        try:
            admitted = await self._accepted(PublishStreamRequest, data, context)
        except RejectedEnvelopeError as error:
            self._meter.rejected()
            stream.refuse(error)
        else:
            self._meter.published(admitted.publish)
            await stream.send(admitted)

    async def _accepted(
        self, request: _Request, data: bytes, context: ServicerContext[Any, Any]
    ) -> _Admitted:
        """The event to publish. Raises RejectedEnvelopeError for bad input, and for what the
        caller may not say."""
        try:
            envelope = parse_envelope(request, data)
        except RejectedError as error:
            raise RejectedEnvelopeError("", error) from None
        await self._require_source(envelope, context)
        # A short host list may name all nodes that there are.
        if len(data) > _LARGE_BYTES or envelope.HasField("cluster_declared"):
            publish = await asyncio.to_thread(self._accept, envelope)
        else:
            publish = self._accept(envelope)
        if self._gate is None:
            return _Admitted(publish)
        if request is PublishStreamRequest and envelope.HasField(DECLARE):
            raise RejectedEnvelopeError(envelope.id, RejectedError(DECLARE, "publish it alone"))
        return await self._admit(self._gate, envelope, publish, context)

    def _accept(self, envelope: Envelope) -> Publish:
        try:
            return self._intake.accept(envelope, now_us() / 1e6)
        except RejectedError as error:
            raise RejectedEnvelopeError(envelope.id, error) from None

    async def _require_source(self, envelope: Envelope, context: ServicerContext[Any, Any]) -> None:
        """Nobody speaks for somebody else."""
        try:
            for speaker in callers(context):
                check_source(envelope, speaker)
        except RejectedError as error:
            if self._gate is not None:
                action = envelope.WhichOneof("payload") or "nothing"
                await self._gate.refuse(caller(context), action, envelope.id, str(error))
            reason = RefusalReason.SOURCE_OF_ANOTHER
            raise RejectedEnvelopeError(envelope.id, error, reason) from None

    async def _admit(
        self,
        gate: Gate,
        envelope: Envelope,
        publish: Publish,
        context: ServicerContext[Any, Any],
    ) -> _Admitted:
        action, who = str(envelope.WhichOneof("payload")), caller(context)
        try:
            publish = await gate.as_said_by(who, action, publish)
            return _Admitted(publish, await gate.admit(who, action, publish))
        except NotAllowedError as error:
            raise RejectedEnvelopeError(envelope.id, error, RefusalReason.NOT_ALLOWED) from None
        except RejectedError as error:
            raise RejectedEnvelopeError(envelope.id, error) from None
        except NotYetKnownError as error:
            code = grpc.StatusCode.UNAVAILABLE
            raise RefusedCallError(code, str(error), RefusalReason.REGION_NOT_READ) from None


class RejectedEnvelopeError(Exception):
    """An event that was refused, by its id, and why; both short enough for an answer. One that is
    valid has a reason, for which the caller may not publish it."""

    def __init__(
        self, event_id: str, error: Exception, forbidden: RefusalReason | None = None
    ) -> None:
        super().__init__(str(error))
        self._error = error
        self._forbidden = forbidden
        self.event_id = event_id[:_MOST_LISTED_TEXT]
        self.reason = str(error)[:_MOST_LISTED_TEXT]

    def refusal(self, words: str) -> RefusedCallError:
        """Return the refusal of the call, with what a program needs beside these words."""
        error = self._error
        if self._forbidden is None and isinstance(error, RejectedError):
            is_whole = error.field == _EVENT
            return RefusedCallError.invalid(error if is_whole else error.inside(_EVENT), words)
        return RefusedCallError(grpc.StatusCode.PERMISSION_DENIED, words, self._forbidden)


class _Stream:
    """One call's progress: what is on its way to the broker, and what was refused."""

    def __init__(self, publisher: EventSink) -> None:
        self._publisher = publisher
        self._in_flight: list[Awaitable[object]] = []
        self._index = 0
        self._listed_bytes = 0
        self.response = PublishStreamResponse()

    async def send(self, admitted: _Admitted) -> None:
        """Hand an event over; waits when too many are on their way."""
        self._index += 1
        self.response.published += 1
        self._in_flight += admitted.recorded
        self._in_flight.append(await self._publisher.send(admitted.publish))
        if len(self._in_flight) >= _MOST_IN_FLIGHT:
            await self.delivered()

    def refuse(self, error: RejectedEnvelopeError) -> None:
        """Note a refusal, and list it where the answer has room. Raises RefusedCallError when this
        stream brings little else."""
        rejection = Rejection(index=self._index, id=error.event_id, reason=error.reason)
        self._index += 1
        self.response.rejected += 1
        self._listed_bytes += rejection.ByteSize()
        if self._listed_bytes <= _MOST_LISTED_BYTES:
            self.response.rejections.append(rejection)
        if self.response.rejected > _MOST_REJECTIONS:
            details = (
                f"more than {_MOST_REJECTIONS} events of this stream were refused: {error.reason}"
            )
            raise error.refusal(details)

    async def delivered(self) -> None:
        """Return when the broker has everything that was sent."""
        await asyncio.gather(*self._in_flight)
        self._in_flight.clear()
