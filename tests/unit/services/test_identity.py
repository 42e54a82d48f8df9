"""A user who asks for another's job, by every method of every service and every route of REST,
known by a certificate, by a token of the table and by a token of an issuer."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

import grpc
import pytest
from coplace.v1.control_pb2 import CommandOutcome
from coplace.v1.energy_service_pb2 import ProjectionSubject, ProjectRequest
from coplace.v1.ingest_service_pb2 import (
    PublishRequest,
    PublishStreamRequest,
    PublishStreamResponse,
    ShowAuthorityRequest,
    ShowIssuerRequest,
    ShowOutcomeRequest,
    ShowOutcomeResponse,
)
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import (
    ExplainRequest,
    ListClustersRequest,
    ListJobsRequest,
    ListLicencesRequest,
    ListLimitsRequest,
    ListReservationsRequest,
    ListTariffsRequest,
    QuoteRequest,
    ShowNodesRequest,
    ShowPolicyRequest,
    ShowPowerRequest,
)
from coplace.v1.watch_service_pb2 import WatchDecisionsRequest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from opentelemetry.metrics import NoOpMeter

from coplace_client.channels import grpc_channel_credentials
from deploy.local.ports import free_ports
from services.energy.api.meter import EnergyApiMeter
from services.energy.api.service import EnergyService
from services.ingest.gate import Gate
from services.ingest.meter import IngestMeter
from services.ingest.model import Intake
from services.ingest.region import KnownRegion
from services.ingest.service import IngestService
from services.placement.service import Duty, PlacementService
from services.rest.calls import Services
from services.rest.routes import Route, routes
from services.watch.service import WatchService
from shared.authority.bearing import TokenGate
from shared.authority.binding import Binding, Role
from shared.authority.door import Door
from shared.authority.issuer import Issuer
from shared.authority.signed import Keys
from shared.authority.table import AuthorityTable, TableInForce, message_of
from shared.authority.tokens import BearerToken, digest_of, fresh_token
from shared.catalogue.event import Event
from shared.catalogue.schemas import service_descriptors
from shared.catalogue.topics import Topics
from shared.domain.eamc_policy import Policy
from shared.pricing.terms import PriceTerms
from shared.process.clock import now_us
from shared.process.grpc_server import grpc_server
from shared.process.life import Process
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
from tests.support.certificates import certificate_authority, identity
from tests.support.issuer import AUDIENCE, LocalIssuer
from tests.unit.services.energy.api.appdb import AppDB, coefficients
from tests.unit.services.ingest.envelopes import NOW_US, PAYLOADS, envelope
from tests.unit.services.ingest.test_service import Broker
from tests.unit.services.rest.served import Client, Outcomes, listening
from tests.unit.services.watch.fake_log import LIMITS, FakeLog
from tests.unit.services.watch.fake_log import Served as Watched
from tests.unit.shared.authority.test_bearing import Audit
from tests.unit.shared.placement.region import T0_US, placement, round_of, submitted

_HOUR_US: Final = 3_600_000_000
_ADAS, _BOBS = "site/ada/1/1767225600", "site/bob/2/1767225600"
_OF_ADA: Final = ("site/ada/*",)
_BINDINGS: Final = (
    Binding("olga", Role.OPERATOR, sites=("*",)),
    Binding("ada", Role.USER, accounts=("physics",), jobs=_OF_ADA),
    Binding("oidc:ada", Role.USER, accounts=("physics",), users=("ada",), jobs=_OF_ADA),
)
# By a certificate, by a token of the table, by one of the issuer.
_WAYS: Final = ("certificate", "token", "oidc")


class KnownOfJobs:
    """What ingest knows: two jobs of two users."""

    def __init__(self) -> None:
        self.known = KnownRegion(30 * 24 * _HOUR_US, 32)
        for job_id, user in ((_ADAS, "ada"), (_BOBS, "bob")):
            payload = JobSubmitted(job_id=job_id, user=user, account="physics")
            self.known.fold(Event(job_id, user, NOW_US, job_id, payload))

    async def ready(self) -> None:
        """All is read."""

    async def caught_up(self, _about: object) -> None:
        """Nothing is new."""


@dataclass
class Guarded:
    """All services under one table, and how ada shows who she is."""

    folder: Path
    issuer: LocalIssuer
    token: str
    audit: Audit
    broker: Broker
    outcomes: Outcomes
    by_certificate: dict[str, str] = field(default_factory=dict)
    by_token: dict[str, str] = field(default_factory=dict)
    crashes: list[Exception] = field(default_factory=list)

    def bearer(self, way: str, name: str = "ada") -> str:
        """What a header shows."""
        return f"Bearer {self.issuer.token(name) if way == 'oidc' else self.token}"

    def who(self, way: str) -> str:
        """As the table names her."""
        return "oidc:ada" if way == "oidc" else "ada"

    @asynccontextmanager
    async def channel(self, service: str, way: str, name: str = "ada") -> AsyncIterator[Any]:
        """A channel on which each call shows who asks, and the metadata for it."""
        settings = Settings(grpc_ca_file=self.folder / "ca.pem")
        if way == "certificate":
            pair = {"cert": f"{name}.pem", "key": f"{name}.key"}
            files = {f"grpc_{each}_file": self.folder / file for each, file in pair.items()}
            settings = settings.model_copy(update=files)
        credentials = grpc_channel_credentials(settings)
        assert credentials
        addresses = self.by_certificate if way == "certificate" else self.by_token
        async with grpc.aio.secure_channel(addresses[service], credentials) as channel:
            shown = () if way == "certificate" else (("authorization", self.bearer(way, name)),)
            yield channel, shown


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate authority, a server and clients."""
    folder = certificate_authority(tmp_path_factory.mktemp("authority"))
    for name in ("server", "ada", "oidc:ada"):
        identity(folder, name)
    return folder


@pytest.fixture(scope="module")
def idp() -> LocalIssuer:
    found = LocalIssuer(Path())
    found.url = "https://idp.example"
    return found


@pytest.fixture
async def region(authority: Path, idp: LocalIssuer) -> AsyncIterator[Guarded]:
    """Every service as its process serves it, with a port for certificates and one for tokens."""
    found = Guarded(authority, idp, fresh_token(), Audit(), Broker(), Outcomes())
    issuer, now = Issuer(idp.url, AUDIENCE), now_us()
    known = BearerToken(digest_of(found.token), "ada", now - 2, now + _HOUR_US)
    table = TableInForce()
    table.now = AuthorityTable.from_message(message_of(1, _BINDINGS, "", 0, [known], issuer))
    door = Door("test", table, found.audit, NoOpMeter("test"))
    door.signed.take(issuer, Keys(idp.jwks))
    async with AsyncExitStack() as stack:
        watched = Watched(FakeLog())
        await stack.enter_async_context(watched.running())
        for name, handlers in _services(found, door, watched).items():
            ports = free_ports(2)
            settings = Settings(
                grpc_cert_file=authority / "server.pem",
                grpc_key_file=authority / "server.key",
                grpc_ca_file=authority / "ca.pem",
                grpc_token_port=ports[1],
            )
            process = Process(settings, Telemetry("test", settings))
            gate = TokenGate(door, found.crashes.append)
            serving = grpc_server(process, "127.0.0.1", ports[0], handlers, gate=gate)
            await stack.enter_async_context(serving)
            found.by_certificate[name], found.by_token[name] = (f"localhost:{p}" for p in ports)
        yield found
    assert found.crashes == []


def _services(found: Guarded, door: Door, watched: Watched) -> Mapping[str, grpc.GenericRpcHandler]:
    meter, crash = NoOpMeter("test"), found.crashes.append
    processor = placement(policy=Policy.BASE)
    jobs = ((_ADAS, "ada"), (_BOBS, "bob"))
    round_of(processor, 0, *(submitted(job_id, T0_US, user=user) for job_id, user in jobs))
    duty, appdb = Duty(), AppDB()
    duty.begin(processor.queries)
    appdb.learn(coefficients())
    appdb.measure("hpcg")
    gate = Gate(door, cast(Any, None), cast(Any, KnownOfJobs()))
    intake = Intake(Topics(kafka_partitions=4))
    ingest = IngestService(
        *(intake, found.broker, IngestMeter(meter), crash),
        gate=gate,
        outcomes=cast(Any, found.outcomes),
    )
    watch = WatchService(watched.feed, cast(Any, watched.service)._meter, LIMITS, crash, door)
    return {
        "coplace.v1.PlacementService": PlacementService(
            duty, 100, PriceTerms(Decimal(1)), door
        ).handlers(),
        "coplace.v1.IngestService": ingest.handlers(),
        "coplace.v1.EnergyService": EnergyService(
            appdb, EnergyApiMeter(meter), 1_000, crash, door
        ).handlers(),
        "coplace.v1.WatchService": watch.handlers(),
    }


def of_job(job_id: str, user: str) -> JobSubmitted:
    """A job that somebody would submit, as another user."""
    event = envelope("jobSubmitted", jobId=job_id, user=user)
    return event.job_submitted


def published(kind: str, who: str, job_id: str) -> Any:
    """An event of somebody about a job."""
    event = envelope(kind, jobId=job_id)
    event.source, event.id = who, f"{who}/{kind}/1"
    return event


def asked(who: str) -> Mapping[str, Sequence[Message]]:
    """A question by each method: about a job of bob's wherever the method has a place for it."""
    cancelled = published("jobCancelled", who, _BOBS)
    return {
        "EnergyService.Project": [ProjectRequest(subjects=[ProjectionSubject(app_id="hpcg")])],
        "IngestService.Publish": [PublishRequest(event=cancelled)],
        "IngestService.PublishStream": [PublishStreamRequest(event=cancelled)],
        "IngestService.ShowOutcome": [ShowOutcomeRequest(event_id="bob/x/1")],
        "IngestService.ShowAuthority": [ShowAuthorityRequest()],
        "IngestService.ShowIssuer": [ShowIssuerRequest()],
        "PlacementService.Explain": [
            ExplainRequest(job_id=_BOBS),
            ExplainRequest(job_id="site/bob/nobody"),
        ],
        "PlacementService.ListJobs": [
            ListJobsRequest(),
            ListJobsRequest(user="bob"),
            ListJobsRequest(account="physics"),
            ListJobsRequest(page_size=10),
        ],
        "PlacementService.ListClusters": [ListClustersRequest()],
        "PlacementService.ListLimits": [ListLimitsRequest()],
        "PlacementService.ListTariffs": [ListTariffsRequest()],
        "PlacementService.ListReservations": [ListReservationsRequest(cluster="p1")],
        "PlacementService.ListLicences": [ListLicencesRequest(cluster="p1")],
        "PlacementService.ShowNodes": [ShowNodesRequest(cluster="p1")],
        "PlacementService.ShowPolicy": [ShowPolicyRequest()],
        "PlacementService.ShowPower": [ShowPowerRequest()],
        "PlacementService.Quote": [
            QuoteRequest(job=of_job(_BOBS, "bob")),
            QuoteRequest(job=of_job(_ADAS, "bob")),
        ],
        "WatchService.WatchDecisions": [
            WatchDecisionsRequest(user="bob"),
            WatchDecisionsRequest(user="bob", from_earliest=True),
        ],
    }


# What is of no job: whoever has a role is answered, and no answer says anything of bob's.
_OF_NO_JOB: Final = {
    "EnergyService.Project",
    "IngestService.ShowIssuer",
    "PlacementService.ListClusters",
    "PlacementService.ListTariffs",
    "PlacementService.ShowPolicy",
    "PlacementService.ShowPower",
}
# Answered as if there were nothing, or with a list of what was refused.
_ANSWERED: Final = {"IngestService.ShowOutcome", "IngestService.PublishStream"}
_DENIED: Final = grpc.StatusCode.PERMISSION_DENIED


async def answer(channel: Any, shown: Any, method: str, request: Message) -> bytes:
    """Make a call on bytes. Raises AioRpcError."""
    path, data = f"/coplace.v1.{method.replace('.', '/')}", request.SerializeToString()
    if method.endswith("WatchDecisions"):
        call = channel.unary_stream(path)(data, metadata=shown, timeout=30)
        return bytes(await call.read())
    if method.endswith("PublishStream"):
        return bytes(await channel.stream_unary(path)(iter([data]), metadata=shown, timeout=30))
    return bytes(await channel.unary_unary(path)(data, metadata=shown, timeout=30))


def test_every_method_is_asked() -> None:
    # Who may ask these is in tests of their own: history/test_who_may_ask.py,
    # webhooks/test_service.py.
    every = {
        method.full_name
        for each in service_descriptors()
        for method in each.methods
        if each.name not in ("HistoryService", "WebhookService")
    }
    assert {f"coplace.v1.{name}" for name in asked("ada")} == every


@pytest.mark.parametrize("way", _WAYS)
async def test_no_method_says_or_does_anything_of_anothers_job(region: Guarded, way: str) -> None:
    region.outcomes.known["bob/x/1"] = CommandOutcome(command_source="bob", reason="of bob")
    for method, requests in asked(region.who(way)).items():
        service = f"coplace.v1.{method.split('.')[0]}"
        async with region.channel(service, way) as (channel, shown):
            for request in requests:
                if method not in _OF_NO_JOB | _ANSWERED:
                    with pytest.raises(grpc.aio.AioRpcError) as error:
                        await answer(channel, shown, method, request)
                    assert error.value.code() is _DENIED, (method, error.value.details())
                    continue
                found = await answer(channel, shown, method, request)
                if method == "IngestService.ShowOutcome":
                    assert found == ShowOutcomeResponse().SerializeToString()
                elif method == "IngestService.PublishStream":
                    listed = PublishStreamResponse.FromString(found)
                    assert (listed.published, listed.rejected) == (0, 1)
                else:
                    assert b"bob" not in found
    assert region.broker.taken == []
    assert {one.who for one in region.audit.records} == {region.who(way)}
    assert {one.action for one in region.audit.records} >= {"Explain", "job_cancelled", "Quote"}


@pytest.mark.parametrize("way", _WAYS)
async def test_no_event_about_anothers_job_is_taken(region: Guarded, way: str) -> None:
    kinds = [kind for kind, fields in PAYLOADS.items() if "jobId" in fields]
    assert len(kinds) > 10
    async with region.channel("coplace.v1.IngestService", way) as (channel, shown):
        for kind in kinds:
            request = PublishRequest(event=published(kind, region.who(way), _BOBS))
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await answer(channel, shown, "IngestService.Publish", request)
            assert error.value.code() is _DENIED, (kind, error.value.details())
    assert region.broker.taken == []


@pytest.mark.parametrize("way", _WAYS)
async def test_a_user_asks_about_and_orders_jobs_of_their_own(region: Guarded, way: str) -> None:
    async with region.channel("coplace.v1.PlacementService", way) as (channel, shown):
        for method, request in (
            ("Explain", ExplainRequest(job_id=_ADAS)),
            ("ListJobs", ListJobsRequest(user="ada")),
        ):
            found = await answer(channel, shown, f"PlacementService.{method}", request)
            assert b"bob" not in found
            assert _ADAS.encode() in found
    who = region.who(way)
    cancelled = PublishRequest(event=published("jobCancelled", who, _ADAS))
    async with region.channel("coplace.v1.IngestService", way) as (channel, shown):
        await answer(channel, shown, "IngestService.Publish", cancelled)
    assert [each.event.source for each in region.broker.taken] == [who]
    assert [(each.who, each.refused) for each in region.audit.records] == [(who, False)]


@pytest.mark.parametrize("source", ["ada", "olga", "oidc:olga"])
async def test_nobody_whom_the_issuer_names_speaks_as_somebody_else(
    region: Guarded, source: str
) -> None:
    request = PublishRequest(event=published("jobCancelled", source, _ADAS))
    async with region.channel("coplace.v1.IngestService", "oidc") as (channel, shown):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await answer(channel, shown, "IngestService.Publish", request)
    assert error.value.code() is _DENIED
    assert region.broker.taken == []


async def test_who_calls_himself_operator_at_the_issuer_is_nobody_here(region: Guarded) -> None:
    async with region.channel("coplace.v1.PlacementService", "oidc", "olga") as (channel, shown):
        for method, requests in asked("oidc:olga").items():
            if method.startswith("Placement"):
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await answer(channel, shown, method, requests[0])
                assert error.value.code() is _DENIED
                assert "does not name it" in (error.value.details() or "")


async def test_a_certificate_with_a_name_of_the_issuer_is_nobodys(region: Guarded) -> None:
    region.outcomes.known["bob/x/1"] = CommandOutcome(command_source="oidc:ada")
    for method, request in (
        ("PlacementService.Explain", ExplainRequest(job_id=_ADAS)),
        ("IngestService.Publish", asked("oidc:ada")["IngestService.Publish"][0]),
        ("IngestService.ShowOutcome", ShowOutcomeRequest(event_id="bob/x/1")),
    ):
        service = f"coplace.v1.{method.split('.')[0]}"
        async with region.channel(service, "certificate", "oidc:ada") as (channel, shown):
            with pytest.raises(grpc.aio.AioRpcError):
                await answer(channel, shown, method, request)


def target(route: Route, job_id: str, user: str) -> tuple[str, object]:
    """Where and with what a route is asked about a job."""
    path = route.path.replace("{job_id}", quote(job_id, safe=""))
    path = path.replace("{event_id}", "bob%2Fx%2F1")
    if route.method.name in ("ListJobs", "WatchDecisions"):
        path += f"?user={user}"
    if route.method.name in ("ShowNodes", "ListReservations", "ListLicences"):
        path += "?cluster=p1"
    if route.method.name == "Quote":
        return path, {"job": MessageToDict(of_job(job_id, user))}
    if route.payload.startswith("job_"):
        kind = _in_json(route.payload)
        if kind in PAYLOADS:
            event = envelope(kind, jobId=job_id)
            return path, MessageToDict(getattr(event, route.payload))
        return path, {"jobId": job_id}
    return path, {}


def _in_json(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.title, rest))


async def sent(client: Client, region: Guarded, way: str, route: Route) -> tuple[int, bytes]:
    path, body = target(route, _BOBS, "bob")
    headers = {"Authorization": region.bearer(way)}
    if route.payload:
        headers |= {"Ce-Source": region.who(way), "Ce-Id": f"{region.who(way)}/x/1"}
    data = None if route.verb == "GET" else json.dumps(body).encode()
    found = await client.send(route.verb, path, data, **headers)
    return found.status, found.body


@pytest.mark.parametrize("way", ["token", "oidc"])
async def test_no_route_says_or_does_anything_of_anothers_job(region: Guarded, way: str) -> None:
    region.outcomes.known["bob/x/1"] = CommandOutcome(command_source="bob", reason="of bob")
    services = Services(region.by_token, region.folder / "ca.pem", 30.0)
    answered: dict[str, int] = {}
    async with listening(services) as client:
        for route in routes():
            status, body = await sent(client, region, way, route)
            answered[f"{route.method.name} {route.payload}"] = status
            if status == 200:
                assert b"bob" not in body, (route, body)
    await services.close()
    assert region.broker.taken == []
    # Those without an example are not valid: they are refused before anybody asks whose it is.
    for each, status in answered.items():
        kind = each.partition(" ")[2]
        if kind.startswith("job_"):
            assert status == 403 or (status == 400 and _in_json(kind) not in PAYLOADS), each
    places = "ShowNodes ", "ListReservations ", "ListLicences "
    for name in ("Explain ", "ListJobs ", "Quote ", "WatchDecisions ", "ListLimits ", *places):
        assert answered[name] == 403, name


async def test_rest_refuses_a_signed_token_that_is_not_in_order(region: Guarded) -> None:
    services = Services(region.by_token, region.folder / "ca.pem", 30.0)
    bad = (
        region.issuer.token(aud="portal"),
        region.issuer.token(exp=1),
        region.issuer.token()[:-8] + "AAAAAAAA",
        region.issuer.signed(region.issuer.claims(), headers={"kid": "../one"}),
    )
    async with listening(services) as client:
        answers = [await client.get("/v1/power", Authorization=f"Bearer {one}") for one in bad]
        good = await client.get("/v1/power", Authorization=region.bearer("oidc"))
    await services.close()
    assert [one.status for one in answers] == [401] * len(bad)
    assert good.status == 200
    assert {one.action for one in region.audit.records} == {"token"}
