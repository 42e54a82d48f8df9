"""What clients may take of a server: how many calls at once, all and each, and how long a call."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import grpc

from shared.process.grpc_calls import behind
from shared.process.grpc_errors import RefusalReason, RefusedCallError
from shared.process.grpc_health import is_of_health

# A call that names no deadline is answered within this, s.
LONGEST_CALL_S: Final = 60.0


class CallLimits(grpc.aio.ServerInterceptor):
    """Counts the calls of all clients and of each, and ends those that last too long.

    A client is an identity, and where there is none the address that the calls come from. Health is
    not counted: it is asked for above all when there are too many calls.
    """

    def __init__(self, most: int | None, most_of_one: int, identity: Callable[[Any], str]) -> None:
        self.most = most
        self.most_of_one = most_of_one
        self.all_open = 0
        self.open: dict[str, int] = {}
        self._identity = identity

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        details: grpc.HandlerCallDetails,
    ) -> Any:
        """Return the handler of a call within the limits."""
        handler = await continuation(details)
        if handler is None or is_of_health(details):
            return handler
        is_unary = not (handler.request_streaming or handler.response_streaming)
        return behind(handler, self._unary if is_unary else self._counted)

    def _unary(self, context: Any) -> AbstractAsyncContextManager[object]:
        counted = self._counted(context)
        return counted if context.time_remaining() is not None else _ends_in_time(counted)

    def _counted(self, context: Any) -> "_OpenCall":
        return _OpenCall(self, self._identity(context) or _address(context))


class _OpenCall:
    """Counts a call of a client while it is open. A class, since each call goes through it."""

    __slots__ = ("_client", "_limits")

    def __init__(self, limits: CallLimits, client: str) -> None:
        self._limits, self._client = limits, client

    async def __aenter__(self) -> None:
        limits, number = self._limits, self._limits.open.get(self._client, 0)
        if number >= limits.most_of_one:
            details = (
                f"{number} calls of {self._client} are open: end some, or try again "
                "(COPLACE_GRPC_CALLS_PER_CLIENT)"
            )
            code = grpc.StatusCode.RESOURCE_EXHAUSTED
            raise RefusedCallError(code, details, RefusalReason.TOO_MANY_CALLS)
        if limits.most is not None and limits.all_open >= limits.most:
            details = f"{limits.all_open} calls are open, of all clients: try again"
            code = grpc.StatusCode.RESOURCE_EXHAUSTED
            raise RefusedCallError(code, details, RefusalReason.SERVER_BUSY)
        limits.all_open += 1
        limits.open[self._client] = number + 1

    async def __aexit__(self, *_error: object) -> None:
        limits, number = self._limits, self._limits.open.pop(self._client)
        limits.all_open -= 1
        if number > 1:
            limits.open[self._client] = number - 1


@asynccontextmanager
async def _ends_in_time(counted: _OpenCall) -> AsyncIterator[None]:
    limit_s = LONGEST_CALL_S
    try:
        async with counted, asyncio.timeout(limit_s) as timeout:
            yield
    except TimeoutError:
        if not timeout.expired():
            raise
        details = f"no answer within {limit_s:g} s: a call that takes longer needs a deadline"
        code = grpc.StatusCode.DEADLINE_EXCEEDED
        raise RefusedCallError(code, details, RefusalReason.LONGEST_CALL) from None


def _address(context: Any) -> str:
    """Return where a call comes from, without the port: one client has many connections."""
    return str(context.peer()).rpartition(":")[0]
