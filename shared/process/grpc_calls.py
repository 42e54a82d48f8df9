"""Calls of a gRPC server: how handlers refuse, end and are put behind something."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from inspect import isasyncgenfunction
from typing import Any, TypeVar

import grpc
import structlog
from grpc.aio import AbortError

from shared.process.grpc_errors import RefusalReason, RefusedCallError, abort_arguments

_T = TypeVar("_T")
# What a call goes through before its handler: it may raise RefusedCallError.
Passage = Callable[[Any], AbstractAsyncContextManager[object]]
log = structlog.get_logger(__name__)


class EndedCallError(Exception):
    """The caller, or the connection to it, ended the call: nobody waits for an answer."""


def ends_process(
    work: Callable[[Any, Any], Awaitable[_T]], crash: Callable[[Exception], object]
) -> Callable[[Any, Any], Awaitable[_T]]:
    """Guard the handler of a call: whatever is no fault of the caller is passed to `crash`.

    Crash only: a send that failed, or a bug, must not be answered and forgotten. `work` never
    speaks to the caller itself: it reads by `received`, returns, or raises RefusedCallError. So
    what fails in talking to a caller that left is never taken for a failure of ours.
    """

    async def guarded(request: Any, context: Any) -> _T:
        try:
            return await work(request, context)
        except RefusedCallError:
            raise
        except EndedCallError:
            raise asyncio.CancelledError from None
        except Exception as error:
            crash(error)
            raise

    return refuses(guarded)


def refuses(work: Callable[[Any, Any], Awaitable[_T]]) -> Callable[[Any, Any], Awaitable[_T]]:
    """Guard the handler of a call: what it raises as RefusedCallError is what the caller gets."""

    async def guarded(request: Any, context: Any) -> _T:
        try:
            return await work(request, context)
        except RefusedCallError as error:
            refusal = error
        await _refuse(refusal, context)
        raise asyncio.CancelledError

    return guarded


def refuses_streaming(
    work: Callable[[Any, Any], AsyncIterator[_T]],
) -> Callable[[Any, Any], AsyncIterator[_T]]:
    """Guard a handler that yields its answers, as `refuses` does one that returns its answer."""

    async def guarded(request: Any, context: Any) -> AsyncIterator[_T]:
        try:
            async for answer in work(request, context):
                yield answer
            return
        except RefusedCallError as error:
            refusal = error
        except EndedCallError:
            raise asyncio.CancelledError from None
        await _refuse(refusal, context)

    return guarded


def behind(
    handler: "grpc.RpcMethodHandler[Any, Any]", passage: Passage
) -> "grpc.RpcMethodHandler[Any, Any]":
    """Return a handler, of whatever streams, whose calls go through a passage first and leave it
    when they end. One that streams answers yields or writes them."""
    kind = f"{'stream' if handler.request_streaming else 'unary'}_"
    kind += "stream" if handler.response_streaming else "unary"
    inner: Callable[[Any, Any], Any] = getattr(handler, kind)

    async def answer(request: Any, context: Any) -> Any:
        async with passage(context):
            return await inner(request, context)

    async def answers(request: Any, context: Any) -> AsyncIterator[Any]:
        async with passage(context):
            async for each in inner(request, context):
                yield each

    outer = refuses_streaming(answers) if isasyncgenfunction(inner) else refuses(answer)
    # A named tuple, which its types do not say.
    changed: grpc.RpcMethodHandler[Any, Any] = handler._replace(**{kind: outer})  # type: ignore[attr-defined]
    return changed


async def _refuse(refusal: RefusedCallError, context: Any) -> None:
    """Answer the caller; one that cancelled meanwhile gets none, and misses none."""
    try:
        await context.abort(*abort_arguments(refusal))
    except AbortError:
        raise
    except Exception as error:  # noqa: BLE001 nothing but the call itself can fail here
        log.info("the caller cancelled before it was refused", error=repr(error))


async def receive(requests: AsyncIterator[bytes], idle_s: float) -> AsyncIterator[bytes]:
    """Yield the messages of a stream. Raises RefusedCallError where none comes for so long, and
    EndedCallError where the stream breaks."""
    messages = aiter(requests)
    while True:
        try:
            async with asyncio.timeout(idle_s):
                message = await anext(messages)
        except StopAsyncIteration:
            return
        except TimeoutError:
            details = f"nothing came for {idle_s:g} s: what came before was taken; open a new one"
            code = grpc.StatusCode.DEADLINE_EXCEEDED
            raise RefusedCallError(code, details, RefusalReason.STREAM_IDLE) from None
        except Exception as error:
            raise EndedCallError(str(error)) from error
        yield message
