"""Reflection: a client without our schemas lists what is served, and gets the schemas."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection
from grpc_reflection.v1alpha.reflection_pb2 import (
    ServerReflectionRequest,
    ServerReflectionResponse,
)

from coplace_client.errors import RejectedError
from shared.process.grpc_calls import receive, refuses_streaming
from shared.process.grpc_errors import RefusedCallError

NAME: Final = str(reflection.SERVICE_NAME)
_IDLE_S: Final = 60.0


def reflection_handlers(services: Sequence[str]) -> grpc.GenericRpcHandler:
    """Return the RPC that describes these services, on raw bytes, so that a message that is not
    protobuf is refused with its field."""
    library = reflection.aio.ReflectionServicer((*services, NAME))

    async def described(
        requests: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[ServerReflectionResponse]:
        async for answer in library.ServerReflectionInfo(_parsed(requests), context):
            yield answer

    return grpc.method_handlers_generic_handler(
        NAME,
        {
            "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(
                refuses_streaming(described),
                response_serializer=ServerReflectionResponse.SerializeToString,
            )
        },
    )


async def _parsed(requests: AsyncIterator[bytes]) -> AsyncIterator[ServerReflectionRequest]:
    async for data in receive(requests, _IDLE_S):
        try:
            request = ServerReflectionRequest.FromString(data)
        except DecodeError:
            problem = "must be a ServerReflectionRequest with UTF-8 strings"
            raise RefusedCallError.invalid(RejectedError("request", problem)) from None
        yield request
