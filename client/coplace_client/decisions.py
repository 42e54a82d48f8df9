"""Watches what placement decides, over gRPC alone, and goes on by itself behind breaks.

A decision comes once a connection, and again where the program is started anew with an older
cursor than it got: obey each by its job and grant, once."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import grpc
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.watch_service_pb2 import (
    WatchDecisionsRequest,
    WatchDecisionsResponse,
    WatchedClusters,
)
from coplace.v1.watch_service_pb2_grpc import WatchServiceStub

from coplace_client.calls import UnansweredError
from coplace_client.channels import GrpcSettings, grpc_aio_channel, grpc_channel
from coplace_client.ingest import Patience

# What no second try changes: the cursor or the request is no valid one, or not for this caller.
_FINAL: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
# Heartbeats come every 10 s at least: who hears none has a dead connection.
SILENCE_S: Final = 30.0

log = logging.getLogger(__name__)


class WatchedDecision(NamedTuple):
    """A decision, and the cursor behind it: keep that once it is obeyed."""

    decision: PlacementDecided
    cursor: str


def of_clusters(
    site: str,
    clusters: Iterable[str],
    cursor: str = "",
    *,
    from_earliest: bool = False,
    with_waiting: bool = False,
) -> WatchDecisionsRequest:
    """Ask for what a resource manager is to obey, behind a cursor; without one from now on, or all
    that is kept."""
    return WatchDecisionsRequest(
        clusters=WatchedClusters(site=site, clusters=clusters),
        cursor=cursor,
        from_earliest=from_earliest and not cursor,
        with_waiting=with_waiting,
    )


def of_user(user: str, cursor: str = "", *, with_waiting: bool = False) -> WatchDecisionsRequest:
    """Ask for what is decided on a user's jobs, behind a cursor or from now on."""
    return WatchDecisionsRequest(user=user, cursor=cursor, with_waiting=with_waiting)


class _Position:
    """Where a watcher is, and how long it waits before it asks again."""

    def __init__(self, request: WatchDecisionsRequest, patience: Patience) -> None:
        self._request = request
        self._patience = patience
        self.heard_s = -math.inf
        self._pauses_s = patience.pauses_s()

    @property
    def cursor(self) -> str:
        """Return the cursor behind what was handed over."""
        return self._request.cursor

    def request(self) -> WatchDecisionsRequest:
        """Return what to ask for now."""
        return self._request

    def take(self, response: WatchDecisionsResponse) -> WatchedDecision | None:
        """Go on behind a response; return its decision, None for a heartbeat."""
        asked = WatchDecisionsRequest()
        asked.CopyFrom(self._request)
        asked.cursor, asked.from_earliest = response.cursor, False
        self._request = asked
        self.heard_s = time.monotonic()
        self._pauses_s = self._patience.pauses_s()
        if not response.HasField("decision"):
            return None
        return WatchedDecision(response.decision, response.cursor)

    def pause_s(self, address: str, error: Any) -> float:
        """Return how long to wait behind a break. Raises UnansweredError for what no second try
        changes."""
        code = error.code()
        if code in _FINAL or code not in self._patience.tried_again:
            raise UnansweredError(address, error) from error
        log.warning("decisions do not come", extra={"code": code.name, "why": error.details()})
        return next(self._pauses_s)

    def pause_behind_silence_s(self) -> float:
        """Return how long to wait behind a connection on which nothing comes."""
        log.warning("decisions do not come: the connection is silent, or was ended")
        return next(self._pauses_s)


class _Watcher:
    """What both watchers have."""

    def __init__(
        self,
        address: str,
        settings: GrpcSettings,
        request: WatchDecisionsRequest,
        patience: Patience = Patience(),  # noqa: B008 immutable
        silence_s: float = SILENCE_S,
    ) -> None:
        self._address, self._settings, self._silence_s = address, settings, silence_s
        self._position = _Position(request, patience)

    @property
    def cursor(self) -> str:
        """Return the cursor behind what was handed over; heartbeats move it on."""
        return self._position.cursor

    @property
    def is_silent(self) -> bool:
        """Return whether neither a decision nor a heartbeat came for longer than one takes."""
        return time.monotonic() - self._position.heard_s > self._silence_s


class DecisionWatcher(_Watcher):
    """Iterates over decisions, blocking until each comes, without end. Where the connection breaks
    it asks again behind the last decision that it handed over. Raises UnansweredError for what no
    second try changes; `close` ends it, from any thread."""

    def __init__(
        self,
        address: str,
        settings: GrpcSettings,
        request: WatchDecisionsRequest,
        patience: Patience = Patience(),  # noqa: B008 immutable
        silence_s: float = SILENCE_S,
    ) -> None:
        super().__init__(address, settings, request, patience, silence_s)
        self._closed = threading.Event()
        self._call: Any = None
        self._heard_s = 0.0

    def close(self) -> None:
        """End the iteration."""
        self._closed.set()
        if self._call is not None:
            self._call.cancel()

    def __iter__(self) -> Iterator[WatchedDecision]:
        """Yield decisions until it is closed."""
        while not self._closed.is_set():
            try:
                yield from self._connected()
            except grpc.RpcError as error:
                if self._closed.is_set():
                    return
                self._closed.wait(self._position.pause_s(self._address, error))

    def _connected(self) -> Iterator[WatchedDecision]:
        """Those of one connection. Raises grpc.RpcError at its end."""
        with grpc_channel(self._address, self._settings) as channel:
            call = WatchServiceStub(channel).WatchDecisions(self._position.request())
            with self._watched(call):
                for response in call:
                    if found := self._position.take(response):
                        # While it is obeyed nobody listens.
                        self._heard_s = math.inf
                        yield found
                    self._heard_s = time.monotonic()

    @contextmanager
    def _watched(self, call: Any) -> Iterator[None]:
        """Cancel a call that is silent."""
        over = threading.Event()
        self._call, self._heard_s = call, time.monotonic()
        threading.Thread(target=self._cancel_silent, args=(call, over), daemon=True).start()
        try:
            yield
        finally:
            over.set()
            self._call = None
            call.cancel()

    def _cancel_silent(self, call: Any, over: threading.Event) -> None:
        while not over.wait(self._silence_s / 4):
            if time.monotonic() - self._heard_s > self._silence_s:
                call.cancel()
                return


class AsyncDecisionWatcher(_Watcher):
    """The same in an event loop; its task is cancelled to end it."""

    async def __aiter__(self) -> AsyncIterator[WatchedDecision]:
        """Yield decisions without end."""
        while True:
            async with grpc_aio_channel(self._address, self._settings) as channel:
                stub: Any = WatchServiceStub(channel)
                call = stub.WatchDecisions(self._position.request())
                try:
                    while (response := await self._next(call)) is not None:
                        if found := self._position.take(response):
                            yield found
                except grpc.RpcError as error:
                    pause_s = self._position.pause_s(self._address, error)
                else:
                    pause_s = self._position.pause_behind_silence_s()
                finally:
                    call.cancel()
            await asyncio.sleep(pause_s)

    async def _next(self, call: Any) -> WatchDecisionsResponse | None:
        """Return the next response; None where none comes for too long, or the stream is over."""
        try:
            async with asyncio.timeout(self._silence_s):
                response: Any = await call.read()
        except TimeoutError:
            return None
        return None if response is grpc.aio.EOF else response
