"""Facts are published until ingest has them or refuses them; one that is refused holds up no
other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import grpc
import pytest
from coplace.v1.ingest_service_pb2 import (
    Envelope,
    PublishRequest,
    PublishResponse,
    PublishStreamRequest,
    PublishStreamResponse,
    Rejection,
    ShowAuthorityRequest,
    ShowAuthorityResponse,
    ShowIssuerRequest,
    ShowIssuerResponse,
    ShowOutcomeRequest,
    ShowOutcomeResponse,
)
from coplace.v1.ingest_service_pb2_grpc import (
    IngestServiceServicer,
    add_IngestServiceServicer_to_server,
)

from coplace_client.calls import UnansweredError
from coplace_client.ingest import (
    FactRefusedError,
    FactSender,
    IngestClient,
    Patience,
    publish,
    publish_all,
)
from shared.process.settings import Settings

SOON = Patience(pause_s=0.01, most_pause_s=0.01)


class PlayedIngest(IngestServiceServicer):
    """Refuses what is called bad, and calls that hold what is called worse, as a whole; lists at
    most so many refusals."""

    def __init__(self, most_listed: int = 1_000) -> None:
        self.published: list[str] = []
        self.fails: list[grpc.StatusCode] = []
        self.peers: list[str] = []
        self.most_listed = most_listed
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def Publish(  # noqa: N802
        self,
        request: PublishRequest,
        context: grpc.aio.ServicerContext[PublishRequest, PublishResponse],
    ) -> PublishResponse:
        await self._fail(context)
        if request.event.id == "bad":
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "it is bad")
        self.published.append(request.event.id)
        return PublishResponse()

    async def PublishStream(  # noqa: N802
        self,
        request_iterator: AsyncIterator[PublishStreamRequest],
        context: grpc.aio.ServicerContext[PublishStreamRequest, PublishStreamResponse],
    ) -> PublishStreamResponse:
        names = [request.event.id async for request in request_iterator]
        await self._fail(context)
        if "worse" in names:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "it is worse")
        self.published += [name for name in names if name != "bad"]
        bad = [index for index, name in enumerate(names) if name == "bad"]
        listed = [Rejection(index=i, id="bad", reason="it is bad") for i in bad[: self.most_listed]]
        return PublishStreamResponse(rejected=len(bad), rejections=listed)

    async def ShowIssuer(  # noqa: N802
        self,
        request: ShowIssuerRequest,
        context: grpc.aio.ServicerContext[ShowIssuerRequest, ShowIssuerResponse],
    ) -> ShowIssuerResponse:
        return ShowIssuerResponse()

    async def ShowAuthority(  # noqa: N802
        self,
        request: ShowAuthorityRequest,
        context: grpc.aio.ServicerContext[ShowAuthorityRequest, ShowAuthorityResponse],
    ) -> ShowAuthorityResponse:
        return ShowAuthorityResponse()

    async def ShowOutcome(  # noqa: N802
        self,
        request: ShowOutcomeRequest,
        context: grpc.aio.ServicerContext[ShowOutcomeRequest, ShowOutcomeResponse],
    ) -> ShowOutcomeResponse:
        return ShowOutcomeResponse()

    async def _fail(self, context: Any) -> None:
        self.peers.append(context.peer())
        if self.fails:
            await context.abort(self.fails.pop(0), "cut")


@asynccontextmanager
async def served(played: PlayedIngest) -> AsyncIterator[PlayedIngest]:
    server = grpc.aio.server()
    add_IngestServiceServicer_to_server(played, server)
    played.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield played
    await server.stop(0)


def events(*names: str) -> list[Envelope]:
    return [Envelope(id=name) for name in names]


async def test_each_is_published_once_it_is_acknowledged_over_cuts_and_refusals() -> None:
    async with served(PlayedIngest()) as played:
        sender = FactSender(IngestClient(played.address, Settings(), SOON))
        running = asyncio.create_task(sender.run())
        played.fails = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL]
        told = map(sender.tell, events("a", "bad", "b", "worse", "c"))
        results = await asyncio.gather(*told, return_exceptions=True)
        running.cancel()
    assert sorted(played.published) == ["a", "b", "c"]
    assert [isinstance(each, FactRefusedError) for each in results] == [
        *(False, True, False, True, False)
    ]
    assert str(results[1]) == "bad: it is bad"


async def test_many_are_reported_in_order_and_why_some_were_refused() -> None:
    async with (
        served(PlayedIngest()) as played,
        IngestClient(played.address, Settings(), SOON) as client,
    ):
        assert await client.publish_all(events("a", "bad", "b")) == {1: "it is bad"}
        assert await client.publish_all(events("c", "worse", "d")) == {1: "it is worse"}
    assert played.published == ["a", "b", "c", "d"]


async def test_refusals_that_an_answer_has_no_space_for_are_found_out() -> None:
    async with (
        served(PlayedIngest(most_listed=1)) as played,
        IngestClient(played.address, Settings(), SOON) as client,
    ):
        refused = await client.publish_all(events("bad", "a", "bad"))
    assert refused == {0: "it is bad", 2: "it is bad"}
    assert "a" in played.published


async def test_behind_a_failure_it_speaks_over_another_channel() -> None:
    async with (
        served(PlayedIngest()) as played,
        IngestClient(played.address, Settings(), SOON) as client,
    ):
        played.fails = [grpc.StatusCode.UNAVAILABLE]
        await client.publish_all(events("a"))
        await client.publish_all(events("b"))
    first, second, third = played.peers
    assert first != second == third


async def test_what_is_not_tried_again_is_reported_with_its_address() -> None:
    patience = Patience(tried_again=frozenset({grpc.StatusCode.UNAVAILABLE}))
    async with (
        served(PlayedIngest()) as played,
        IngestClient(played.address, Settings(), patience) as client,
    ):
        played.fails = [grpc.StatusCode.INTERNAL]
        with pytest.raises(UnansweredError, match=rf"{played.address}: cut") as raised:
            await client.publish_all(events("a"))
    assert raised.value.code is grpc.StatusCode.INTERNAL
    assert played.published == []


async def test_one_that_is_published_alone_is_tried_once() -> None:
    async with (
        served(PlayedIngest()) as played,
        IngestClient(played.address, Settings(), SOON) as client,
    ):
        played.fails = [grpc.StatusCode.RESOURCE_EXHAUSTED]
        with pytest.raises(UnansweredError):
            await client.publish(Envelope(id="a"))
        assert played.published == []
        await client.publish(Envelope(id="a"))
        with pytest.raises(FactRefusedError, match="it is bad"):
            await client.publish(Envelope(id="bad"))
    assert played.published == ["a"]


async def test_what_waits_for_an_answer_learns_what_was_refused_and_that_nobody_is_there() -> None:
    async with served(PlayedIngest()) as played:
        address = played.address
        await asyncio.to_thread(publish, address, Settings(), Envelope(id="a"))
        with pytest.raises(UnansweredError, match="it is bad"):
            await asyncio.to_thread(publish, address, Settings(), Envelope(id="bad"))
        told = await asyncio.to_thread(publish_all, address, Settings(), events("b", "bad"))
        assert told == {1: "it is bad"}
        played.fails = [grpc.StatusCode.ABORTED]
        with pytest.raises(UnansweredError, match="cut"):
            await asyncio.to_thread(publish_all, address, Settings(), events("c"))
    assert played.published == ["a", "b"]
    with pytest.raises(UnansweredError, match=rf"{address}.*: is the service up there\?"):
        publish(address, Settings(), Envelope(id="a"))


def test_pauses_double_up_to_the_most() -> None:
    pauses_s = Patience(pause_s=1.0, most_pause_s=5.0).pauses_s()
    assert list(islice(pauses_s, 5)) == [1.0, 2.0, 4.0, 5.0, 5.0]
