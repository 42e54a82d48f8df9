"""What all watchers share: one reader of decisions, and the newest of them in memory."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from services.watch.cursor import CursorCodec
from services.watch.log import DecisionBatch, DecisionLog, DecisionReader, LogBounds, UsersOfJobs
from services.watch.meter import DecisionStreamMeter
from services.watch.model import DecisionRing, LoggedDecision, Watcher, Watchers

_PAUSE_S: Final = 0.5
# Decisions that are offered without a pause, and the pauses at most.
_AT_ONCE: Final = 100
_MOMENT_S: Final = 0.01
_MOMENTS: Final = 20

log = logging.getLogger(__name__)
# What is called where something waits for a watcher, or it has fallen behind.
Wake = Callable[[], object]


class Feed:
    """Reads on meanwhile; `start` reads the history first."""

    def __init__(
        self,
        decisions: DecisionLog,
        codec: CursorCodec,
        users: UsersOfJobs,
        meter: DecisionStreamMeter,
    ) -> None:
        self.decisions, self.codec, self.users = decisions, codec, users
        self.ring = DecisionRing(0, ())
        self._meter = meter
        self._watchers = Watchers()
        self._wakes: dict[Watcher, Wake] = {}

    @asynccontextmanager
    async def running(
        self, most_bytes: int, bounds: LogBounds, crash: Callable[[Exception], object]
    ) -> AsyncIterator[None]:
        """Read from where the bounds begin: up to where they end now, and on meanwhile."""
        self.ring = DecisionRing(most_bytes, bounds.begins)
        async with self.decisions.reader(bounds.begins) as reader:
            while not await reader.has_reached(bounds.ends):
                await self._take(await reader.read())
            self.ring.advance(bounds.ends)
            following = asyncio.create_task(self._follow(reader, crash))
            try:
                yield
            finally:
                following.cancel()
                await asyncio.wait([following])

    @asynccontextmanager
    async def attached(self, watcher: Watcher, wake: Wake) -> AsyncIterator[None]:
        """Let a watcher that has all of the ring have what comes from now on."""
        self._watchers.add(watcher)
        self._wakes[watcher] = wake
        try:
            yield
        finally:
            self._watchers.remove(watcher)
            del self._wakes[watcher]

    def cursor_of(self, watcher: Watcher) -> str:
        """Return the cursor behind all of the ring; it may have been ahead of that."""
        return self.codec.encode(map(max, watcher.offsets, self.ring.ends))

    async def know_users(self, job_ids: Sequence[str]) -> None:
        """Return when it is known whose these jobs are, however long jobs' events cannot be
        read."""
        while True:
            try:
                return await self.users.know(job_ids)
            except TimeoutError:
                log.warning("events of jobs cannot be read up to now")
            await asyncio.sleep(_PAUSE_S)

    async def _follow(self, reader: DecisionReader, crash: Callable[[Exception], object]) -> None:
        try:
            while True:
                await self._take(await reader.read())
        except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
            crash(error)

    async def _take(self, batch: DecisionBatch) -> None:
        """Those that have much to take get a moment in between: a burst is no reason to end
        them."""
        for begin in range(0, len(batch.decisions), _AT_ONCE):
            part = batch.decisions[begin : begin + _AT_ONCE]
            await self._know(part)
            self._offer(part)
            await self._relieved()
        self.ring.advance(batch.offsets)
        self._meter.read(len(batch.decisions))

    async def _know(self, decisions: Sequence[LoggedDecision]) -> None:
        """Return when it is known whose the jobs are, where somebody wants to know: until they are
        offered nothing else may run, or who attaches as a user would miss a job."""
        if self.users.is_read:
            await self.know_users([decision.job_id for decision in decisions])

    def _offer(self, decisions: Sequence[LoggedDecision]) -> None:
        known = self.users.users
        for decision in decisions:
            self.ring.append(decision)
            known.decide(decision)
            takers = self._watchers.offer(decision, known)
            if takers:
                decision.cursor = self.codec.encode(self.ring.ends)
            for each in takers:
                self._wakes[each]()

    async def _relieved(self) -> None:
        """Wait for those that take what comes; once, and not for long, for one that does not."""
        for _ in range(_MOMENTS):
            pressed = [each for each in self._wakes if each.is_pressed(self.ring.middle)]
            if all(each.is_slow for each in pressed):
                return
            await asyncio.sleep(_MOMENT_S)
        for each in pressed:
            each.is_slow = True
