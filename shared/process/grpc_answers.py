"""Methods of a gRPC service that answer one message by one, read from raw bytes: a message that is
not protobuf is refused with a reason."""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from coplace_client.errors import RejectedError
from shared.process.grpc_calls import ends_process
from shared.process.grpc_errors import RefusedCallError

# What a method is asked, and what answers that. RejectedError is what is wrong with the question.
Answering = tuple[type[Message], Callable[[Any, Any], Awaitable[Message]]]
OnAnswered = Callable[[str, float], object]


def answering_methods(
    service: str,
    methods: Mapping[str, Answering],
    crash: Callable[[Exception], object],
    on_answered: OnAnswered = lambda _method, _seconds: None,
) -> grpc.GenericRpcHandler:
    """Return the methods of a service by their names. `crash` ends the process for what is no fault
    of a caller; `on_answered` hears of each method that answered, and of the seconds it took."""
    return grpc.method_handlers_generic_handler(
        service,
        {
            name: grpc.unary_unary_rpc_method_handler(
                ends_process(partial(_answer, name, method, on_answered), crash),
                response_serializer=_serialized,
            )
            for name, method in methods.items()
        },
    )


async def _answer(
    name: str, method: Answering, on_answered: OnAnswered, data: bytes, context: Any
) -> Message:
    request, answer = method
    began_s = time.monotonic()
    try:
        found = await answer(request.FromString(data), context)
    except DecodeError:
        problem = f"is not a valid {request.DESCRIPTOR.name}"
        raise RefusedCallError.invalid(RejectedError("request", problem), problem) from None
    except RejectedError as error:
        raise RefusedCallError.invalid(error) from None
    on_answered(name, time.monotonic() - began_s)
    return found


def _serialized(answer: Message) -> bytes:
    return answer.SerializeToString()
