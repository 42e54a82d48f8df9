"""WatchDecisions over a real channel, with a log that the test fills."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest
from coplace.v1.placement_pb2 import VERDICT_QUEUED
from coplace.v1.watch_service_pb2 import WatchDecisionsRequest
from coplace.v1.watch_service_pb2_grpc import WatchServiceStub

from coplace_client import decisions
from services.watch.cursor import CursorCodec
from tests.unit.services.calls import served, serving
from tests.unit.services.watch.fake_log import (
    CODEC,
    LIMITS,
    FakeLog,
    Served,
    decided,
    decisions_of,
    eventually,
    is_heartbeat,
)

_MIB = 2**20


def of_alpha(cursor: str = "", **more: Any) -> WatchDecisionsRequest:
    """A resource manager of north's alpha."""
    request = decisions.of_clusters("north", ["alpha"], cursor)
    request.MergeFrom(WatchDecisionsRequest(**more))
    return request


@asynccontextmanager
async def watching(watched: Served) -> AsyncIterator[Any]:
    """Ask a service that runs."""
    async with served(watched.service.handlers()) as channel:
        yield WatchServiceStub(channel).WatchDecisions
        watched.service.stop()


async def taken_until_the_end(call: Any) -> tuple[list[Any], grpc.aio.AioRpcError]:
    """All responses of a stream, and how it ends."""
    found: list[Any] = []
    try:
        while (response := await call.read()) is not grpc.aio.EOF:
            found.append(response)
    except grpc.aio.AioRpcError as error:
        return found, error
    raise AssertionError("it ended without an error")


async def refusal_of(call: Any) -> tuple[grpc.StatusCode, str]:
    """How a stream ends that is refused."""
    async with asyncio.timeout(30):
        _, error = await taken_until_the_end(call)
    return error.code(), str(error.details())


def jobs(count: int, beginning: str = "north/alpha/", begin: int = 0) -> list[Any]:
    """Starts of so many jobs."""
    return [decided(f"{beginning}{number}/1") for number in range(begin, begin + count)]


def ids(responses: list[Any]) -> list[str]:
    """The jobs of responses."""
    return [response.decision.job_id for response in responses]


async def test_who_watches_from_now_gets_a_cursor_at_once_and_what_comes_then() -> None:
    log = FakeLog()
    log.append(*jobs(3, "north/alpha/old"))
    async with Served(log).running() as watched, watching(watched) as watch:
        call = watch(of_alpha())
        first = await call.read()
        assert is_heartbeat(first)
        assert CODEC.decode(first.cursor) == log.ends
        log.append(*jobs(5))
        found = await decisions_of(call, 5)
        assert sorted(ids(found)) == sorted(each.job_id for each in jobs(5))


async def test_a_decision_is_handed_over_as_placement_wrote_it() -> None:
    log, decision = FakeLog(), decided("north/alpha/1/1", reason="as it is")
    async with Served(log).running() as watched, watching(watched) as watch:
        call = watch(of_alpha())
        await call.read()
        log.append(decision)
        [found] = await decisions_of(call, 1)
        assert found.decision == decision


async def test_a_heartbeat_says_how_far_all_was_handed_over_where_nothing_comes() -> None:
    log = FakeLog()
    async with Served(log).running() as watched, watching(watched) as watch:
        call = watch(of_alpha())
        await call.read()
        log.append(*jobs(4, "south/sigma/"), decided("north/alpha/1/1", "", VERDICT_QUEUED))
        log.append(decided("south/sigma/9/1", "sigma"))
        beat = await call.read()
        while CODEC.decode(beat.cursor) != log.ends:
            beat = await call.read()
            assert is_heartbeat(beat) or beat.decision.cluster == "alpha"


@pytest.mark.parametrize("ring_bytes", [_MIB, 5_000, 0])
async def test_each_is_handed_over_once_whatever_the_ring_holds_and_wherever_it_resumes(
    ring_bytes: int,
) -> None:
    log = FakeLog()
    log.append(*jobs(200))
    async with Served(log).running(ring_bytes, [0, 0, 0]) as watched, watching(watched) as watch:
        await eventually(lambda: watched.feed.ring.ends == log.ends)
        found, cursor = list[str](), ""
        for part in range(8):
            call = watch(of_alpha(cursor, from_earliest=not cursor))
            log.append(*jobs(25, begin=200 + 25 * part))
            taken = await decisions_of(call, 50)
            call.cancel()
            found, cursor = found + ids(taken), taken[-1].cursor
        assert sorted(found) == sorted(each.job_id for each in jobs(400))


async def test_decisions_of_one_job_come_in_order_while_it_catches_up_and_then() -> None:
    log = FakeLog()
    grants = [decided("north/alpha/1/1", grant=grant) for grant in range(1, 401)]
    log.append(*grants[:300])
    async with Served(log).running(20_000, [0, 0, 0]) as watched, watching(watched) as watch:
        call = watch(of_alpha(from_earliest=True))
        first = await decisions_of(call, 10)
        log.append(*grants[300:])
        found = first + await decisions_of(call, 390)
        assert [each.decision.grant for each in found] == list(range(1, 401))


async def test_a_service_that_starts_anew_goes_on_by_a_cursor_of_the_one_before() -> None:
    log = FakeLog()
    async with Served(log).running() as watched, watching(watched) as watch:
        call = watch(of_alpha())
        await call.read()
        log.append(*jobs(10))
        taken = await decisions_of(call, 7)
    log.append(*jobs(10, begin=10))
    async with Served(log).running() as watched, watching(watched) as watch:
        found = await decisions_of(watch(of_alpha(taken[-1].cursor)), 13)
    assert sorted(ids(taken + found)) == sorted(each.job_id for each in jobs(20))


async def test_a_cursor_ahead_of_what_the_service_has_read_is_handed_nothing_before_it() -> None:
    log = FakeLog()
    log.append(*jobs(30))
    ahead = CODEC.encode(log.ends)
    log.append(*jobs(3, begin=30))
    log.pace_s = 0.3
    watched = Served(log)
    async with watched.running(_MIB, [0, 0, 0]), watching(watched) as watch:
        found = await decisions_of(watch(of_alpha(ahead)), 3)
        assert sorted(ids(found)) == sorted(each.job_id for each in jobs(3, begin=30))


async def test_cursors_that_cannot_be_gone_on_from_are_refused_with_what_to_do() -> None:
    log = FakeLog()
    log.append(*jobs(60))
    log.begins = [4, 4, 4]
    async with Served(log).running() as watched, watching(watched) as watch:
        foreign = CursorCodec("placement.decisions", b"another", 3).encode([0, 0, 0])
        refused = [
            ("A", grpc.StatusCode.INVALID_ARGUMENT, "cursor: is not a cursor"),
            (foreign, grpc.StatusCode.INVALID_ARGUMENT, "cursor: is of another deployment"),
            (CODEC.encode([3, 9, 9]), grpc.StatusCode.OUT_OF_RANGE, "not kept any more"),
            (CODEC.encode([9, 9, 999]), grpc.StatusCode.OUT_OF_RANGE, "some were lost"),
        ]
        for cursor, code, words in refused:
            found = await refusal_of(watch(of_alpha(cursor)))
            assert found[0] is code
            assert words in found[1]
            assert "compare with" in found[1] or words == "cursor: is not a cursor"


@pytest.mark.parametrize(
    ("request_of", "field"),
    [
        (WatchDecisionsRequest(), "watched"),
        (decisions.of_clusters("", ["alpha"]), "clusters.site"),
        (decisions.of_clusters("north", []), "clusters.clusters"),
        (decisions.of_clusters("north", ["a"] * 257), "clusters.clusters"),
        (decisions.of_clusters("north", ["alpha", ""]), "clusters.clusters[1]"),
        (decisions.of_user(""), "user"),
        (of_alpha(CODEC.encode([0, 0, 0]), from_earliest=True), "from_earliest"),
    ],
)
async def test_a_request_that_says_nothing_is_refused_by_its_field(
    request_of: WatchDecisionsRequest, field: str
) -> None:
    async with Served(FakeLog()).running() as watched, watching(watched) as watch:
        code, words = await refusal_of(watch(request_of))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert words.startswith(f"{field}: ")


async def test_a_user_gets_own_decisions_though_the_job_was_unknown_before() -> None:
    log = FakeLog()
    watched = Served(log)
    watched.users.submissions = {f"north/alpha/{n}/1": "ada" if n % 2 else "bob" for n in range(20)}
    log.append(*jobs(10))
    async with watched.running(_MIB, [0, 0, 0]), watching(watched) as watch:
        call = watch(WatchDecisionsRequest(user="ada", from_earliest=True))
        first = await decisions_of(call, 5)
        log.append(*jobs(10, begin=10))
        found = first + await decisions_of(call, 5)
        assert sorted(ids(found)) == sorted(f"north/alpha/{n}/1" for n in range(1, 20, 2))


async def test_a_users_cursor_from_before_what_is_known_of_jobs_is_refused() -> None:
    log = FakeLog()
    log.append(*jobs(3))
    watched = Served(log)
    watched.users.users.forgotten_until_us = 10**9
    async with watched.running(_MIB, [0, 0, 0]), watching(watched) as watch:
        code, words = await refusal_of(watch(decisions.of_user("ada", CODEC.encode([0, 0, 0]))))
        assert code is grpc.StatusCode.OUT_OF_RANGE
        assert "not known whose jobs" in words


async def test_one_that_falls_behind_ends_with_the_cursor_by_which_it_goes_on() -> None:
    log, sent = FakeLog(), 0
    watched = Served(log, replace(LIMITS, most_waiting=50))
    async with watched.running(64 * _MIB), watching(watched) as watch:
        call = watch(of_alpha())
        await call.read()
        while watched.service.watchers and sent < 10_000:
            log.append(decided(f"north/alpha/{sent}/1", reason="x" * 20_000))
            sent += 1
            await asyncio.sleep(0.0001)
        taken, error = await taken_until_the_end(call)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert any(each.cursor in str(error.details()) for each in taken[-2:])
        handed = [each for each in taken if not is_heartbeat(each)]
        assert handed
        found = await decisions_of(watch(of_alpha(taken[-1].cursor)), sent - len(handed))
        assert len({*ids(handed), *ids(found)}) == sent


async def test_a_burst_ends_nobody_who_takes_what_comes() -> None:
    log = FakeLog()
    watched = Served(log, replace(LIMITS, most_waiting=200))
    async with watched.running(), watching(watched) as watch:
        call = watch(of_alpha())
        await call.read()
        log.append(*jobs(5_000))
        found = await decisions_of(call, 5_000)
        assert len({*ids(found)}) == 5_000


async def test_one_that_takes_nothing_while_it_catches_up_is_ended_and_no_slot_is_lost() -> None:
    log = FakeLog()
    log.append(*(decided(f"north/alpha/{n}/1", reason="x" * 50_000) for n in range(400)))
    watched = Served(log, replace(LIMITS, stalled_s=0.3, most_catch_ups=1))
    # Two programs: one that takes nothing does not share the connection of one that does.
    async with (
        watched.running(),
        serving(watched.service.handlers()) as connect,
        connect() as one,
        connect() as another,
    ):
        stuck = WatchServiceStub(one).WatchDecisions(of_alpha(from_earliest=True))
        await stuck.read()
        ready = WatchServiceStub(another).WatchDecisions(of_alpha(from_earliest=True))
        found = await decisions_of(ready, 400)
        assert len({*ids(found)}) == 400
        await eventually(lambda: watched.service.watchers == 1)
        code, words = await refusal_of(stuck)
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "nothing taken for 0.3 s: ask again with the last cursor that you got" in words
        watched.service.stop()


async def test_few_read_from_the_log_at_once_and_the_others_are_alive_meanwhile() -> None:
    log = FakeLog()
    log.append(*jobs(300))
    log.pace_s = 0.05
    async with Served(log).running() as watched, watching(watched) as watch:
        calls = [watch(of_alpha(from_earliest=True)) for _ in range(8)]
        found = await asyncio.gather(*(decisions_of(call, 300) for call in calls))
        assert all(len({*ids(each)}) == 300 for each in found)
        assert log.most_readers == 1 + LIMITS.most_catch_ups


async def test_a_service_that_stops_ends_its_streams_with_a_cursor_and_no_failure() -> None:
    log = FakeLog()
    async with Served(log).running() as watched, served(watched.service.handlers()) as channel:
        call = WatchServiceStub(channel).WatchDecisions(of_alpha())
        first: Any = await call.read()
        await asyncio.sleep(0.5)  # a caller has a decision before the service learns that
        watched.service.stop()
        code, words = await refusal_of(call)
        assert code is grpc.StatusCode.UNAVAILABLE
        assert first.cursor in words
        await eventually(lambda: watched.service.watchers == 0)


async def test_a_caller_that_leaves_is_let_go() -> None:
    log = FakeLog()
    async with Served(log).running() as watched, watching(watched) as watch:
        call = watch(of_alpha())
        await call.read()
        assert watched.service.watchers == 1
        call.cancel()
        await eventually(lambda: watched.service.watchers == 0)
        log.append(*jobs(3))
        await eventually(lambda: watched.feed.ring.ends == log.ends)


async def test_a_reader_that_fails_ends_the_process() -> None:
    log, crashes = FakeLog(), list[Exception]()
    watched = Served(log)
    async with watched.feed.running(_MIB, await log.bounds(), crashes.append):
        log.partitions[0].append(b"\xff")
        log.append(*jobs(1))
        await eventually(lambda: bool(crashes))
    assert "parsing" in str(crashes[0]).lower()
