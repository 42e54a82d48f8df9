"""Events of Kubernetes, by which users read what becomes of an object."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import structlog

from shared.kubernetes.api import ApiError

_MOST_NAME: Final = 50
_MOST_MESSAGE: Final = 1024
_MOST_WAITING: Final = 10_000
_AT_ONCE: Final = 2

log = structlog.get_logger(__name__)


def user_event(
    about: Mapping[str, str], reason: str, message: str, at: str, *, is_warning: bool
) -> Mapping[str, Any]:
    """Return an event about an object (`apiVersion`, `kind`, `name`, `namespace`, `uid`) as
    Kubernetes wants it; `at` is the time as ISO 8601 writes it."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "generateName": f"{about['name'][:_MOST_NAME]}.",
            "namespace": about["namespace"],
        },
        "involvedObject": dict(about),
        "reason": reason,
        "message": message[:_MOST_MESSAGE],
        "type": "Warning" if is_warning else "Normal",
        "source": {"component": "coplace"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


class EventApi(Protocol):
    """What of an API server is needed."""

    async def tell(self, namespace: str, event: Mapping[str, Any]) -> None: ...


class _Addressed(NamedTuple):
    namespace: str
    event: Mapping[str, Any]


class UserEvents:
    """Events on their way, beside the work that they are about: nobody waits for them. One that its
    API server does not take is lost, and so is one behind thousands of others."""

    def __init__(self, apis: Mapping[str, EventApi]) -> None:
        self._apis = apis
        self._waiting = {name: asyncio.Queue[_Addressed](_MOST_WAITING) for name in apis}

    def add(self, cluster: str, event: Mapping[str, Any]) -> None:
        """Have an event created some time soon."""
        try:
            addressed = _Addressed(event["metadata"]["namespace"], event)
            self._waiting[cluster].put_nowait(addressed)
        except asyncio.QueueFull:
            self._lost(cluster, event, "too many wait")

    async def run(self) -> None:
        """Create what comes, until cancelled. A slow API server holds up its own alone."""
        async with asyncio.TaskGroup() as tasks:
            for cluster in self._apis:
                for _ in range(_AT_ONCE):
                    tasks.create_task(self._run(cluster))

    async def work_off(self) -> None:
        """Create what waits."""
        for cluster, waiting in self._waiting.items():
            while not waiting.empty():
                await self._create(cluster, waiting.get_nowait())

    async def _run(self, cluster: str) -> None:
        while True:
            await self._create(cluster, await self._waiting[cluster].get())

    async def _create(self, cluster: str, addressed: _Addressed) -> None:
        try:
            await self._apis[cluster].tell(*addressed)
        except ApiError as error:
            self._lost(cluster, addressed.event, str(error))

    def _lost(self, cluster: str, event: Mapping[str, Any], problem: str) -> None:
        about = event["involvedObject"]
        name = f"{cluster}/{about['namespace']}/{about['name']}"
        log.info("event not taken", about=name, problem=problem)
