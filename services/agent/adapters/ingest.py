"""Hands what is spooled to ingest."""

import asyncio
from contextlib import suppress
from typing import Final

import grpc
import structlog
from coplace.v1.ingest_service_pb2 import Envelope, PublishRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub

from services.agent.adapters.spool import Spool
from shared.runtime.grpc_security import grpc_channel_credentials
from shared.runtime.settings import Settings

_CALL_S: Final = 20.0
_LOOK_S: Final = 0.5
_MOST_WAIT_S: Final = 30.0
# What no second try changes.
_REFUSED: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED})

log = structlog.get_logger(__name__)


class Sender:
    """Sends the events of a spool in their order, each until it is acknowledged or refused."""

    def __init__(self, spool: Spool, address: str, settings: Settings) -> None:
        self._spool = spool
        self._address = address
        self._settings = settings
        self.refused = 0
        """How many were."""

    async def run(self, stop: asyncio.Event) -> None:
        """Send what is there and what comes until `stop` is set."""
        wait_s = _LOOK_S
        while not stop.is_set():
            async with self._channel() as channel:
                while not stop.is_set() and await self._send_all(channel):
                    wait_s = _LOOK_S
                    await _pause(stop, wait_s)
            # By the next channel, whose certificate may have been renewed.
            wait_s = min(2 * wait_s, _MOST_WAIT_S)
            await _pause(stop, wait_s)

    async def flush(self) -> bool:
        """Send what there is; False where ingest does not answer: it stays in the spool."""
        async with self._channel() as channel:
            return await self._send_all(channel)

    def _channel(self) -> grpc.aio.Channel:
        credentials = grpc_channel_credentials(self._settings)
        if credentials is None:
            return grpc.aio.insecure_channel(self._address)
        return grpc.aio.secure_channel(self._address, credentials)

    async def _send_all(self, channel: grpc.aio.Channel) -> bool:
        stub = IngestServiceStub(channel)
        for path, event in self._spool.waiting():
            try:
                await stub.Publish(PublishRequest(event=event), timeout=_CALL_S)
            except grpc.aio.AioRpcError as error:
                if error.code() not in _REFUSED:
                    log.info("ingest does not answer", code=error.code().name)
                    return False
                self._refuse(event, error.details())
                self._spool.refused(path)
            else:
                self._spool.acknowledged(path)
        return True

    def _refuse(self, event: Envelope, reason: str | None) -> None:
        self.refused += 1
        log.error("ingest refused an event", id=event.id, reason=reason)


async def _pause(stop: asyncio.Event, pause_s: float) -> None:
    """Wait for so long, or until `stop` is set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), pause_s)
