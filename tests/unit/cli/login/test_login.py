"""`coplace login` and `logout`, in a region that declares an issuer and asks who comes."""

import asyncio
import os
import shutil
import stat
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from coplace.v1.ingest_service_pb2 import ShowAuthorityRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub
from opentelemetry.metrics import NoOpMeter

from cli.authority import declared
from cli.login import cli as commands
from cli.login.device_grant import PollClock
from cli.login.session import Session, signed_in
from coplace_client.calls import calling
from deploy.local.ports import free_ports
from services.ingest.gate import Gate
from services.ingest.meter import IngestMeter
from services.ingest.model import Intake
from services.ingest.service import IngestService
from services.placement.service import Duty, PlacementService
from shared.authority.bearing import TokenGate
from shared.authority.binding import Binding, Role
from shared.authority.door import Door
from shared.authority.issuer import Issuer
from shared.authority.signed import Keys
from shared.authority.table import AuthorityTable, TableInForce, message_of
from shared.catalogue.answer_json import answer_json
from shared.catalogue.event import Event
from shared.catalogue.topics import Topics
from shared.pricing.terms import PriceTerms
from shared.process.grpc_server import grpc_server
from shared.process.life import Process
from shared.process.settings import Settings, settings
from shared.process.telemetry import Telemetry
from tests.support.certificates import certificate_authority, identity
from tests.support.issuer import AUDIENCE, LocalIssuer, made, refused, running
from tests.unit.cli.command_line import coplace, refusal, said
from tests.unit.cli.login.test_device_grant import device, tokens
from tests.unit.services.ingest.test_service import Broker
from tests.unit.services.test_identity import KnownOfJobs
from tests.unit.shared.authority.test_bearing import Audit
from tests.unit.shared.placement.region import placement, round_of, submitted


class Region:
    """Ingest and placement on their ports for tokens, under one table, on a loop of their own."""

    def __init__(self, authority: Path, issuer: LocalIssuer) -> None:
        self._authority = authority
        bindings = [
            Binding("olga", Role.OPERATOR, sites=("*",)),
            Binding("oidc:ada", Role.OPERATOR, sites=("*",)),
        ]
        self.table = TableInForce()
        self._bindings, self._issuer = bindings, issuer
        self.declare("coplace")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.ingest = self.placement = ""

    def declare(self, client_id: str = "", *, with_issuer: bool = True) -> None:
        """Put a table into force."""
        issuer = self._issuer.declared
        found = Issuer(issuer.url, AUDIENCE, ca=issuer.ca, client_id=client_id)
        message = message_of(1, self._bindings, "", 0, issuer=found if with_issuer else None)
        self.table.now = AuthorityTable.from_message(message)
        self.table.declared = Event("olga/1", "olga", 1, "region", message)

    def __enter__(self) -> "Region":
        self._thread.start()
        self._ended = asyncio.Event()
        started = threading.Event()
        self._serving = asyncio.run_coroutine_threadsafe(self._serve(started), self._loop)
        while not started.wait(0.05):
            assert not self._serving.done() or self._serving.result()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._serving.result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, started: threading.Event) -> None:
        meter, crashes = NoOpMeter("test"), list[Exception]()
        door = Door("test", self.table, cast(Any, Audit()), meter)
        assert self.table.issuer
        door.signed.take(self.table.issuer, Keys(self._issuer.jwks))
        intake = Intake(Topics(kafka_partitions=4))
        gate = Gate(door, cast(Any, None), cast(Any, KnownOfJobs()))
        ingest = IngestService(
            intake, cast(Any, Broker()), IngestMeter(meter), crashes.append, gate=gate
        )
        processor, duty = placement(), Duty()
        round_of(processor, 0, submitted("a"))
        duty.begin(processor.queries)
        asked = PlacementService(duty, 100, PriceTerms(Decimal(1)), door)
        through = TokenGate(door, crashes.append)
        async with (
            self._served(ingest.handlers(), through) as self.ingest,
            self._served(asked.handlers(), through) as self.placement,
        ):
            started.set()
            await self._ended.wait()
        assert crashes == []

    @asynccontextmanager
    async def _served(
        self, handlers: grpc.GenericRpcHandler, gate: TokenGate
    ) -> AsyncIterator[str]:
        ports = free_ports(2)
        own = Settings(
            grpc_cert_file=self._authority / "server.pem",
            grpc_key_file=self._authority / "server.key",
            grpc_ca_file=self._authority / "ca.pem",
            grpc_token_port=ports[1],
        )
        process = Process(own, Telemetry("test", own))
        async with grpc_server(process, "127.0.0.1", ports[0], handlers, gate=gate):
            yield f"localhost:{ports[1]}"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = certificate_authority(tmp_path_factory.mktemp("authority"))
    identity(folder, "server")
    return folder


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalIssuer]:
    with running(made(tmp_path_factory.mktemp("issuer"))) as found:
        yield found


@pytest.fixture(scope="module")
def served(authority: Path, issuer: LocalIssuer) -> Iterator[Region]:
    with Region(authority, issuer) as found:
        yield found


@pytest.fixture
def region(
    served: Region,
    issuer: LocalIssuer,
    authority: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Region]:
    """The region, and a user whom nothing identifies yet."""

    async def at_once(_seconds: float) -> None:
        return None

    served.declare("coplace")
    issuer.replies = {"/device": [device(issuer)], "/token": [tokens(issuer)]}
    issuer.posted, issuer.said, issuer.pause_s = [], {}, 0.0
    monkeypatch.setattr(commands, "CLOCK", PollClock(sleep=at_once))
    for name in [name for name in os.environ if name.startswith("COPLACE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("COPLACE_GRPC_CA_FILE", str(authority / "ca.pem"))
    monkeypatch.setenv("COPLACE_INGEST_ADDRESS", served.ingest)
    monkeypatch.setenv("COPLACE_PLACEMENT_ADDRESS", served.placement)
    settings.cache_clear()
    yield served
    settings.cache_clear()


def session(authority: Path) -> Session:
    return Session(authority / "ca.pem")


def jobs() -> Any:
    settings.cache_clear()
    return coplace("jobs", "--output", "json")


def test_who_signs_in_is_answered_until_they_sign_out(region: Region, authority: Path) -> None:
    assert "run `coplace login`" in jobs().stderr
    done = coplace("login")
    assert done.exit_code == 0, done.output
    assert "type the code WDJB-MJHT" in done.stderr
    assert done.stdout.startswith("you are oidc:ada; the token is valid until 2")
    found = jobs()
    assert (found.exit_code, found.stderr) == (0, "")
    assert '"jobId":"a"' in found.stdout
    assert said("logout") == "signed out\n"
    assert jobs().exit_code == 1
    assert [file.name for file in session(authority).folder.iterdir()] == [".lock"]
    assert said("logout") == "nobody is signed in\n"


def test_the_token_is_readable_for_its_owner_alone(region: Region, authority: Path) -> None:
    before = os.umask(0)
    try:
        said("login")
    finally:
        os.umask(before)
    folder = session(authority).folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert modes == {"token": 0o600, "login.json": 0o600, ".lock": 0o600}


def test_a_token_that_expires_is_renewed_by_the_next_command(
    region: Region, issuer: LocalIssuer, authority: Path
) -> None:
    issuer.replies["/token"] = [tokens(issuer, expires_in=20)]
    said("login")
    first = session(authority).token_file.read_text()
    issuer.replies["/token"] = [
        tokens(issuer, access_token=issuer.token(jti="second"), refresh_token="r-2")
    ]
    assert jobs().exit_code == 0
    assert session(authority).token_file.read_text() != first
    assert session(authority).record().refresh_token == "r-2"
    asked = len(issuer.posted)
    assert jobs().exit_code == 0
    assert len(issuer.posted) == asked, "a token that is valid is not renewed"
    assert said("login", "--token") == session(authority).token_file.read_text()


def test_a_command_that_runs_on_renews_its_token(
    region: Region, issuer: LocalIssuer, authority: Path
) -> None:
    issuer.replies["/token"] = [tokens(issuer, expires_in=31)]
    said("login")
    first = session(authority).token_file.read_text()
    issuer.replies["/token"] = [tokens(issuer, access_token=issuer.token(jti="second"))]
    with signed_in() as problem:
        assert problem == ""
        deadline_s = time.monotonic() + 30
        while session(authority).token_file.read_text() == first:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)


def test_a_file_of_the_authority_that_is_missing_stops_no_command_that_needs_none(
    region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPLACE_GRPC_CA_FILE", str(tmp_path / "missing.pem"))
    with signed_in() as problem:
        assert problem == ""
        assert "COPLACE_GRPC_TOKEN_FILE" not in os.environ


def test_a_login_that_the_provider_ended_is_over(
    region: Region, issuer: LocalIssuer, authority: Path
) -> None:
    issuer.replies["/token"] = [tokens(issuer, expires_in=20)]
    said("login")
    issuer.replies["/token"] = [refused("invalid_grant")]
    found = jobs()
    assert found.exit_code == 1
    assert "note: " in found.stderr
    assert "the login has ended: run `coplace login` again" in found.stderr
    assert not session(authority).is_signed_in
    assert "run `coplace login`" in refusal("login", "--token")


def test_a_login_without_renewal_ends_with_its_token(
    region: Region, issuer: LocalIssuer, authority: Path
) -> None:
    issuer.replies["/token"] = [tokens(issuer, expires_in=20, refresh_token=None)]
    assert "the provider gave no more" in said("login")
    assert "has expired: run `coplace login`" in jobs().stderr
    assert not session(authority).is_signed_in


def test_a_provider_that_is_down_keeps_nobody_from_commands_that_need_no_token(
    region: Region, issuer: LocalIssuer, authority: Path
) -> None:
    issuer.replies["/token"] = [tokens(issuer, expires_in=20)]
    said("login")
    issuer.replies["/token"] = [(503, b"")]
    done = coplace("policy", "schema")
    assert done.exit_code == 0
    assert "status 503" in done.stderr
    assert session(authority).is_signed_in


def test_a_token_is_shown_to_the_region_that_it_was_made_for_alone(
    region: Region, authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said("login")
    other = certificate_authority(tmp_path / "other")
    shutil.copy(other / "ca.pem", tmp_path / "other.pem")
    monkeypatch.setenv("COPLACE_GRPC_CA_FILE", str(tmp_path / "other.pem"))
    with signed_in() as problem:
        assert problem == ""
        assert "COPLACE_GRPC_TOKEN_FILE" not in os.environ
    monkeypatch.setenv("COPLACE_GRPC_CA_FILE", str(authority / "ca.pem"))
    with signed_in():
        assert os.environ["COPLACE_GRPC_TOKEN_FILE"] == str(session(authority).token_file)
        assert os.environ["COPLACE_SOURCE"] == "oidc:ada"
    monkeypatch.setenv("COPLACE_GRPC_TOKEN_FILE", "/mine")
    with signed_in():
        assert os.environ["COPLACE_GRPC_TOKEN_FILE"] == "/mine"


def test_a_region_without_an_issuer_or_a_client_says_what_to_do(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    region.declare("")
    assert "say --client-id, or set client_id" in refusal("login")
    assert coplace("login", "--client-id", "mine").exit_code == 0
    region.declare(with_issuer=False)
    assert "declares no issuer" in refusal("login")
    monkeypatch.delenv("COPLACE_GRPC_CA_FILE")
    settings.cache_clear()
    assert "COPLACE_GRPC_CA_FILE is not set" in refusal("login")


def test_an_operator_who_signed_in_is_shown_the_table_as_the_command_shows_it(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    said("login")
    with signed_in():
        settings.cache_clear()
        with calling(region.ingest, settings()) as channel:
            answer = IngestServiceStub(channel).ShowAuthority(ShowAuthorityRequest(), timeout=10)
    assert answer.declared_by == "olga"
    assert [each.who for each in answer.table.bindings] == ["olga", "oidc:ada"]
    monkeypatch.setattr(declared, "read_table_in_force", lambda _deployment: region.table)
    shown = said("authority", "show", "--output", "json")
    assert shown.encode().strip() == answer_json(answer)


@pytest.mark.parametrize("damage", ["", "[]", '{"provider": 7}', "\0" * 100])
def test_a_damaged_login_is_said_and_replaced(region: Region, authority: Path, damage: str) -> None:
    said("login")
    (session(authority).folder / "login.json").write_text(damage)
    found = coplace("policy", "schema")
    assert found.exit_code == 0
    assert "is no login" in found.stderr
    assert coplace("login").exit_code == 0
    assert jobs().exit_code == 0


def test_a_login_is_revoked_at_the_provider_and_gone_here_whatever_it_says(
    region: Region, issuer: LocalIssuer, authority: Path
) -> None:
    said("login")
    issuer.replies["/revoke"] = [(200, b"")]
    assert said("logout") == "signed out\n"
    assert [form["token"] for path, form in issuer.posted if path == "/revoke"] == ["r-1"]
    assert not session(authority).is_signed_in
