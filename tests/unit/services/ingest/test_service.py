"""Both RPCs over a real channel, with a broker that the test plays."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
from coplace.v1.ingest_service_pb2 import (
    Envelope,
    PublishRequest,
    PublishStreamRequest,
    PublishStreamResponse,
)
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub
from opentelemetry.metrics import NoOpMeter

from services.ingest.meter import IngestMeter
from services.ingest.model import Intake
from services.ingest.service import IngestService, StreamLimits
from shared.catalogue.event import Publish
from shared.catalogue.topics import Topics
from tests.unit.services.calls import refusal, served
from tests.unit.services.ingest.envelopes import envelope

if TYPE_CHECKING:
    from coplace.v1.ingest_service_pb2_grpc import IngestServiceAsyncStub


@dataclass
class Broker:
    """Takes events; acknowledges them when the test lets it."""

    taken: list[Publish] = field(default_factory=list)
    acknowledges: asyncio.Event = field(default_factory=asyncio.Event)
    is_slow: bool = False
    fails_with: Exception | None = None
    crashes: list[Exception] = field(default_factory=list)
    streams: StreamLimits = field(default_factory=StreamLimits)

    async def send(self, publish: Publish) -> Awaitable[object]:
        """Take an event."""
        self.taken.append(publish)
        return self._acknowledge()

    async def _acknowledge(self) -> None:
        if self.is_slow:
            await self.acknowledges.wait()
        if self.fails_with:
            raise self.fails_with


@asynccontextmanager
async def serving(broker: Broker) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a running service."""
    intake = Intake(Topics(kafka_partitions=4))
    meter = IngestMeter(NoOpMeter("test"))
    service = IngestService(intake, broker, meter, broker.crashes.append, broker.streams)
    async with served(service.handlers(), most_bytes=1_048_576) as channel:
        yield channel


def _client(channel: grpc.aio.Channel) -> "IngestServiceAsyncStub":
    return IngestServiceStub(channel)


def requests(envelopes: Iterable[Envelope]) -> Iterable[PublishStreamRequest]:
    """A stream of envelopes."""
    return [PublishStreamRequest(event=found) for found in envelopes]


async def test_an_event_is_acknowledged_only_after_the_broker_has_it() -> None:
    broker = Broker(is_slow=True)
    async with serving(broker) as channel:
        call = asyncio.ensure_future(
            _client(channel).Publish(PublishRequest(event=envelope("jobSubmitted")))
        )
        await asyncio.sleep(0.1)
        assert broker.taken
        assert not call.done()
        broker.acknowledges.set()
        await call


async def test_an_invalid_event_is_refused_with_the_field_named() -> None:
    broker = Broker()
    async with serving(broker) as channel:
        invalid = PublishRequest(event=envelope("jobSubmitted", nodes=0))
        code, why = await refusal(_client(channel).Publish(invalid))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "job_submitted.nodes" in why
    assert not broker.taken
    assert not broker.crashes


async def test_in_a_stream_the_invalid_ones_are_listed_and_the_others_published() -> None:
    broker = Broker()
    stream = [envelope("jobSubmitted"), envelope("jobStarted", nodes=[]), envelope("jobFinished")]
    async with serving(broker) as channel:
        response: PublishStreamResponse = await _client(channel).PublishStream(
            iter(requests(stream))
        )
    assert response.published == 2
    (rejection,) = response.rejections
    assert (rejection.index, rejection.id) == (1, stream[1].id)
    assert rejection.reason.startswith("job_started.nodes")
    assert [publish.event.id for publish in broker.taken] == [stream[0].id, stream[2].id]


async def test_a_stream_of_nothing_but_refusals_is_broken_off() -> None:
    broker = Broker()
    async with serving(broker) as channel:
        stream = requests([envelope("jobStarted", nodes=[])] * 1_001)
        _, why = await refusal(_client(channel).PublishStream(iter(stream)))
    assert "more than 1000 events" in why


async def test_an_answer_counts_all_refusals_and_lists_what_any_client_takes() -> None:
    broker = Broker()
    bad = envelope("jobStarted", nodes=[])
    bad.id = "\U0001f600" * 1_024
    async with serving(broker) as channel:
        response = await _client(channel).PublishStream(iter(requests([bad] * 999)))
    assert (response.rejected, response.published) == (999, 0)
    assert 50 < len(response.rejections) < 999
    assert response.ByteSize() < 300_000


async def test_a_stream_on_which_nothing_comes_is_ended_and_keeps_what_came() -> None:
    broker = Broker(streams=StreamLimits(idle_s=0.1))

    async def one_and_no_more() -> AsyncIterator[PublishStreamRequest]:
        yield PublishStreamRequest(event=envelope("jobSubmitted"))
        await asyncio.sleep(30)

    async with serving(broker) as channel:
        code, _ = await refusal(_client(channel).PublishStream(one_and_no_more()))
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert len(broker.taken) == 1
    assert not broker.crashes


async def test_more_streams_than_may_be_open_are_asked_to_return() -> None:
    broker = Broker(streams=StreamLimits(most=1))

    async def nothing() -> AsyncIterator[PublishStreamRequest]:
        await asyncio.sleep(30)
        yield PublishStreamRequest()

    async with serving(broker) as channel:
        first = _client(channel).PublishStream(nothing())
        await asyncio.sleep(0.1)
        code, _ = await refusal(_client(channel).PublishStream(iter([])))
        assert code is grpc.StatusCode.UNAVAILABLE
        first.cancel()
        await asyncio.sleep(0.1)
        answer = await _client(channel).PublishStream(iter([]))
    assert answer.published == 0
    assert not broker.crashes


async def test_many_refused_streams_are_reported_so_or_break_off_in_their_own_client() -> None:
    broker = Broker(streams=StreamLimits(most=1))
    answers = set[tuple[grpc.StatusCode, str]]()

    async with serving(broker) as channel:

        async def stream() -> None:
            try:
                await _client(channel).PublishStream(iter(requests([envelope("jobStarted")] * 100)))
            except grpc.aio.AioRpcError as error:
                answers.add((error.code(), error.details() or ""))

        for _ in range(3):
            await asyncio.gather(*(stream() for _ in range(40)))
    refused = grpc.StatusCode.UNAVAILABLE, "1 streams are open: try again, or publish one by one"
    assert refused in answers
    assert answers <= {refused, (grpc.StatusCode.INTERNAL, "Internal error from Core")}
    assert broker.crashes == []


async def test_bytes_that_are_no_protobuf_are_refused_and_the_stream_goes_on() -> None:
    broker = Broker()
    good = PublishStreamRequest(event=envelope("jobSubmitted")).SerializeToString()
    async with serving(broker) as channel:
        call: Any = channel.stream_unary("/coplace.v1.IngestService/PublishStream")
        answer = await call(iter([b"\xff\xff", good, good.replace(b"physics", b"\xff" * 7)]))
    response = PublishStreamResponse.FromString(answer)
    assert response.published == 1
    assert [rejection.index for rejection in response.rejections] == [0, 2]


async def test_a_message_beyond_the_limit_is_refused() -> None:
    broker = Broker()
    large = PublishRequest(event=envelope("jobRequeued", reason="x" * 2_000_000))
    async with serving(broker) as channel:
        code, _ = await refusal(_client(channel).Publish(large))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not broker.taken


async def test_a_send_that_failed_ends_the_process() -> None:
    broker = Broker(fails_with=ConnectionError("no broker"))
    async with serving(broker) as channel:
        await refusal(_client(channel).Publish(PublishRequest(event=envelope("jobSubmitted"))))
    assert broker.crashes == [broker.fails_with]
