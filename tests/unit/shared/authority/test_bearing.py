"""What a gRPC server with a port for tokens lets in, over real TLS."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import grpc
import pytest
from coplace.v1.authority_pb2 import AccessAudited
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub
from opentelemetry.metrics import NoOpMeter

from coplace_client.channels import grpc_channel_credentials
from coplace_client.errors import CannotStartError, RejectedError, WrongSettingsError
from deploy.local.ports import free_ports
from shared.authority.bearing import TokenGate
from shared.authority.binding import Binding, Role
from shared.authority.callers import callers
from shared.authority.door import Door
from shared.authority.table import AuthorityTable, TableInForce, message_of
from shared.authority.tokens import BearerToken, digest_of, fresh_token
from shared.catalogue.event import Publish
from shared.process.clock import now_us
from shared.process.grpc_server import grpc_server
from shared.process.life import Process
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
from tests.support.certificates import certificate_authority, identity
from tests.unit.services.calls import details_of

_HOUR_US = 3_600_000_000
_OLGA = Binding("olga", Role.OPERATOR, sites=("*",))
_ADA = Binding("ada", Role.USER, accounts=("physics",))


class Audit:
    """Keeps what is put on record."""

    def __init__(self) -> None:
        self.records: list[AccessAudited] = []

    async def send(self, publish: Publish) -> Awaitable[object]:
        assert isinstance(publish.event.payload, AccessAudited)
        self.records.append(publish.event.payload)
        return asyncio.sleep(0)


class Served:
    """A server that answers callers with their name, with a port for certificates and one for
    tokens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.audit = Audit()
        self.table = TableInForce()
        self.crashes: list[Exception] = []
        self.go_on = asyncio.Event()
        ports = free_ports(2)
        own = self.certified("server")
        self.settings = own.model_copy(update={"grpc_token_port": ports[1]})
        self.by_certificate, self.by_token = (f"localhost:{port}" for port in ports)
        self._port = ports[0]

    def certified(self, name: str) -> Settings:
        file, authority = self.folder / f"{name}.pem", self.folder / "ca.pem"
        key = file.with_suffix(".key")
        return Settings(grpc_cert_file=file, grpc_key_file=key, grpc_ca_file=authority)

    def declare(self, *tokens: BearerToken) -> None:
        """Have these tokens and no other."""
        message = message_of(1, [_OLGA, _ADA], "", 0, tokens)
        self.table.now = AuthorityTable.from_message(message)

    def running(self) -> Any:
        door = Door("test", self.table, self.audit, NoOpMeter("test"))
        process = Process(self.settings, Telemetry("test", self.settings))
        methods: dict[str, Any] = {
            "Who": grpc.unary_unary_rpc_method_handler(self._who),
            "Whose": grpc.stream_unary_rpc_method_handler(self._whose),
        }
        handlers = grpc.method_handlers_generic_handler("test", methods)
        gate = TokenGate(door, self.crashes.append)
        return grpc_server(process, "127.0.0.1", self._port, handlers, gate=gate)

    async def _who(self, _request: bytes, context: Any) -> bytes:
        return ",".join(callers(context)).encode()

    async def _whose(self, requests: AsyncIterator[bytes], context: Any) -> bytes:
        said: list[str] = []
        async for _ in requests:
            try:
                said += callers(context)
            except RejectedError as error:
                said.append(error.problem)
            self.go_on.set()
        return "\n".join(said).encode()

    def shown(self, token: str, name: str = "token") -> Settings:
        """Those of a client that has a token."""
        file = self.folder / name
        file.write_text(token + "\n")
        return Settings(grpc_ca_file=self.folder / "ca.pem", grpc_token_file=file)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate authority, a server and a client."""
    folder = certificate_authority(tmp_path_factory.mktemp("authority"))
    for name in ("server", "north"):
        identity(folder, name)
    return folder


@pytest.fixture
async def served(authority: Path) -> AsyncIterator[Served]:
    """A server that runs."""
    found = Served(authority)
    async with found.running():
        yield found
    assert not found.crashes


def known(token: str, *, hours: float = 1.0, revoked: bool = False) -> BearerToken:
    """What the table says of a token of ada's."""
    now = now_us()
    begun = now - 100 * _HOUR_US
    return BearerToken(digest_of(token), "ada", begun, now + round(hours * _HOUR_US), int(revoked))


async def who(address: str, settings: Settings, metadata: tuple[tuple[str, str], ...] = ()) -> str:
    """Whom the server takes a caller for."""
    credentials = grpc_channel_credentials(settings)
    assert credentials
    async with grpc.aio.secure_channel(address, credentials) as channel:
        ask: Any = channel.unary_unary("/test/Who")
        return bytes(await ask(b"", metadata=metadata, timeout=10)).decode()


async def refused(address: str, settings: Settings, *metadata: tuple[str, str]) -> Any:
    """How a caller is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await who(address, settings, metadata)
    return error.value


async def test_who_shows_a_token_is_whom_it_was_issued_for(served: Served) -> None:
    token = fresh_token()
    served.declare(known(token))
    assert await who(served.by_token, served.shown(token)) == "ada"
    assert served.audit.records == []


async def test_a_certificate_counts_as_before_also_beside_a_token(served: Served) -> None:
    served.declare()
    north = served.certified("north")
    assert await who(served.by_certificate, north) == "north"
    token = fresh_token()
    served.declare(known(token))
    shown = north.model_copy(update={"grpc_token_file": served.shown(token).grpc_token_file})
    assert await who(served.by_certificate, shown) == "north"


@pytest.mark.parametrize(
    ("made", "problem", "whose"),
    [
        ({}, "there is no such token", ""),
        ({"hours": -1.0}, "of 'ada' has expired", "ada"),
        ({"revoked": True}, "of 'ada' was revoked", "ada"),
    ],
)
async def test_what_does_not_count_is_refused_in_one_line_and_on_record(
    served: Served, made: dict[str, Any], problem: str, whose: str
) -> None:
    token = fresh_token()
    served.declare(*([known(token, **made)] if made else []))
    error = await refused(served.by_token, served.shown(token))
    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert problem in error.details()
    assert "coplace tokens issue" in error.details()
    assert token not in error.details()
    [record] = served.audit.records
    assert (record.who, record.action, record.refused) == (whose, "token", True)
    assert problem in record.reason
    assert token not in str(record)


async def test_no_token_one_in_another_form_and_two_at_once_are_none_even_without_a_table(
    served: Served,
) -> None:
    bare = Settings(grpc_ca_file=served.folder / "ca.pem")
    # gRPC asks for no certificate here, so one that is offered is not seen.
    for settings in (bare, served.certified("north")):
        error = await refused(served.by_token, settings)
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    token = fresh_token()
    served.declare(known(token))
    bearer = ("authorization", f"Bearer {token}")
    assert await who(served.by_token, bare, (bearer,)) == "ada"
    for shown in ([("authorization", token)], [bearer, bearer], [("token", token)]):
        error = await refused(served.by_token, bare, *shown)
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_who_tries_many_does_not_fill_the_record(served: Served) -> None:
    served.declare()
    began = now_us() // 1_000_000
    for _ in range(20):
        await refused(served.by_token, served.shown(fresh_token()))
    took = now_us() // 1_000_000 - began
    assert 1 <= len(served.audit.records) <= took + 1


async def test_a_stream_that_was_let_in_ends_with_its_token(served: Served) -> None:
    token = fresh_token()
    served.declare(known(token))
    credentials = grpc_channel_credentials(served.shown(token))
    assert credentials
    async with grpc.aio.secure_channel(served.by_token, credentials) as channel:
        call: Any = channel.stream_unary("/test/Whose")()
        await call.write(b"one")
        await served.go_on.wait()
        served.declare(known(token, revoked=True))
        await call.write(b"two")
        await call.done_writing()
        first, second = bytes(await call).decode().splitlines()
    assert first == "ada"
    assert "was revoked" in second


async def test_a_token_is_read_from_its_file_at_each_call_and_what_is_none_is_named(
    served: Served,
) -> None:
    old, new = fresh_token(), fresh_token()
    served.declare(known(new))
    credentials = grpc_channel_credentials(served.shown(old))
    assert credentials
    async with grpc.aio.secure_channel(served.by_token, credentials) as channel:
        ask: Any = channel.unary_unary("/test/Who")
        with pytest.raises(grpc.aio.AioRpcError):
            await ask(b"", timeout=10)
        served.shown(new)
        assert await ask(b"", timeout=10) == b"ada"
    error = await refused(served.by_token, served.shown("se cret\nline", "odd"))
    assert str(served.folder / "odd") in error.details()
    assert "cret" not in error.details()


async def asked_of_health(address: str, settings: Settings) -> int:
    """What health says to who shows this."""
    credentials = grpc_channel_credentials(settings)
    assert credentials
    async with grpc.aio.secure_channel(address, credentials) as channel:
        answer = await HealthStub(channel).Check(HealthCheckRequest(), timeout=10)
    return int(answer.status)


async def test_health_is_said_without_a_token_but_only_to_who_the_port_lets_in(
    served: Served,
) -> None:
    bare = Settings(grpc_ca_file=served.folder / "ca.pem")
    assert await asked_of_health(served.by_token, bare) == HealthCheckResponse.NOT_SERVING
    north = served.certified("north")
    assert await asked_of_health(served.by_certificate, north) == HealthCheckResponse.NOT_SERVING
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await asked_of_health(served.by_certificate, bare)
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    assert served.audit.records == []


async def test_schemas_are_shown_to_who_has_a_token(served: Served) -> None:
    token = fresh_token()
    served.declare(known(token))
    bare = Settings(grpc_ca_file=served.folder / "ca.pem")
    assert await listed(served.by_token, served.shown(token)) >= {"test"}
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await listed(served.by_token, bare)
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
    info = details_of(error.value)["ErrorInfo"]
    assert (info.reason, info.domain) == ("CALLER_UNKNOWN", "coplace")


async def listed(address: str, settings: Settings) -> set[str]:
    credentials = grpc_channel_credentials(settings)
    assert credentials
    asked = ServerReflectionRequest(list_services="*")
    async with grpc.aio.secure_channel(address, credentials) as channel:
        call = ServerReflectionStub(channel).ServerReflectionInfo(iter([asked]), timeout=10)
        [answer] = [each async for each in call]
    return {each.name for each in answer.list_services_response.service}


async def test_a_client_is_its_identity_and_takes_no_calls_of_others(authority: Path) -> None:
    found = Served(authority)
    found.settings = found.settings.model_copy(update={"grpc_calls_per_client": 1})
    token = fresh_token()
    found.declare(known(token))
    credentials = grpc_channel_credentials(found.shown(token))
    assert credentials
    async with (
        found.running(),
        grpc.aio.secure_channel(found.by_token, credentials) as channel,
    ):
        open_call: Any = channel.stream_unary("/test/Whose")()
        await open_call.write(b"one")
        await found.go_on.wait()
        error = await refused(found.by_token, found.shown(token))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        # From the same address.
        assert await who(found.by_certificate, found.certified("north")) == "north"
        await open_call.done_writing()
        assert await open_call == b"ada"
        assert await who(found.by_token, found.shown(token)) == "ada"


class Gone(Audit):
    """A broker that is not there."""

    async def send(self, publish: Publish) -> Awaitable[object]:
        raise OSError(f"{publish.topic} was deleted")


async def test_a_record_that_fails_ends_the_process_and_lets_nobody_in(authority: Path) -> None:
    found = Served(authority)
    found.audit = Gone()
    async with found.running():
        await refused(found.by_token, found.shown(fresh_token()))
    assert [type(crash) for crash in found.crashes] == [OSError]


async def test_who_looks_at_no_token_opens_no_port_for_them(authority: Path) -> None:
    found = Served(authority)
    process = Process(found.settings, Telemetry("test", found.settings))
    handlers = grpc.method_handlers_generic_handler("test", {})
    with pytest.raises(CannotStartError, match="COPLACE_GRPC_TOKEN_PORT"):
        async with grpc_server(process, "127.0.0.1", 0, handlers):
            pass


def test_a_token_is_never_shown_in_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(fresh_token())
    for name, value, needed in (("FILE", str(file), "ca_file"), ("PORT", "4711", "cert_file")):
        with monkeypatch.context() as patched:
            patched.setenv(f"COPLACE_GRPC_TOKEN_{name}", value)
            with pytest.raises(WrongSettingsError, match=f"needs grpc_{needed}"):
                Settings()
