"""Health by the protocol of gRPC: grpc.health.v1, which probes and load balancers ask."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from coplace_client.errors import RejectedError
from coplace_client.health import Readiness
from shared.process.grpc_calls import refuses, refuses_streaming
from shared.process.grpc_errors import RefusalReason, RefusedCallError

NAME: Final = str(health.SERVICE_NAME)
# So many may watch at once; each load balancer does, and clients that look after their connection.
MOST_WATCHERS: Final = 256
_METHODS: Final = f"/{NAME}/"
# So soon somebody that watches sees a change.
_LOOKS_EVERY_S: Final = 0.2


class Health:
    """Answers by the readiness of the process at this moment; a service that others of the region
    serve meanwhile is not served either."""

    def __init__(self, readiness: Readiness, service: str, is_on_duty: Callable[[], bool]) -> None:
        self._readiness = readiness
        self._service = service
        self._is_on_duty = is_on_duty
        self._ended = asyncio.Event()
        self._watchers = 0

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return both RPCs on raw bytes, so that a message that is not protobuf is refused with its
        field."""
        written = HealthCheckResponse.SerializeToString
        return grpc.method_handlers_generic_handler(
            NAME,
            {
                "Check": grpc.unary_unary_rpc_method_handler(
                    refuses(self._check), response_serializer=written
                ),
                "Watch": grpc.unary_stream_rpc_method_handler(
                    refuses_streaming(self._watch), response_serializer=written
                ),
            },
        )

    def end(self) -> None:
        """End what is watched: the server stops."""
        self._ended.set()

    async def _check(self, data: bytes, _context: Any) -> HealthCheckResponse:
        service = _service_of(data)
        status = self._status(service)
        if status == HealthCheckResponse.SERVICE_UNKNOWN:
            details = f"{service[:80]!r} is not served here: ask for '' or {self._service!r}"
            raise RefusedCallError(
                grpc.StatusCode.NOT_FOUND, details, RefusalReason.SERVICE_UNKNOWN
            )
        return HealthCheckResponse(status=status)

    async def _watch(self, data: bytes, _context: Any) -> AsyncIterator[HealthCheckResponse]:
        if self._watchers >= MOST_WATCHERS:
            details = f"{self._watchers} watch the health of this server: try again, or use Check"
            code = grpc.StatusCode.RESOURCE_EXHAUSTED
            raise RefusedCallError(code, details, RefusalReason.SERVER_BUSY)
        self._watchers += 1
        try:
            async for status in self._changes(_service_of(data)):
                yield HealthCheckResponse(status=status)
        finally:
            self._watchers -= 1

    async def _changes(
        self, service: str
    ) -> AsyncIterator[HealthCheckResponse.ServingStatus.ValueType]:
        last = None
        while True:
            is_over = self._ended.is_set()
            status = self._status(service)
            if status != last:
                yield status
            if is_over:
                return
            last = status
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOKS_EVERY_S):
                    await self._ended.wait()

    def _status(self, service: str) -> HealthCheckResponse.ServingStatus.ValueType:
        if service not in ("", self._service):
            return HealthCheckResponse.SERVICE_UNKNOWN
        is_served = not self._readiness.waiting_for and (not service or self._is_on_duty())
        return HealthCheckResponse.SERVING if is_served else HealthCheckResponse.NOT_SERVING


def is_of_health(details: grpc.HandlerCallDetails) -> bool:
    """Return whether a call asks for health, which is answered to whoever a port lets in."""
    return str(details.method).startswith(_METHODS)


def _service_of(data: bytes) -> str:
    try:
        return str(HealthCheckRequest.FromString(data).service)
    except DecodeError:
        problem = "must be a HealthCheckRequest with UTF-8 strings"
        raise RefusedCallError.invalid(RejectedError("request", problem)) from None
