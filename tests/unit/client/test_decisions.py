"""A watcher goes on behind what it handed over, whatever breaks, over a real channel."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.watch_service_pb2 import WatchDecisionsRequest, WatchDecisionsResponse
from coplace.v1.watch_service_pb2_grpc import (
    WatchServiceServicer,
    add_WatchServiceServicer_to_server,
)

from coplace_client.calls import UnansweredError
from coplace_client.channels import GrpcFiles
from coplace_client.decisions import AsyncDecisionWatcher, DecisionWatcher, of_clusters, of_user
from coplace_client.ingest import Patience

_HASTE = Patience(pause_s=0.01, most_pause_s=0.02)
_COUNT = 12


class Scripted(WatchServiceServicer):
    """Hands over numbered decisions from a cursor on, and breaks as the test says."""

    def __init__(self, breaks: Sequence[Callable[[grpc.ServicerContext], None]], each: int) -> None:
        self.requests: list[WatchDecisionsRequest] = []
        self._breaks, self._each = list(breaks), each

    def WatchDecisions(  # noqa: N802 its name there
        self, request: WatchDecisionsRequest, context: Any
    ) -> Iterator[WatchDecisionsResponse]:
        self.requests.append(request)
        begin = int(request.cursor or 0)
        yield WatchDecisionsResponse(cursor=str(begin))
        for number in range(begin, begin + self._each):
            decision = PlacementDecided(job_id=str(number))
            yield WatchDecisionsResponse(decision=decision, cursor=str(number + 1))
        if self._breaks:
            self._breaks.pop(0)(context)


def refused(code: grpc.StatusCode) -> Callable[[grpc.ServicerContext], None]:
    """End the call with a code."""
    return lambda context: context.abort(code, "as the test says")


def silent(context: grpc.ServicerContext) -> None:
    """Say nothing more, until the caller leaves."""
    gone = threading.Event()
    context.add_callback(gone.set)
    gone.wait(30)


@contextmanager
def answering(service: Scripted) -> Iterator[str]:
    """Serve it at an address."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    add_WatchServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def blocking(address: str, request: WatchDecisionsRequest, silence_s: float = 30.0) -> list[str]:
    """The jobs of the first decisions, by the blocking iterator."""
    found = list[str]()
    watcher = DecisionWatcher(address, GrpcFiles(), request, _HASTE, silence_s)
    for decision, cursor in watcher:
        found.append(decision.job_id)
        assert watcher.cursor == cursor
        if len(found) == _COUNT:
            watcher.close()
    return found


def in_a_loop(address: str, request: WatchDecisionsRequest, silence_s: float = 30.0) -> list[str]:
    """The same by the one of event loops."""

    async def watch() -> list[str]:
        found = list[str]()
        watcher = AsyncDecisionWatcher(address, GrpcFiles(), request, _HASTE, silence_s)
        decisions: AsyncIterator[Any] = aiter(watcher)
        async with asyncio.timeout(30):
            while len(found) < _COUNT:
                decision, cursor = await anext(decisions)
                found.append(decision.job_id)
                assert watcher.cursor == cursor
        return found

    return asyncio.run(watch())


_BOTH = pytest.mark.parametrize("watch", [blocking, in_a_loop])
_ALL = [str(number) for number in range(_COUNT)]


@_BOTH
def test_each_decision_comes_once_over_breaks_of_all_kinds(watch: Callable[..., list[str]]) -> None:
    codes = (
        *(grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED),
        *(grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAUTHENTICATED),
    )
    service = Scripted([*map(refused, codes), lambda _: None], 2)
    with answering(service) as address:
        assert watch(address, of_clusters("north", ["alpha"], from_earliest=True)) == _ALL
    asked = [(each.cursor, each.from_earliest) for each in service.requests]
    assert asked[:3] == [("", True), ("2", False), ("4", False)]
    assert all(each.clusters.site == "north" for each in service.requests)


@_BOTH
def test_a_connection_on_which_nothing_comes_is_left(watch: Callable[..., list[str]]) -> None:
    service = Scripted([silent] * 2, 5)
    with answering(service) as address:
        assert watch(address, of_user("ada"), silence_s=0.3) == _ALL
    assert [each.cursor for each in service.requests[:3]] == ["", "5", "10"]


@_BOTH
@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "OUT_OF_RANGE", "PERMISSION_DENIED"])
def test_what_no_second_try_changes_is_raised_in_the_services_words(
    watch: Callable[..., list[str]], code: str
) -> None:
    service = Scripted([refused(grpc.StatusCode[code])], 3)
    with (
        answering(service) as address,
        pytest.raises(UnansweredError, match="as the test says") as error,
    ):
        watch(address, of_user("ada", "7"))
    assert error.value.code is grpc.StatusCode[code]
    assert len(service.requests) == 1


def test_who_obeys_for_longer_than_the_silence_keeps_the_connection() -> None:
    service = Scripted([], _COUNT)
    with answering(service) as address:
        watcher = DecisionWatcher(address, GrpcFiles(), of_user("ada"), _HASTE, silence_s=0.1)
        for number, _ in enumerate(watcher, 1):
            threading.Event().wait(0.15 if number < 4 else 0)
            if number == _COUNT:
                watcher.close()
    assert len(service.requests) == 1


def test_a_watcher_that_is_closed_by_another_thread_ends() -> None:
    with answering(Scripted([silent], 3)) as address:
        watcher = DecisionWatcher(address, GrpcFiles(), of_user("ada"), _HASTE)
        threading.Timer(0.3, watcher.close).start()
        assert [decision.job_id for decision, _ in watcher] == ["0", "1", "2"]


def test_an_absent_service_is_asked_again_until_it_is_there() -> None:
    service = Scripted([], _COUNT)
    with answering(service) as address:
        pass
    found = list[str]()
    thread = threading.Thread(target=lambda: found.extend(blocking(address, of_user("ada"))))
    thread.start()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    add_WatchServiceServicer_to_server(service, server)
    server.add_insecure_port(address)
    server.start()
    thread.join(30)
    server.stop(None).wait()
    assert found == _ALL
