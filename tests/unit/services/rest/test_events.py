"""Decisions as server-sent events, over a real service and a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.unit.services.calls import served
from tests.unit.services.rest.served import Channels, Client, Region, listening, rest_over
from tests.unit.services.watch.fake_log import FakeLog, Served, decided, eventually

_WATCH = "coplace.v1.WatchService"
_OF_ALPHA = "/v1/decisions?clusters.site=north&clusters.clusters=alpha"


@dataclass
class Watched:
    """REST over a service of decisions that the test makes."""

    client: Client
    log: FakeLog
    service: Served

    @asynccontextmanager
    async def events(self, target: str, **headers: str) -> AsyncIterator["Events"]:
        """Open a stream."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.client.port)
        lines = [f"GET {target} HTTP/1.1", "Host: test"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        try:
            yield Events((await reader.readuntil(b"\r\n\r\n")).decode(), reader)
        finally:
            writer.close()


class Events:
    """A stream, as a client of the standard reads it."""

    def __init__(self, head: str, reader: asyncio.StreamReader) -> None:
        self.head, self._reader = head, reader
        self.last_id = ""

    async def next(self) -> tuple[str, Any]:
        """The kind and the data of the next event."""
        kind, data = "message", ""
        async with asyncio.timeout(30):
            while True:
                size = int(await self._reader.readline(), 16)
                if not size:
                    raise EOFError
                chunk = (await self._reader.readexactly(size + 2))[:-2].decode()
                for line in chunk.splitlines():
                    name, _, value = line.partition(": ")
                    match name:
                        case "id":
                            self.last_id = value
                        case "data":
                            data = value
                        case "event":
                            kind = value
                if data:
                    return kind, json.loads(data)


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    """A log that is read, and REST over it."""
    service = Served(FakeLog())
    async with (
        service.running(),
        served(service.service.handlers()) as channel,
        listening(Channels({_WATCH: channel})) as client,
    ):
        yield Watched(client, service.log, service)
        service.service.stop()


async def test_decisions_on_the_clusters_that_are_watched_come_as_events(watched: Watched) -> None:
    async with watched.events(_OF_ALPHA) as events:
        assert events.head.startswith("HTTP/1.1 200")
        assert "content-type: text/event-stream" in events.head
        await eventually(lambda: watched.service.service.watchers == 1)
        watched.log.append(decided("north/alpha/1/1"), decided("north/beta/2/2", "beta"))
        watched.log.append(decided("north/alpha/3/3"))
        found = [await events.next() for _ in range(2)]
    assert sorted(data["decision"]["jobId"] for _, data in found) == [
        "north/alpha/1/1",
        "north/alpha/3/3",
    ]
    assert {kind for kind, _ in found} == {"message"}
    assert found[0][1]["decision"]["verdict"] == "VERDICT_START"


async def test_a_client_that_connects_again_goes_on_behind_the_last_event(watched: Watched) -> None:
    async with watched.events(_OF_ALPHA) as events:
        await eventually(lambda: watched.service.service.watchers == 1)
        watched.log.append(decided("north/alpha/1/1"))
        await events.next()
    watched.log.append(decided("north/alpha/2/2"))
    async with watched.events(_OF_ALPHA, Last_Event_ID=events.last_id) as again:
        _, data = await again.next()
    assert data["decision"]["jobId"] == "north/alpha/2/2"


async def test_a_client_that_leaves_takes_its_call_with_it(watched: Watched) -> None:
    async with watched.events(_OF_ALPHA):
        await eventually(lambda: watched.service.service.watchers == 1)
    await eventually(lambda: watched.service.service.watchers == 0)


async def test_the_end_of_the_service_is_the_last_event(watched: Watched) -> None:
    async with watched.events(_OF_ALPHA) as events:
        await eventually(lambda: watched.service.service.watchers == 1)
        watched.service.service.stop()
        kind, problem = await events.next()
    assert (kind, problem["status"]) == ("problem", 503)
    assert "the service stops" in problem["detail"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", ""),
        ("user=ada&cursor=nonsense", "cursor"),
        ("user=ada&clusters.site=north", "clusters.site"),
        ("clusters.site=a&clusters.site=b", "clusters.site"),
        ("clusters.color=red", "clusters.color"),
    ],
)
async def test_what_is_refused_before_the_first_event_is_a_problem(
    watched: Watched, query: str, field: str
) -> None:
    answer = await watched.client.get(f"/v1/decisions?{query}")
    kind, errors = answer.problem
    assert (answer.status, kind) == (400, "invalid-argument")
    assert not field or field in [name for name, _ in errors]


async def test_more_streams_than_may_be_open_are_refused_and_a_closed_one_makes_place() -> None:
    service = Served(FakeLog())
    async with (
        service.running(),
        served(service.service.handlers()) as channel,
        listening(Channels({_WATCH: channel}), most_streams=1) as client,
    ):
        watched = Watched(client, service.log, service)
        async with watched.events(_OF_ALPHA) as first:
            assert first.head.startswith("HTTP/1.1 200")
            refused = await client.get(_OF_ALPHA)
            assert refused.status == 503
        await eventually(lambda: service.service.watchers == 0)
        async with watched.events(_OF_ALPHA) as second:
            assert second.head.startswith("HTTP/1.1 200")
        service.service.stop()


async def test_a_stream_is_described_with_the_fields_of_its_query() -> None:
    async with rest_over(Region()) as client:
        described = (await client.get("/openapi.json")).json["paths"]["/v1/decisions"]["get"]
    names = {one["name"]: one["in"] for one in described["parameters"]}
    assert names["clusters.clusters"] == names["fromEarliest"] == "query"
    assert names["Last-Event-ID"] == "header"
    assert [*described["responses"]["200"]["content"]] == ["text/event-stream"]
