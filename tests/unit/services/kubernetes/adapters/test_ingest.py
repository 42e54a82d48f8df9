"""Facts are told until ingest has them or refuses them; one that is refused holds up no other."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from coplace.v1.ingest_service_pb2 import (
    Envelope,
    PublishRequest,
    PublishResponse,
    PublishStreamRequest,
    PublishStreamResponse,
    Rejection,
)
from coplace.v1.ingest_service_pb2_grpc import (
    IngestServiceServicer,
    add_IngestServiceServicer_to_server,
)

from services.kubernetes.adapters import ingest
from services.kubernetes.adapters.ingest import FactRefusedError, FactSender
from shared.runtime.settings import Settings


class PlayedIngest(IngestServiceServicer):
    """Refuses what is called bad, and calls that hold what is called worse, as a whole."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.cuts = 0

    async def Publish(  # noqa: N802
        self, request: PublishRequest, context: grpc.aio.ServicerContext[object, object]
    ) -> PublishResponse:
        raise NotImplementedError

    async def PublishStream(  # noqa: N802
        self,
        request_iterator: AsyncIterator[PublishStreamRequest],
        context: grpc.aio.ServicerContext[PublishStreamRequest, PublishStreamResponse],
    ) -> PublishStreamResponse:
        names = [request.event.id async for request in request_iterator]
        if self.cuts:
            self.cuts -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "cut")
        if "worse" in names:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "it is worse")
        self.published += [name for name in names if name != "bad"]
        bad = [index for index, name in enumerate(names) if name == "bad"]
        return PublishStreamResponse(
            rejections=[Rejection(index=index, id="bad", reason="it is bad") for index in bad]
        )


async def test_each_is_told_once_it_is_acknowledged_over_cuts_and_refusals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ingest, "_RETRY_S", 0.01)
    played, server = PlayedIngest(), grpc.aio.server()
    add_IngestServiceServicer_to_server(played, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sender = FactSender(f"127.0.0.1:{port}", Settings())
    running = asyncio.create_task(sender.run())
    played.cuts = 2
    told = (sender.tell(Envelope(id=name)) for name in ("a", "bad", "b", "worse", "c"))
    results = await asyncio.gather(*told, return_exceptions=True)
    assert sorted(played.published) == ["a", "b", "c"]
    assert [isinstance(each, FactRefusedError) for each in results] == [
        *(False, True, False, True, False)
    ]
    assert "it is bad" in str(results[1])
    running.cancel()
    await server.stop(0)
