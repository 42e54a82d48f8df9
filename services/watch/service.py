"""The gRPC service: finds where a watcher begins, catches up, hands over what comes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import grpc
from grpc.aio import ServicerContext

from coplace_client.errors import RejectedError
from services.watch.feed import Feed
from services.watch.handover import Handover
from services.watch.log import OffsetGoneError
from services.watch.meter import DecisionStreamMeter
from services.watch.model import LoggedDecision, WatchedManager, WatchedUser, Watcher
from services.watch.ownership import Sites
from services.watch.request import WatchRequest, parse
from shared.authority.door import Door
from shared.authority.rules import About
from shared.process.grpc_calls import ends_process
from shared.process.grpc_errors import RefusalReason, RefusedCallError

NAME: Final = "coplace.v1.WatchService"
_ACTION: Final = "WatchDecisions"
_AT_ONCE: Final = 500
_COMPARE: Final = "watch without it, from now or from the earliest, and compare with your jobs"
_GONE: Final = f"cursor: decisions behind it are not kept any more: {_COMPARE}"
_BEYOND: Final = f"cursor: lies behind the end of all decisions, some were lost: {_COMPARE}"
_FORGOTTEN: Final = f"cursor: is so old that it is not known whose jobs those were: {_COMPARE}"


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """What a watcher may take of the process."""

    most_waiting: int
    most_catch_ups: int
    heartbeat_s: float
    stalled_s: float


class WatchService:
    """The RPC. `crash` ends the process for an exception that is no fault of a caller; without a
    `door` everybody is answered."""

    def __init__(
        self,
        feed: Feed,
        meter: DecisionStreamMeter,
        limits: WatchLimits,
        crash: Callable[[Exception], object],
        door: Door | None = None,
        sites: Sites | None = None,
    ) -> None:
        self._feed, self._meter, self._limits, self._crash = feed, meter, limits, crash
        self._door, self._sites = door, sites
        self._catch_ups = asyncio.Semaphore(limits.most_catch_ups)
        self._open: set[Handover] = set()

    @property
    def watchers(self) -> int:
        """Return how many streams are open."""
        return len(self._open)

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the RPC on raw bytes: answers are made of what Kafka has."""
        watch = ends_process(self.watch, self._crash)
        return grpc.method_handlers_generic_handler(
            NAME, {_ACTION: grpc.unary_stream_rpc_method_handler(watch)}
        )

    def stop(self) -> None:
        """End all streams: each goes on by its cursor elsewhere, or here again."""
        for each in self._open:
            each.end(grpc.StatusCode.UNAVAILABLE, "the service stops", RefusalReason.SERVICE_ENDS)

    async def watch(self, data: bytes, context: ServicerContext[Any, Any]) -> None:
        """Hand over decisions until the caller leaves, is not allowed any more or falls behind."""
        try:
            asked = parse(data, self._feed.codec)
        except RejectedError as error:
            self._meter.ended("refused")
            raise RefusedCallError.invalid(error) from None
        require = partial(self._require, context, asked.watched)
        call = Handover(context, self._limits.heartbeat_s, self._limits.stalled_s, require)
        self._open.add(call)
        try:
            await self._watch(asked, call)
        except OffsetGoneError:
            raise _out_of_range(_GONE) from None
        finally:
            self._open.remove(call)
            self._meter.ended("fell_behind" if call.has_fallen_behind else "gone")

    async def _watch(self, asked: WatchRequest, call: Handover) -> None:
        await call.require_allowed()
        if isinstance(asked.watched, WatchedUser):
            await self._feed.know_users(())
        offsets = await self._beginning(asked)
        watcher = Watcher(asked.watched, offsets, self._limits.most_waiting)
        await call.begin()
        await call.beat(self._feed.codec.encode(offsets))
        await self._catch_up(watcher, call, asked)
        # Nothing may run in between.
        async with self._feed.attached(watcher, partial(_wake, watcher, call)):
            await self._follow(watcher, call)

    async def _require(
        self, context: ServicerContext[Any, Any], watched: WatchedManager | WatchedUser
    ) -> None:
        """Go on only for who may."""
        if self._door is None or self._door.is_open:
            return
        verdict = await self._door.answer(context, _ACTION, await self._about(watched))
        if not verdict.is_allowed:
            code, reason = grpc.StatusCode.PERMISSION_DENIED, RefusalReason.NOT_ALLOWED
            raise RefusedCallError(code, verdict.reason, reason)

    async def _about(self, watched: WatchedManager | WatchedUser) -> About:
        if isinstance(watched, WatchedUser):
            return About(user=watched.user)
        assert self._sites is not None
        try:
            clusters = await self._sites.clusters(sorted(watched.clusters))
        except TimeoutError:
            problem = "the sites of clusters cannot be read up to now: try again"
            code, reason = grpc.StatusCode.UNAVAILABLE, RefusalReason.REGION_NOT_READ
            raise RefusedCallError(code, problem, reason) from None
        return About(clusters=clusters, site=watched.site)

    async def _beginning(self, asked: WatchRequest) -> Sequence[int]:
        """Return where to begin. A cursor may be ahead of what is read here."""
        ring = self._feed.ring
        if asked.offsets is None:
            if not asked.from_earliest:
                return tuple(ring.ends)
            return (await self._feed.decisions.bounds()).begins
        if ring.covers(asked.offsets) and not _is_beyond(asked.offsets, ring.ends):
            return asked.offsets
        bounds = await self._feed.decisions.bounds()
        if _is_beyond(bounds.begins, asked.offsets):
            raise _out_of_range(_GONE)
        if _is_beyond(asked.offsets, bounds.ends):
            raise _out_of_range(_BEYOND)
        return asked.offsets

    async def _catch_up(self, watcher: Watcher, call: Handover, asked: WatchRequest) -> None:
        """Return when the watcher has all that was read, and nothing else ran since."""
        ring = self._feed.ring
        while True:
            if not ring.covers(watcher.offsets):
                await self._read_from_kafka(watcher, call, asked)
            elif found := ring.since(watcher.offsets, _AT_ONCE):
                await self._hand_over(found, watcher, call, asked)
            else:
                watcher.advance(ring.ends)
                return

    async def _read_from_kafka(self, watcher: Watcher, call: Handover, asked: WatchRequest) -> None:
        ring, codec = self._feed.ring, self._feed.codec
        async with (
            self._turn(call, codec.encode(watcher.offsets)),
            self._feed.decisions.reader(watcher.offsets) as reader,
        ):
            self._meter.caught_up()
            while not ring.covers(watcher.offsets):
                wanted = tuple(ring.begins)
                if await reader.has_reached(wanted):
                    watcher.advance(wanted)
                    continue
                batch = await reader.read()
                await self._hand_over(batch.decisions, watcher, call, asked)
                watcher.advance(batch.offsets)
                await call.beat_if_quiet(codec.encode(watcher.offsets))

    @asynccontextmanager
    async def _turn(self, call: Handover, cursor: str) -> AsyncIterator[None]:
        """Wait until fewer read from Kafka."""
        while True:
            try:
                async with asyncio.timeout(self._limits.heartbeat_s):
                    await self._catch_ups.acquire()
                break
            except TimeoutError:
                await call.beat(cursor)
        try:
            yield
        finally:
            self._catch_ups.release()

    async def _hand_over(
        self,
        decisions: Sequence[LoggedDecision],
        watcher: Watcher,
        call: Handover,
        asked: WatchRequest,
    ) -> None:
        """Hand over those of some decisions that concern a watcher; what leaves the ring meanwhile
        is to be read from Kafka."""
        if isinstance(asked.watched, WatchedUser):
            await self._feed.know_users([decision.job_id for decision in decisions])
        users = self._feed.users.users
        for decision in decisions:
            payload = decision.payload
            if payload is None:
                return
            self._require_known(decision, asked)
            watcher.pass_by(decision)
            if asked.watched.concerns(decision, users):
                await call.hand(payload, self._feed.codec.encode(watcher.offsets))
                self._meter.handed()

    def _require_known(self, decision: LoggedDecision, asked: WatchRequest) -> None:
        """From the earliest on means for a user: as far as it is known whose the jobs were."""
        if not isinstance(asked.watched, WatchedUser) or asked.from_earliest:
            return
        if decision.written_ms * 1_000 < self._feed.users.users.forgotten_until_us:
            raise _out_of_range(_FORGOTTEN)

    async def _follow(self, watcher: Watcher, call: Handover) -> None:
        while True:
            decision = watcher.next()
            if watcher.has_fallen_behind:
                call.fall_behind()
            if decision is not None and decision.payload is not None:
                await call.hand(decision.payload, decision.cursor)
                self._meter.handed()
            elif not await call.is_woken():
                await call.beat(self._feed.cursor_of(watcher))


def _is_beyond(ones: Sequence[int], others: Sequence[int]) -> bool:
    return any(map(int.__gt__, ones, others))


def _wake(watcher: Watcher, call: Handover) -> None:
    if watcher.has_fallen_behind:
        call.fall_behind()
    else:
        call.wake()


def _out_of_range(words: str) -> RefusedCallError:
    return RefusedCallError(grpc.StatusCode.OUT_OF_RANGE, words, RefusalReason.CURSOR_OUT_OF_RANGE)
