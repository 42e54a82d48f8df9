"""What every gRPC server of a region offers to other people's tools."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import grpc
import pytest
from coplace.v1.energy_service_pb2 import ProjectionSubject, ProjectRequest
from coplace.v1.ingest_service_pb2 import PublishRequest
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import ExplainRequest, QuoteRequest, ShowNodesRequest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub
from opentelemetry.metrics import NoOpMeter

from coplace_client.calls import UnansweredError
from coplace_client.channels import KEEP_ALIVE
from coplace_client.ingest import FactRefusedError, IngestClient, Patience, publish
from services.energy.api.meter import EnergyApiMeter
from services.energy.api.service import EnergyService
from services.ingest.meter import IngestMeter
from services.ingest.model import Intake
from services.ingest.service import IngestService
from services.placement.service import Duty, PlacementService
from shared.catalogue.topics import Topics
from shared.pricing.terms import PriceTerms
from shared.process import grpc_health, grpc_limits
from shared.process.grpc_errors import DOMAIN, RefusalReason
from shared.process.grpc_health import NAME as HEALTH
from shared.process.grpc_reflection import NAME as REFLECTION
from shared.process.settings import Settings
from tests.attacks.requests import attack
from tests.support.snippets import HOW_TO, programs
from tests.unit.services.calls import details_of, served_by_process
from tests.unit.services.energy.api.appdb import AppDB, coefficients
from tests.unit.services.ingest.envelopes import envelope
from tests.unit.services.ingest.test_service import Broker
from tests.unit.shared.placement.region import T0_US, placement, round_of, submitted

_SERVING: Final = HealthCheckResponse.SERVING
_NOT_SERVING: Final = HealthCheckResponse.NOT_SERVING
_HOSTILE: Final = 300


@dataclass
class Service:
    """One of the product's, and a question that it answers: by method, as JSON would say it."""

    name: str
    handlers: Callable[[], grpc.GenericRpcHandler]
    method: str
    question: dict[str, Any] = field(default_factory=dict)
    crashes: list[Exception] = field(default_factory=list)


def ingest(broker: Broker | None = None) -> Service:
    broker = broker or Broker()
    intake, meter = Intake(Topics(kafka_partitions=4)), IngestMeter(NoOpMeter("test"))
    service = IngestService(intake, broker, meter, broker.crashes.append)
    event = envelope("jobSubmitted")
    asked = {"event": event}
    return Service("IngestService", service.handlers, "Publish", asked, broker.crashes)


def deciding(duty: Duty | None = None) -> Service:
    if duty is None:
        duty, processor = Duty(), placement()
        round_of(processor, 0, submitted("a", T0_US))
        duty.begin(processor.queries)
    service = PlacementService(duty, 100, PriceTerms(Decimal(1)))
    return Service("PlacementService", service.handlers, "Explain", {"job_id": "a"})


def energy() -> Service:
    appdb, crashes = AppDB(), list[Exception]()
    appdb.learn(coefficients())
    appdb.measure("hpcg")
    meter = EnergyApiMeter(NoOpMeter("test"))
    service = EnergyService(appdb, meter, 1_000, crashes.append)
    asked = {"subjects": [ProjectionSubject(app_id="hpcg")]}
    return Service("EnergyService", service.handlers, "Project", asked, crashes)


@pytest.fixture(params=[ingest, deciding, energy], ids=["ingest", "placement", "energy.api"])
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    made: Service = request.param()
    yield made
    assert not made.crashes


@asynccontextmanager
async def connected(service: Service, **given: Any) -> AsyncIterator[tuple[Any, Any]]:
    """A channel to a service, and its process."""
    async with (
        served_by_process(service.handlers(), **given) as (address, process),
        grpc.aio.insecure_channel(address) as channel,
    ):
        yield channel, process


async def health(channel: Any, name: str = "") -> int:
    answer = await HealthStub(channel).Check(HealthCheckRequest(service=name), timeout=10)
    return int(answer.status)


async def refused(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


async def test_health_is_the_readiness_of_the_process(service: Service) -> None:
    name = f"coplace.v1.{service.name}"
    async with connected(service) as (channel, process):
        assert [await health(channel, each) for each in ("", name)] == [_SERVING] * 2
        process.readiness.wait_for("Kafka")
        assert [await health(channel, each) for each in ("", name)] == [_NOT_SERVING] * 2
        process.readiness.ready()
        assert await health(channel, name) == _SERVING
        process.readiness.refuse("data were replaced")
        assert await health(channel) == _NOT_SERVING
        error = await refused(health(channel, "coplace.v1.Nobody"))
    assert error.code() is grpc.StatusCode.NOT_FOUND


async def test_all_that_watch_see_each_change_and_the_end(service: Service) -> None:
    running = served_by_process(service.handlers())
    address, process = await running.__aenter__()
    async with grpc.aio.insecure_channel(address) as channel:
        asked = HealthCheckRequest(service=f"coplace.v1.{service.name}")
        left, *watched = (HealthStub(channel).Watch(asked, timeout=30) for _ in range(3))
        for each in (left, *watched):
            assert (await each.read()).status == _SERVING
        left.cancel()
        process.readiness.wait_for("Kafka")
        assert [(await each.read()).status for each in watched] == [_NOT_SERVING] * 2
        process.readiness.ready()
        assert [(await each.read()).status for each in watched] == [_SERVING] * 2
        began_s = time.monotonic()
        await running.__aexit__(None, None, None)
        assert time.monotonic() - began_s < 3.0
        for each in watched:
            assert (await each.read()).status == _NOT_SERVING
            assert await each.read() is grpc.aio.EOF


async def test_a_service_that_is_not_there_is_watched_as_unknown() -> None:
    async with connected(energy()) as (channel, _):
        call = HealthStub(channel).Watch(HealthCheckRequest(service="nobody"), timeout=10)
        assert (await call.read()).status == HealthCheckResponse.SERVICE_UNKNOWN
        call.cancel()


async def test_a_standby_is_healthy_and_does_not_serve() -> None:
    duty, processor = Duty(), placement()
    service = deciding(duty)
    async with connected(service, is_on_duty=lambda: duty.queries is not None) as (channel, _):
        name = "coplace.v1.PlacementService"
        assert [await health(channel), await health(channel, name)] == [_SERVING, _NOT_SERVING]
        duty.begin(processor.queries)
        assert await health(channel, name) == _SERVING
        duty.end()
        assert await health(channel, name) == _NOT_SERVING


async def test_a_client_without_our_schemas_lists_describes_and_calls(service: Service) -> None:
    name = f"coplace.v1.{service.name}"
    async with connected(service) as (channel, _):
        [listed] = await _reflected(channel, ServerReflectionRequest(list_services="*"))
        served = {each.name for each in listed.list_services_response.service}
        assert served == {name, HEALTH, REFLECTION}
        pool = DescriptorPool()
        [files] = await _reflected(channel, ServerReflectionRequest(file_containing_symbol=name))
        _learn(pool, files)
        method = pool.FindServiceByName(name).methods_by_name[service.method]
        # Its own classes of these messages, made of what the server says.
        request = GetMessageClass(method.input_type)()
        for field_name, value in service.question.items():
            own = getattr(request, field_name)
            if isinstance(value, Message):
                own.MergeFromString(value.SerializeToString())
            elif isinstance(value, list):
                for each in value:
                    own.add().MergeFromString(each.SerializeToString())
            else:
                setattr(request, field_name, value)
        call: Any = channel.unary_unary(f"/{name}/{service.method}")
        answer = await call(request.SerializeToString(), timeout=10)
    found = GetMessageClass(method.output_type).FromString(answer)
    assert bool(found.ListFields()) is (service.method != "Publish")


def _learn(pool: DescriptorPool, answer: ServerReflectionResponse) -> None:
    protos = [
        FileDescriptorProto.FromString(data)
        for data in answer.file_descriptor_response.file_descriptor_proto
    ]
    by_name, added = {each.name: each for each in protos}, set[str]()

    def add(proto: FileDescriptorProto) -> None:
        if proto.name not in added:
            added.add(proto.name)
            for dependency in proto.dependency:
                add(by_name[dependency])
            pool.Add(proto)

    for proto in protos:
        add(proto)


async def _reflected(
    channel: Any, *requests: ServerReflectionRequest
) -> list[ServerReflectionResponse]:
    call = ServerReflectionStub(channel).ServerReflectionInfo(iter(requests), timeout=10)
    return [each async for each in call]


async def test_an_event_is_refused_with_every_violated_field() -> None:
    event = envelope("jobSubmitted", nodes=0, walltimeS=-1.0, user="")
    event.source = ""
    async with connected(ingest()) as (channel, _):
        call = channel.unary_unary(
            "/coplace.v1.IngestService/Publish",
            request_serializer=PublishRequest.SerializeToString,
        )
        error = await refused(call(PublishRequest(event=event)))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert str(error.details()).startswith("job_submitted.user: must be 1 to 256 printable")
    bad = details_of(error)["BadRequest"]
    submitted_job = "event.job_submitted"
    assert [each.field for each in bad.field_violations] == [
        *(f"{submitted_job}.user", f"{submitted_job}.nodes", f"{submitted_job}.walltime_s"),
        "event.source",
    ]
    assert all(each.description for each in bad.field_violations)


async def test_our_client_hands_on_what_is_for_programs_and_reads_the_words() -> None:
    event = envelope("jobSubmitted", nodes=0, user="")
    async with served_by_process(ingest().handlers()) as (address, _):
        async with IngestClient(address, Settings(), Patience()) as client:
            with pytest.raises(FactRefusedError, match=r"job_submitted\.user") as refusal:
                await client.publish(event)
        with pytest.raises(UnansweredError, match=r"job_submitted\.user") as unanswered:
            await asyncio.to_thread(publish, address, Settings(), event)
    assert unanswered.value.status == refusal.value.status
    bad = BadRequest()
    assert Status.FromString(refusal.value.status).details[0].Unpack(bad)
    assert len(bad.field_violations) == 2


async def test_a_quote_and_a_projection_are_refused_with_every_violated_field() -> None:
    job = JobSubmitted(job_id="j", user="", nodes=0)
    async with connected(deciding()) as (channel, _):
        ask = channel.unary_unary("/coplace.v1.PlacementService/Quote")
        error = await refused(ask(QuoteRequest(job=job).SerializeToString()))
    fields = {each.field for each in details_of(error)["BadRequest"].field_violations}
    assert {"job.user", "job.nodes", "job.walltime_s"} <= fields
    request = ProjectRequest(subjects=[ProjectionSubject(), ProjectionSubject(app_id="hpcg")])
    request.subjects.add().signature.app_id = "mine"
    request.pstates_ghz.extend([2.0, -1.0])
    async with connected(energy()) as (channel, _):
        ask = channel.unary_unary("/coplace.v1.EnergyService/Project")
        error = await refused(ask(request.SerializeToString()))
    fields = {each.field for each in details_of(error)["BadRequest"].field_violations}
    assert {
        *("subjects[0]", "subjects[2].signature.node_model", "subjects[2].signature.at.time_s"),
        "pstates_ghz[1]",
    } <= fields
    assert str(error.details()).startswith("subjects[0]: ")


async def test_more_violations_than_an_answer_carries_are_cut_and_said() -> None:
    event = envelope("jobStarted", nodes=["\n" * 400] * 500)
    async with connected(ingest()) as (channel, _):
        publish = channel.unary_unary("/coplace.v1.IngestService/Publish")
        error = await refused(publish(PublishRequest(event=event).SerializeToString()))
    violations = details_of(error)["BadRequest"].field_violations
    assert 5 < len(violations) < 40
    assert "more fields are violated" in violations[-1].description


async def test_other_refusals_have_a_reason_that_programs_read() -> None:
    async with connected(deciding()) as (channel, _):
        explain = channel.unary_unary("/coplace.v1.PlacementService/Explain")
        unknown = await refused(explain(ExplainRequest(job_id="nobody").SerializeToString()))
        show = channel.unary_unary("/coplace.v1.PlacementService/ShowNodes")
        nowhere = await refused(show(ShowNodesRequest(cluster="nowhere").SerializeToString()))
    for error, reason in (
        (unknown, RefusalReason.JOB_UNKNOWN),
        (nowhere, RefusalReason.CLUSTER_UNKNOWN),
    ):
        info = details_of(error)["ErrorInfo"]
        assert (info.reason, info.domain) == (reason, DOMAIN)
        assert "RetryInfo" not in details_of(error)
    async with connected(deciding(Duty())) as (channel, _):
        explain = channel.unary_unary("/coplace.v1.PlacementService/Explain")
        standby = await refused(explain(b""))
    found = details_of(standby)
    assert found["ErrorInfo"].reason == RefusalReason.STANDBY
    assert found["RetryInfo"].retry_delay.seconds > 0


async def test_one_client_takes_not_all_calls_and_gets_them_again_when_its_own_end() -> None:
    broker = Broker(is_slow=True)
    request = PublishRequest(event=envelope("jobSubmitted")).SerializeToString()
    async with connected(ingest(broker), grpc_calls_per_client=3) as (channel, _):
        call = channel.unary_unary("/coplace.v1.IngestService/Publish")
        waiting = [asyncio.ensure_future(_outcome(call(request, timeout=20))) for _ in range(3)]
        while len(broker.taken) < 3:  # noqa: ASYNC110 the broker of this test says nothing
            await asyncio.sleep(0.01)
        error = await refused(call(request, timeout=20))
        broker.acknowledges.set()
        assert await asyncio.gather(*waiting) == ["OK"] * 3
        assert await _outcome(call(request, timeout=20)) == "OK"
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert {"ErrorInfo", "RetryInfo"} == details_of(error).keys()
    assert details_of(error)["ErrorInfo"].reason == RefusalReason.TOO_MANY_CALLS
    assert "COPLACE_GRPC_CALLS_PER_CLIENT" in str(error.details())


async def test_of_few_calls_a_quarter_is_left_for_other_clients() -> None:
    broker = Broker(is_slow=True)
    request = PublishRequest(event=envelope("jobSubmitted")).SerializeToString()
    async with connected(ingest(broker), most_calls=8) as (channel, _):
        call = channel.unary_unary("/coplace.v1.IngestService/Publish")
        calls = [asyncio.ensure_future(_outcome(call(request, timeout=20))) for _ in range(8)]
        while sum(each.done() for each in calls) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        broker.acknowledges.set()
        outcomes = await asyncio.gather(*calls)
    assert sorted(outcomes) == ["OK"] * 6 + ["RESOURCE_EXHAUSTED"] * 2


class _From:
    """A call of some address, without a deadline of its own, and how it was refused."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.refused: list[Any] = []

    def peer(self) -> str:
        return f"ipv4:{self._address}:4711"

    def time_remaining(self) -> None:
        return None

    async def abort(self, *status: Any) -> None:
        self.refused += status[:2]
        raise ConnectionAbortedError


async def test_all_clients_together_get_no_more_calls_than_the_server_answers() -> None:
    go_on = asyncio.Event()

    async def slow(_request: bytes, _context: object) -> bytes:
        await go_on.wait()
        return b"done"

    async def continuation(_details: object) -> Any:
        return grpc.unary_unary_rpc_method_handler(slow)

    limits: Any = grpc_limits.CallLimits(3, 2, lambda _context: "")
    handler = await limits.intercept_service(continuation, SimpleNamespace(method="/a/B"))
    callers = [_From(address) for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3")]
    calls = [asyncio.ensure_future(handler.unary_unary(b"", each)) for each in callers]
    await asyncio.sleep(0)
    go_on.set()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert answers[:3] == [b"done"] * 3
    assert isinstance(answers[3], asyncio.CancelledError)
    code, words = callers[3].refused
    assert (code, words) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "3 calls are open, of all clients: try again",
    )
    assert await handler.unary_unary(b"", _From("10.0.0.3")) == b"done"


async def test_a_server_without_free_calls_answers_health() -> None:
    broker = Broker(is_slow=True)
    request = PublishRequest(event=envelope("jobSubmitted")).SerializeToString()
    async with connected(ingest(broker), most_calls=1) as (channel, _):
        call = channel.unary_unary("/coplace.v1.IngestService/Publish")
        waiting = asyncio.ensure_future(_outcome(call(request, timeout=20)))
        while not broker.taken:  # noqa: ASYNC110 the broker of this test says nothing
            await asyncio.sleep(0.01)
        assert [await health(channel) for _ in range(5)] == [_SERVING] * 5
        broker.acknowledges.set()
        assert await waiting == "OK"


async def test_clients_that_watch_take_no_calls_and_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_health, "MOST_WATCHERS", 8)
    request = PublishRequest(event=envelope("jobSubmitted")).SerializeToString()
    async with connected(ingest(), most_calls=2) as (channel, _):
        watched = [HealthStub(channel).Watch(HealthCheckRequest(), timeout=30) for _ in range(8)]
        for each in watched:
            assert (await each.read()).status == _SERVING
        more = HealthStub(channel).Watch(HealthCheckRequest(), timeout=30)
        error = await refused(more.read())
        call = channel.unary_unary("/coplace.v1.IngestService/Publish")
        assert await _outcome(call(request, timeout=20)) == "OK"
        for each in watched:
            each.cancel()
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert details_of(error)["ErrorInfo"].reason == RefusalReason.SERVER_BUSY


async def _outcome(call: Any) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"


async def test_a_call_without_a_deadline_ends_and_one_with_its_own_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_limits, "LONGEST_CALL_S", 0.3)
    broker = Broker(is_slow=True)
    request = PublishRequest(event=envelope("jobSubmitted")).SerializeToString()
    async with connected(ingest(broker)) as (channel, _):
        call = channel.unary_unary("/coplace.v1.IngestService/Publish")
        longer = asyncio.ensure_future(_outcome(call(request, timeout=20)))
        error = await refused(call(request))
        assert not longer.done()
        broker.acknowledges.set()
        assert await longer == "OK"
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert details_of(error)["ErrorInfo"].reason == RefusalReason.LONGEST_CALL
    assert not broker.crashes


@pytest.mark.parametrize("seed", range(3))
async def test_hostile_bytes_end_no_process_and_are_nobodys_internal_error(
    service: Service, seed: int
) -> None:
    rng, answers = Random(f"{seed} {service.name}"), set[str]()
    async with connected(service) as (channel, _):
        for _ in range(_HOSTILE // 3):
            unary, unary_stream, both = (_distorted(rng, service) for _ in range(3))
            name = f"/coplace.v1.{service.name}/{service.method}"
            answers.add(await _outcome(channel.unary_unary(name)(unary, timeout=10)))
            check = channel.unary_unary(f"/{HEALTH}/Check")
            answers.add(await _outcome(check(unary_stream, timeout=10)))
            reflect: Any = channel.stream_stream(f"/{REFLECTION}/ServerReflectionInfo")
            answers.add(await _streamed(reflect(iter([both]), timeout=10)))
            watch: Any = channel.unary_stream(f"/{HEALTH}/Watch")(unary_stream, timeout=10)
            with suppress(grpc.aio.AioRpcError):
                await watch.read()
            watch.cancel()
        assert await health(channel) == _SERVING
    assert "INVALID_ARGUMENT" in answers
    assert answers <= {"OK", "INVALID_ARGUMENT", "NOT_FOUND"}


async def test_hostile_events_are_refused_and_nobodys_internal_error() -> None:
    broker = Broker()
    async with served_by_process(ingest(broker).handlers()) as (address, _):
        answers = await attack(address, 1_000, seed=7)
    assert answers["INVALID_ARGUMENT"] > 100
    assert not {"INTERNAL", "UNKNOWN"} & answers.keys()
    assert not broker.crashes


async def _streamed(call: Any) -> str:
    try:
        async for _ in call:
            pass
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"


def _distorted(rng: Random, service: Service) -> bytes:
    """Well-formed requests of any of the services with bytes changed, cut off or added."""
    whole = [
        PublishRequest(event=envelope("jobSubmitted")),
        HealthCheckRequest(service=f"coplace.v1.{service.name}"),
        ServerReflectionRequest(file_containing_symbol=f"coplace.v1.{service.name}"),
        ServerReflectionRequest(file_by_filename=rng.choice(["", "\x00", "../..", "a" * 5_000])),
        _extension(rng, service),
        ServerReflectionRequest(all_extension_numbers_of_type=rng.choice(["", ".", service.name])),
        ExplainRequest(job_id="a" * rng.choice([0, 1, 5_000])),
        ProjectRequest(subjects=[ProjectionSubject(app_id="hpcg")], pstates_ghz=[-1.0]),
    ]
    data = bytearray(rng.choice(whole).SerializeToString())
    for _ in range(rng.choice([0, 1, 1, 4])):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data)


def _extension(rng: Random, service: Service) -> ServerReflectionRequest:
    found = ServerReflectionRequest()
    kinds = ["", "google.protobuf.FieldOptions", f"coplace.v1.{service.name}", "."]
    found.file_containing_extension.containing_type = rng.choice(kinds)
    numbers = [0, -1, 1, 2**31 - 1, -(2**31), 50_000]
    found.file_containing_extension.extension_number = rng.choice(numbers)
    return found


def test_our_clients_look_no_more_often_than_servers_allow() -> None:
    from shared.process import grpc_server

    allowed_ms = dict(grpc_server.OPTIONS)["grpc.http2.min_ping_interval_without_data_ms"]
    assert dict(KEEP_ALIVE)["grpc.keepalive_time_ms"] == 30_000 > allowed_ms


@pytest.mark.thorough
async def test_a_connection_without_calls_is_kept_where_its_client_looks_every_30_s() -> None:
    async with served_by_process(energy().handlers()) as (address, _):
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(_SETTINGS))
        acknowledged: list[bytes] = []
        connection = asyncio.ensure_future(_answered(reader, writer, acknowledged))
        pings = [number.to_bytes(8) for number in range(6)]
        for ping in pings:
            await asyncio.sleep(30.0)
            writer.write(frame(_PING, ping))
        await asyncio.sleep(1.0)
        connection.cancel()
        with suppress(asyncio.CancelledError):
            await connection
        writer.close()
    assert acknowledged == pings


# Frames of HTTP/2: RFC 9113, section 6.
_SETTINGS: Final = 4
_PING: Final = 6
_GO_AWAY: Final = 7
_ACK: Final = 1


def frame(kind: int, content: bytes = b"", flags: int = 0) -> bytes:
    """A frame of the connection itself."""
    return len(content).to_bytes(3) + bytes([kind, flags, 0, 0, 0, 0]) + content


async def _answered(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, acknowledged: list[bytes]
) -> None:
    """Answer what the server sends as a client has to, and keep which pings it answered."""
    while True:
        head = await reader.readexactly(9)
        content, kind, flags = await reader.readexactly(int.from_bytes(head[:3])), head[3], head[4]
        assert kind != _GO_AWAY, content
        if kind == _PING and flags == _ACK:
            acknowledged.append(content)
        elif kind in (_PING, _SETTINGS) and flags != _ACK:
            writer.write(frame(kind, content if kind == _PING else b"", _ACK))


async def test_the_program_of_the_document_reads_every_violated_field() -> None:
    documented: dict[str, Any] = {}
    exec(programs(HOW_TO / "grpc.md")["violations.py"], documented)
    request = PublishRequest(event=envelope("jobSubmitted", nodes=0, user=""))
    async with connected(ingest()) as (channel, _):
        publish_one = channel.unary_unary("/coplace.v1.IngestService/Publish")
        error = await refused(publish_one(request.SerializeToString()))
    found = documented["violations"](error)
    assert found.keys() == {"event.job_submitted.user", "event.job_submitted.nodes"}


def test_every_reason_is_documented() -> None:
    text = (HOW_TO / "grpc.md").read_text()
    assert [each for each in RefusalReason if f"`{each}`" not in text] == []
