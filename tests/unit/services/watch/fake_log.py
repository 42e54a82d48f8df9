"""A log of decisions in memory, a service on it, and what it hands over."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided, Verdict
from opentelemetry.metrics import NoOpMeter

from services.watch.cursor import CursorCodec
from services.watch.feed import Feed
from services.watch.log import DecisionBatch, LogBounds, OffsetGoneError
from services.watch.meter import DecisionStreamMeter
from services.watch.model import LoggedDecision
from services.watch.service import WatchLimits, WatchService
from services.watch.users import JobUsers
from shared.catalogue.event import Event

KAFKA_PARTITIONS = 3
MIB = 2**20
LIMITS = WatchLimits(most_waiting=1_000, most_catch_ups=2, heartbeat_s=0.2, stalled_s=5.0)
CODEC = CursorCodec("placement.decisions", b"topic", KAFKA_PARTITIONS)


def decided(
    job_id: str,
    cluster: str = "alpha",
    verdict: Verdict.ValueType = VERDICT_START,
    grant: int = 1,
    reason: str = "",
) -> PlacementDecided:
    """A decision on a job."""
    return PlacementDecided(
        job_id=job_id, cluster=cluster, verdict=verdict, grant=grant, reason=reason
    )


class FakeLog:
    """Partitions of bytes; what lies before `begins` was removed."""

    def __init__(self) -> None:
        self.partitions: list[list[bytes]] = [[] for _ in range(KAFKA_PARTITIONS)]
        self.begins = [0] * KAFKA_PARTITIONS
        self.reads = 0
        self.readers = self.most_readers = 0
        self.pace_s = 0.0
        self._grown = asyncio.Event()

    def append(self, *decisions: PlacementDecided, into: int | None = None) -> None:
        """Decide; those of one job in one partition."""
        for each in decisions:
            place = sum(each.job_id.encode()) % KAFKA_PARTITIONS if into is None else into
            self.partitions[place].append(each.SerializeToString())
        self._grown.set()

    @property
    def ends(self) -> list[int]:
        """Where the next ones go."""
        return list(map(len, self.partitions))

    async def bounds(self) -> LogBounds:
        return LogBounds(tuple(self.begins), tuple(self.ends))

    @asynccontextmanager
    async def reader(self, offsets: Sequence[int]) -> AsyncIterator["FakeReader"]:
        self.readers += 1
        self.most_readers = max(self.most_readers, self.readers)
        try:
            yield FakeReader(self, list(offsets))
        finally:
            self.readers -= 1

    async def grown(self) -> None:
        """Return when there is more."""
        self._grown.clear()
        await self._grown.wait()


class FakeReader:
    """At its place."""

    def __init__(self, log: FakeLog, offsets: list[int]) -> None:
        self._log, self._offsets = log, offsets

    async def read(self, most: int = 50) -> DecisionBatch:
        await asyncio.sleep(self._log.pace_s)
        if self._offsets == self._log.ends:
            await self._log.grown()
        found: list[LoggedDecision] = []
        for place, values in enumerate(self._log.partitions):
            begin = self._offsets[place]
            if begin < self._log.begins[place]:
                raise OffsetGoneError
            for offset, value in enumerate(values[begin : begin + most], begin):
                found.append(LoggedDecision.from_bytes(place, offset, 1_000, value))
                self._offsets[place] = offset + 1
        return DecisionBatch(found, tuple(self._offsets))

    async def has_reached(self, offsets: Sequence[int]) -> bool:
        return all(map(int.__ge__, self._offsets, offsets))


class FakeUsers:
    """Users that the test fills; `submissions` become known once somebody asks for them."""

    def __init__(self) -> None:
        self.users = JobUsers(kept_us=10**9, most=10**6, now_us=lambda: 1_000)
        self.submissions: dict[str, str] = {}
        self.is_read = False

    async def know(self, job_ids: Sequence[str]) -> None:
        self.is_read = True
        await asyncio.sleep(0)
        for job_id in job_ids:
            if job_id not in self.users and (user := self.submissions.get(job_id)):
                self.users.fold(Event("", "", 0, job_id, JobSubmitted(job_id=job_id, user=user)))
        self.users.note_unknown(job_ids)


class Served:
    """A service on a log."""

    def __init__(self, log: FakeLog, limits: WatchLimits = LIMITS) -> None:
        self.log, self.users, self.crashes = log, FakeUsers(), list[Exception]()
        meter = DecisionStreamMeter(NoOpMeter("test"))
        self.feed = Feed(log, CODEC, self.users, meter)
        self.service = WatchService(self.feed, meter, limits, self.crashes.append)

    @asynccontextmanager
    async def running(
        self, ring_bytes: int = MIB, begins: Sequence[int] | None = None
    ) -> AsyncIterator["Served"]:
        """Read the log, from its end where nothing else is said."""
        bounds = LogBounds(self.log.ends if begins is None else begins, self.log.ends)
        async with self.feed.running(ring_bytes, bounds, self.crashes.append):
            yield self
        assert self.crashes == []


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 any condition
            await asyncio.sleep(0.005)


def is_heartbeat(response: Any) -> bool:
    return not response.HasField("decision")


async def decisions_of(call: Any, count: int) -> list[Any]:
    """The next responses with decisions."""
    found: list[Any] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            response = await call.read()
            if response is grpc.aio.EOF:
                raise EOFError(await call.details())
            if not is_heartbeat(response):
                found.append(response)
    return found
