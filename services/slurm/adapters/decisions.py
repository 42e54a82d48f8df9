"""Follows decisions over gRPC; those of a job are obeyed in order, and jobs beside one another."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, Protocol

import grpc
import structlog
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.watch_service_pb2 import WatchDecisionsRequest

from coplace_client.calls import UnansweredError
from coplace_client.decisions import WatchedDecision, of_clusters
from services.slurm.adapters.cursor import CursorFile

# In hand at once: with so many that wait for Slurm, no more are taken.
_AT_ONCE: Final = 512
_KEEPS_EVERY_S: Final = 1.0
_REFUSED_RETRY_S: Final = 30.0
# The cursor is of other topics, or of decisions that are kept no more.
_LOST: Final = frozenset({grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.INVALID_ARGUMENT})

log = structlog.get_logger(__name__)
ObeyOne = Callable[[PlacementDecided], Awaitable[object]]


class WatchedDecisions(Protocol):
    """Decisions as they come, and the cursor behind them, which heartbeats move on."""

    @property
    def cursor(self) -> str: ...

    @property
    def is_silent(self) -> bool: ...

    def __aiter__(self) -> AsyncIterator[WatchedDecision]: ...


Watch = Callable[[WatchDecisionsRequest], WatchedDecisions]


class _ObeyedDecision(NamedTuple):
    """A decision that is being obeyed, and the cursor behind it."""

    cursor: str
    obeying: asyncio.Task[None]

    @property
    def is_over(self) -> bool:
        return self.obeying.done() and not self.obeying.cancelled()


class DecisionsInHand:
    """The cursor that is kept is the one before which all is obeyed, so that a process that was
    killed obeys some again."""

    def __init__(self, watch: Watch, site: str, clusters: Iterable[str], file: CursorFile) -> None:
        self._watch, self._site, self._clusters = watch, site, sorted(clusters)
        self._file = file
        self._watcher: WatchedDecisions | None = None
        self._in_hand: deque[_ObeyedDecision] = deque()
        self._of_job: dict[str, asyncio.Task[None]] = {}

    @property
    def waiting(self) -> int:
        """Return how many decisions have come and are not obeyed yet."""
        return sum(not each.obeying.done() for each in self._in_hand)

    @property
    def is_silent(self) -> bool:
        """Return whether decisions would not come now."""
        return self._watcher is None or self._watcher.is_silent

    async def run(self, obey: ObeyOne) -> None:
        """Let decisions be obeyed, those made and those to come, until cancelled."""
        cursor = self._file.read()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_on())
                while True:
                    cursor = await self._followed(tasks, obey, cursor)
        finally:
            self._keep()

    async def _followed(self, tasks: asyncio.TaskGroup, obey: ObeyOne, cursor: str) -> str:
        """Follow decisions behind a cursor until that is refused; return the cursor to go on by."""
        request = of_clusters(self._site, self._clusters, cursor, from_earliest=True)
        self._watcher = self._watch(request)
        try:
            async for found in self._watcher:
                # Nothing is awaited before it is in hand: the watcher's cursor is behind it.
                self._take(tasks, obey, found)
                await self._room()
        except UnansweredError as error:
            if error.code in _LOST and cursor:
                log.error("the cursor is lost: all kept decisions are read", problem=str(error))
                return ""
            log.error("decisions are refused", problem=str(error))
            await asyncio.sleep(_REFUSED_RETRY_S)
        return self._watcher.cursor

    def _take(self, tasks: asyncio.TaskGroup, obey: ObeyOne, found: WatchedDecision) -> None:
        job_id = found.decision.job_id
        before = self._of_job.get(job_id)
        obeying = tasks.create_task(_obeyed(obey, found.decision, before))
        self._of_job[job_id] = obeying
        obeying.add_done_callback(partial(self._forget, job_id))
        self._in_hand.append(_ObeyedDecision(found.cursor, obeying))

    def _forget(self, job_id: str, obeyed: asyncio.Task[None]) -> None:
        if self._of_job.get(job_id) is obeyed:
            del self._of_job[job_id]

    async def _room(self) -> None:
        while len(self._in_hand) >= _AT_ONCE:
            await asyncio.wait([self._in_hand[0].obeying])
            self._keep()

    async def _keep_on(self) -> None:
        while True:
            await asyncio.sleep(_KEEPS_EVERY_S)
            self._keep()

    def _keep(self) -> None:
        """Keep the cursor before which all is obeyed."""
        cursor = ""
        while self._in_hand and self._in_hand[0].is_over:
            cursor = self._in_hand.popleft().cursor
        if not self._in_hand and self._watcher is not None:
            cursor = self._watcher.cursor
        try:
            if cursor:
                self._file.keep(cursor)
        except OSError as error:
            log.error("the cursor is not kept", problem=str(error))


async def _obeyed(
    obey: ObeyOne, decision: PlacementDecided, before: asyncio.Task[None] | None
) -> None:
    if before is not None:
        await asyncio.wait([before])
    await obey(decision)
