"""Says of each cluster that its API server answers, and that this process acts on decisions."""

import asyncio
import time
from collections.abc import Callable
from math import inf
from typing import Protocol

import structlog

from coplace_client.errors import UnusableError
from coplace_client.facts import SAYS_EVERY_S, alive
from shared.kubernetes.facts import FactTaker

log = structlog.get_logger(__name__)


class AnsweringApi(Protocol):
    """What of an API server is needed; `ApiServer` has it."""

    async def answer(self) -> None: ...


class ClusterHeartbeat:
    """Of one cluster: without a word placement starts nothing new there."""

    def __init__(
        self,
        site: str,
        cluster: str,
        api: AnsweringApi,
        facts: FactTaker,
        now_us: Callable[[], int],
    ) -> None:
        self._source, self._name = f"{site}/{cluster}", f"Kubernetes {cluster} of {site}"
        self._cluster, self._api, self._facts, self._now_us = cluster, api, facts, now_us
        self._taken_s = -inf

    @property
    def taken_ago_s(self) -> float:
        """Return how long ago ingest took a sign of life; infinite where it never did."""
        return time.monotonic() - self._taken_s

    async def beat(self) -> None:
        """Say it once. Raises UnusableError where the API server does not answer, or ingest refuses
        it."""
        await self._api.answer()
        word = alive(self._source, self._name, [self._cluster], self._now_us())
        await self._facts.tell(word)
        self._taken_s = time.monotonic()

    async def run(self) -> None:
        """Say it every SAYS_EVERY_S, until cancelled."""
        while True:
            try:
                await self.beat()
            except UnusableError as error:
                log.warning("sign of life not sent", cluster=self._cluster, problem=str(error))
            await asyncio.sleep(SAYS_EVERY_S)
