"""Renews the Lease by which the process beside this one knows that Coplace is there."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from coplace_client.facts import SILENT_AFTER_S
from shared.kubernetes.api import ApiError, ApiServer
from shared.kubernetes.leases import LeaseName, renew

RENEWS_EVERY_S: Final = 10.0

log = structlog.get_logger(__name__)


class GoingRegion(Protocol):
    """Who says that placement goes on."""

    async def round_us(self) -> int: ...


class Beating(Protocol):
    """Who publishes signs of life."""

    @property
    def taken_ago_s(self) -> float: ...


class CoplaceLease:
    """Coplace is there where ingest takes what this process publishes, and placement goes on."""

    def __init__(
        self,
        api: ApiServer,
        lease: LeaseName,
        holder: str,
        region: GoingRegion,
        heartbeats: Sequence[Beating],
    ) -> None:
        self._api, self._lease, self._holder = api, lease, holder
        self._region, self._heartbeats = region, heartbeats
        self._round_us = 0

    async def look(self) -> bool:
        """Renew the Lease where Coplace is there; return whether it is. Raises ApiError."""
        before_us, self._round_us = self._round_us, await self._region.round_us()
        # What placement says first may be from before it stopped.
        goes_on = 0 < before_us < self._round_us
        is_taken = any(each.taken_ago_s < SILENT_AFTER_S for each in self._heartbeats)
        if goes_on and is_taken:
            await renew(self._api, self._lease, self._holder, round(3 * RENEWS_EVERY_S))
        return goes_on and is_taken

    async def run(self) -> None:
        """Look, until cancelled."""
        while True:
            try:
                await self.look()
            except ApiError as error:
                log.warning("lease not renewed", problem=str(error))
            await asyncio.sleep(RENEWS_EVERY_S)
