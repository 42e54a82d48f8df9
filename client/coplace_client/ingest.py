"""Hands facts to ingest.

A fact may be sent again at any time: ingest and all behind it know it by its id. A caller that
waits for one answer calls `publish` or `publish_all`, which try once; processes have an
`IngestClient`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self

import grpc
from coplace.v1.ingest_service_pb2 import (
    Envelope,
    PublishRequest,
    PublishStreamRequest,
    PublishStreamResponse,
)
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub

from coplace_client.calls import REFUSED, UnansweredError, calling, status_of
from coplace_client.channels import GrpcSettings, grpc_aio_channel
from coplace_client.errors import UnusableError

_ANSWERED_WITHIN_S: Final = 60.0
_BATCH: Final = 256

log = logging.getLogger(__name__)
_Waiting = tuple[Envelope, asyncio.Future[None]]


class FactRefusedError(UnusableError):
    """Ingest will never take this fact; it says why. `status` is that of an UnansweredError, empty
    for a fact of many that were sent at once."""

    def __init__(self, why: str, status: bytes = b"") -> None:
        super().__init__(why)
        self.status = status


def publish(address: str, settings: GrpcSettings, event: Envelope) -> None:
    """Hand over an event. Raises UnansweredError, where it is refused too."""
    with calling(address, settings) as channel:
        stub = IngestServiceStub(channel)
        stub.Publish(PublishRequest(event=event), timeout=_ANSWERED_WITHIN_S)


def publish_all(
    address: str, settings: GrpcSettings, events: Sequence[Envelope]
) -> Mapping[int, str]:
    """Hand over events in order: why some were refused, by their position. Raises UnansweredError:
    then none of them counts as published."""
    with calling(address, settings) as channel:
        stub = IngestServiceStub(channel)
        answer = stub.PublishStream(_requests(events), timeout=_ANSWERED_WITHIN_S)
    return _refusals(answer)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call may take, s; what is tried again, and after which pauses, s, which double."""

    call_s: float = _ANSWERED_WITHIN_S
    tried_again: frozenset[grpc.StatusCode] = frozenset(grpc.StatusCode) - REFUSED
    pause_s: float = 0.5
    most_pause_s: float = 15.0

    def pauses_s(self) -> Iterator[float]:
        """Yield the pauses one after another, without end."""
        pause_s = self.pause_s
        while True:
            yield pause_s
            pause_s = min(2 * pause_s, self.most_pause_s)


class IngestClient:
    """Speaks over one channel; behind a failure by the next, since the certificate that it shows
    may have been renewed. A context manager."""

    def __init__(self, address: str, settings: GrpcSettings, patience: Patience) -> None:
        self._address, self._settings, self._patience = address, settings, patience
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._hang_up()

    async def publish(self, event: Envelope) -> None:
        """Hand over an event; it is tried once. Raises FactRefusedError and UnansweredError."""
        request, within_s = PublishRequest(event=event), self._patience.call_s
        await self._answer(lambda stub: stub.Publish(request, timeout=within_s))

    async def publish_all(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        """Hand over events in order, again until it is answered: why some were refused, by their
        position. Raises UnansweredError for a failure that is not tried again."""
        pauses_s = self._patience.pauses_s()
        while True:
            try:
                return await self._publish_all(events)
            except UnansweredError as error:
                if error.code not in self._patience.tried_again:
                    raise
                log.warning("ingest does not answer", extra={"code": error.code.name})
            await asyncio.sleep(next(pauses_s))

    async def _publish_all(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        within_s = self._patience.call_s
        try:
            answer = await self._answer(
                lambda stub: stub.PublishStream(_requests(events), timeout=within_s)
            )
        except FactRefusedError as error:
            # A call is refused as a whole where one of its facts is at fault.
            return {0: str(error)} if len(events) == 1 else await self._one_by_one(events)
        is_listed = answer.rejected <= len(answer.rejections)
        return _refusals(answer) if is_listed else await self._one_by_one(events)

    async def _one_by_one(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        refused = [await self.publish_all([event]) for event in events]
        return {number: found[0] for number, found in enumerate(refused) if found}

    async def _answer(self, call: Callable[[Any], Awaitable[Any]]) -> Any:
        channel = self._channel = self._channel or grpc_aio_channel(self._address, self._settings)
        try:
            return await call(IngestServiceStub(channel))
        except grpc.aio.AioRpcError as error:
            if error.code() in REFUSED:
                raise FactRefusedError(str(error.details()), status_of(error)) from error
            if self._channel is channel:
                await self._hang_up()
            raise UnansweredError(self._address, error) from error

    async def _hang_up(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()


class FactSender:
    """Sends the facts of many callers in the order in which they come, many at a time; each caller
    waits until its own is acknowledged or refused."""

    def __init__(self, client: IngestClient) -> None:
        self._client = client
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()

    async def tell(self, event: Envelope) -> None:
        """Return when ingest has it. Raises FactRefusedError."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._queue.put((event, told))
        await told

    async def run(self) -> None:
        """Send what comes, until cancelled."""
        async with self._client as client:
            while True:
                batch = await self._next_batch()
                _resolve(batch, await client.publish_all([event for event, _ in batch]))

    async def _next_batch(self) -> Sequence[_Waiting]:
        batch = [await self._queue.get()]
        while len(batch) < _BATCH and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch


def _resolve(batch: Sequence[_Waiting], refused: Mapping[int, str]) -> None:
    for number, (event, told) in enumerate(batch):
        with suppress(asyncio.InvalidStateError):  # who waited was cancelled
            if number in refused:
                told.set_exception(FactRefusedError(f"{event.id}: {refused[number]}"))
            else:
                told.set_result(None)


def _requests(events: Sequence[Envelope]) -> Iterator[PublishStreamRequest]:
    return (PublishStreamRequest(event=event) for event in events)


def _refusals(answer: PublishStreamResponse) -> Mapping[int, str]:
    return {rejection.index: rejection.reason for rejection in answer.rejections}
