"""Hands what is spooled to ingest."""

import asyncio
import logging
from typing import Final

from coplace_agent.adapters.spool import Spool
from coplace_client.calls import UnansweredError
from coplace_client.channels import GrpcSettings
from coplace_client.ingest import FactRefusedError, IngestClient, Patience
from coplace_client.life import pause

# One at a time and once each: the spool keeps what is not answered, and the end waits for no more.
_PATIENCE: Final = Patience(call_s=20.0, pause_s=1.0, most_pause_s=30.0)
_LOOK_S: Final = 0.5

log = logging.getLogger(__name__)


class Sender:
    """Sends the events of a spool in their order, each until it is acknowledged or refused."""

    def __init__(self, spool: Spool, address: str, settings: GrpcSettings) -> None:
        self._spool = spool
        self._address = address
        self._settings = settings
        self.refused = 0
        """How many were."""

    async def run(self, stop: asyncio.Event) -> None:
        """Send what is there and what comes until `stop` is set."""
        async with self._client() as client:
            pauses_s = _PATIENCE.pauses_s()
            while not stop.is_set():
                if await self._send_all(client):
                    pauses_s = _PATIENCE.pauses_s()
                    await pause(stop, _LOOK_S)
                else:
                    await pause(stop, next(pauses_s))

    async def flush(self) -> bool:
        """Send what there is; False where ingest does not answer: it stays in the spool."""
        async with self._client() as client:
            return await self._send_all(client)

    def _client(self) -> IngestClient:
        return IngestClient(self._address, self._settings, _PATIENCE)

    async def _send_all(self, client: IngestClient) -> bool:
        for path, event in self._spool.waiting():
            try:
                await client.publish(event)
            except FactRefusedError as error:
                self.refused += 1
                log.error("ingest refused an event", extra={"id": event.id, "reason": str(error)})
                self._spool.refused(path)
            except UnansweredError as error:
                log.info("ingest does not answer", extra={"code": error.code.name})
                return False
            else:
                self._spool.acknowledged(path)
        return True
