"""Hands facts to ingest, many at a time; each caller waits until its own is acknowledged."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Final

import grpc
import structlog
from coplace.v1.ingest_service_pb2 import Envelope, PublishStreamRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub

from shared.domain.errors import UnusableError
from shared.runtime.grpc_security import grpc_channel_credentials
from shared.runtime.settings import Settings

_CALL_S: Final = 30.0
_RETRY_S: Final = 0.5
_MOST_RETRY_S: Final = 15.0
_BATCH: Final = 256
# What no second try changes.
_REFUSED: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED})

log = structlog.get_logger(__name__)
_Waiting = tuple[Envelope, asyncio.Future[None]]


class FactRefusedError(UnusableError):
    """Ingest will never take this fact; it says why."""


class FactSender:
    """Sends facts in the order in which they come, until each is acknowledged or refused."""

    def __init__(self, address: str, settings: Settings) -> None:
        self._address, self._settings = address, settings
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()

    async def tell(self, event: Envelope) -> None:
        """Return when ingest has it. Raises FactRefusedError."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._queue.put((event, told))
        await told

    async def run(self) -> None:
        """Send what comes, until cancelled."""
        wait_s, batch = _RETRY_S, list[_Waiting]()
        while True:
            async with channel_to(self._address, self._settings) as channel:
                stub = IngestServiceStub(channel)
                batch = batch or await self._next_batch()
                while await self._sent(stub, batch):
                    wait_s, batch = _RETRY_S, await self._next_batch()
            # By the next channel, whose certificate may have been renewed.
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _MOST_RETRY_S)

    async def _next_batch(self) -> list[_Waiting]:
        batch = [await self._queue.get()]
        while len(batch) < _BATCH and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch

    async def _sent(self, stub: Any, batch: Sequence[_Waiting]) -> bool:
        """Whether each is acknowledged or refused; else all are to be sent again."""
        try:
            answer = await stub.PublishStream(_requests(batch), timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            if error.code() in _REFUSED:
                return await self._refused(stub, batch, str(error.details()))
            log.warning("ingest does not answer", code=error.code().name)
            return False
        _answer(batch, {each.index: each.reason for each in answer.rejections})
        return True

    async def _refused(self, stub: Any, batch: Sequence[_Waiting], why: str) -> bool:
        """A call was refused as a whole: one of its facts is at fault."""
        if len(batch) == 1:
            _answer(batch, {0: why})
            return True
        return all([await self._sent(stub, [each]) for each in batch])


def channel_to(address: str, settings: Settings) -> grpc.aio.Channel:
    """A channel that shows this process's certificate as it is now, where it has one."""
    credentials = grpc_channel_credentials(settings)
    if credentials is None:
        return grpc.aio.insecure_channel(address)
    return grpc.aio.secure_channel(address, credentials)


async def _requests(batch: Sequence[_Waiting]) -> AsyncIterator[PublishStreamRequest]:
    for event, _ in batch:
        yield PublishStreamRequest(event=event)


def _answer(batch: Sequence[_Waiting], refused: dict[int, str]) -> None:
    for number, (event, told) in enumerate(batch):
        with suppress(asyncio.InvalidStateError):  # who waited was cancelled
            if number in refused:
                told.set_exception(FactRefusedError(f"{event.id}: {refused[number]}"))
            else:
                told.set_result(None)
