"""Says on each API server what is in the queue there: the kind `JobQueue` of `coplace.io/v1`."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import structlog

from services.kubernetes.model.queues import QueueCounts, queue_body
from shared.kubernetes.api import ApiError, ApiMissingError

_EVERY_S: Final = 10.0

log = structlog.get_logger(__name__)


class QueueApi(Protocol):
    """What of an API server is needed; `JobServer` has it."""

    async def create_queue(self, body: Mapping[str, Any]) -> Mapping[str, Any]: ...
    async def patch_queue(self, name: str, status: Mapping[str, Any]) -> Mapping[str, Any]: ...


class QueueReporter:
    """Of one queue in all clusters. Nothing is decided by what it says: a failure is logged."""

    def __init__(
        self,
        apis: Mapping[str, QueueApi],
        site: str,
        queue: str,
        counts: Callable[[], Mapping[str, QueueCounts]],
    ) -> None:
        self._apis, self._site, self._queue, self._counts = apis, site, queue, counts
        self._said: dict[str, Mapping[str, Any]] = {}
        self._failed: dict[str, str] = {}

    async def run(self) -> None:
        """Say what changes, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        """Say what has changed."""
        counts = self._counts()
        for cluster in self._changed(counts):
            found = counts.get(cluster, QueueCounts()).to_status()
            try:
                await self._say(cluster, found)
            except ApiError as error:
                if self._failed.get(cluster) != str(error):
                    log.warning("queue not shown", cluster=cluster, problem=str(error))
                self._failed[cluster] = str(error)
            else:
                self._said[cluster] = found
                self._failed.pop(cluster, None)

    def _changed(self, counts: Mapping[str, QueueCounts]) -> Iterable[str]:
        return [
            each
            for each in self._apis
            if self._said.get(each) != counts.get(each, QueueCounts()).to_status()
        ]

    async def _say(self, cluster: str, status: Mapping[str, Any]) -> None:
        api = self._apis[cluster]
        try:
            await api.patch_queue(self._queue, status)
        except ApiMissingError:
            await api.create_queue(queue_body(self._queue, self._site, cluster))
            await api.patch_queue(self._queue, status)
