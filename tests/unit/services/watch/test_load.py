"""A thousand watchers at once in one process, and what a stuck one costs."""

import asyncio
import os
import time
import tracemalloc
from contextlib import AsyncExitStack
from typing import Any

import grpc
import psutil
from coplace.v1.watch_service_pb2_grpc import WatchServiceStub

from coplace_client import decisions
from tests.unit.services.calls import served
from tests.unit.services.watch.fake_log import MIB, FakeLog, Served, decided, decisions_of

_WATCHERS = 1_000
_EACH = 20


async def test_a_thousand_watchers_get_their_own_decisions_and_memory_is_bounded() -> None:
    log = FakeLog()
    watched = Served(log)
    process = psutil.Process(os.getpid())
    async with watched.running(), AsyncExitStack() as stack:
        channel = await stack.enter_async_context(served(watched.service.handlers()))
        stub: Any = WatchServiceStub(channel)
        before_mib = process.memory_info().rss / MIB
        calls = [
            stub.WatchDecisions(decisions.of_clusters("north", [f"c{number}"]))
            for number in range(_WATCHERS)
        ]
        await asyncio.gather(*(call.read() for call in calls))
        grown_mib = process.memory_info().rss / MIB - before_mib
        begun_s, cpu_s = time.monotonic(), time.process_time()
        for turn in range(_EACH):
            log.append(
                *(
                    decided(f"north/c{number}/{turn}/1", f"c{number}", reason="x" * 2_000)
                    for number in range(_WATCHERS)
                )
            )
        found = await asyncio.gather(*(decisions_of(call, _EACH) for call in calls))
        used_s, took_s = time.process_time() - cpu_s, time.monotonic() - begun_s
        for number, responses in enumerate(found):
            got = [each.decision.job_id for each in responses]
            assert sorted(got) == sorted(f"north/c{number}/{turn}/1" for turn in range(_EACH))
        assert watched.service.watchers == _WATCHERS
        assert watched.feed.ring.bytes <= MIB
        print(
            f"{_WATCHERS} watchers and their callers: {grown_mib:.0f} MiB, "
            f"{1e6 * used_s / _WATCHERS / _EACH:.0f} us of CPU a decision, in {took_s:.1f} s"
        )
        for call in calls:
            call.cancel()


async def test_watchers_that_take_nothing_cost_no_more_than_the_ring() -> None:
    log = FakeLog()
    watched = Served(log)
    async with watched.running(2 * MIB), served(watched.service.handlers()) as channel:
        stub: Any = WatchServiceStub(channel)
        calls = [
            stub.WatchDecisions(decisions.of_clusters("north", [f"c{number}"]))
            for number in range(20)
        ]
        for call in calls:
            assert await call.read() is not grpc.aio.EOF
        tracemalloc.start()
        for turn in range(250):
            log.append(
                *(
                    decided(f"north/c{number}/{turn}/1", f"c{number}", reason="x" * 5_000)
                    for number in range(20)
                )
            )
            await asyncio.sleep(0.001)
        offered_bytes = sum(len(value) for values in log.partitions for value in values)
        grown_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert offered_bytes > 20 * MIB
        assert grown_bytes - offered_bytes < 8 * MIB
        for call in calls:
            call.cancel()
