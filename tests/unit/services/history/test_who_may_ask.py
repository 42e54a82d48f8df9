"""Who asks for somebody else's job gets nothing of it: by gRPC, over HTTP and as a tool."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import grpc
import pytest
from coplace.v1 import history_service_pb2 as asked
from coplace.v1.history_service_pb2_grpc import HistoryServiceStub
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from mcp import Client as McpClient
from opentelemetry.metrics import NoOpMeter

from cli.mcp.cli import asking
from cli.mcp.server import server
from coplace_client.channels import GrpcFiles, grpc_channel_credentials
from deploy.local.ports import free_ports
from services.history.database import Database, open_database
from services.history.meter import HistoryMeter
from services.history.reading import HistoryReader
from services.history.service import HistoryService
from services.rest.calls import Nameless, Services
from services.rest.routes import routes
from shared.authority.bearing import TokenGate
from shared.authority.binding import Binding, Role
from shared.authority.door import Door
from shared.authority.table import AuthorityTable, TableInForce, message_of
from shared.authority.tokens import BearerToken, digest_of, fresh_token
from shared.process.clock import now_us
from shared.process.grpc_server import grpc_server
from shared.process.life import Process
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
from tests.support.certificates import certificate_authority, identity
from tests.unit.services.history.made import (
    FactLog,
    apply_all,
    audited,
    charge,
    database,
    finished,
    started,
    submitted,
)
from tests.unit.services.rest.served import Client, listening
from tests.unit.shared.authority.test_bearing import Audit

_HOUR_US = 3_600_000_000
_ADAS, _BOBS = "site/p1/1/1767225600", "site/p1/ä%_'/1767225600"
# Both have the same account charged; a user is named as an account is.
_BINDINGS = [
    Binding("olga", Role.OPERATOR, sites=("*",)),
    Binding("ada", Role.USER, accounts=("physics",)),
    Binding("physics", Role.USER, accounts=("biology",)),
    Binding("bill", Role.BILLING, accounts=("physics",)),
    Binding("vera", Role.VIEWER, users=("ada",)),
]


class Asking(NamedTuple):
    """A history that asks for tokens, by each of its interfaces."""

    address: str
    folder: Path
    tokens: dict[str, str]
    rest: Client

    async def grpc(self, who: str, request: Message) -> Message | grpc.StatusCode:
        """Ask by gRPC."""
        credentials = grpc_channel_credentials(Nameless(self.folder / "ca.pem"))
        assert credentials is not None
        async with grpc.aio.secure_channel(self.address, credentials) as channel:
            ask = getattr(HistoryServiceStub(channel), _method(request))
            try:
                shown = (("authorization", f"Bearer {self.tokens[who]}"),)
                answer: Message = await ask(request, metadata=shown, timeout=30)
            except grpc.aio.AioRpcError as error:
                code: grpc.StatusCode = error.code()
                return code
            return answer

    async def http(self, who: str, request: Message) -> tuple[int, str]:
        """Ask over HTTP."""
        [route] = [each for each in routes() if each.method.name == _method(request)]
        fields = MessageToDict(request)
        in_path = {
            name: fields.pop(request.DESCRIPTOR.fields_by_name[name].json_name)
            for name in route.path_fields
        }
        path = route.path.format(**{name: quote(text, safe="") for name, text in in_path.items()})
        target = f"{path}?{urlencode(_in_query(fields), doseq=True)}"
        found = await self.rest.get(target, Authorization=f"Bearer {self.tokens[who]}")
        return found.status, found.body.decode()

    async def tool(self, who: str, request: Message) -> tuple[bool, str]:
        """Ask as an assistant does."""
        file = self.folder / f"{who}.token"
        file.write_text(self.tokens[who])
        files = GrpcFiles(grpc_ca_file=self.folder / "ca.pem", grpc_token_file=file)
        addresses = {"coplace.v1.HistoryService": self.address}
        async with McpClient(server(asking(addresses, files))) as client:
            name = "".join(
                f"_{sign.lower()}" if sign.isupper() else sign for sign in _method(request)
            )
            found = await client.call_tool(name.lstrip("_"), MessageToDict(request))
        return not found.is_error, str(found.structured_content)


def _method(request: Message) -> str:
    return request.DESCRIPTOR.name.removesuffix("Request")


def _in_query(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in fields.items()
    }


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate authority and a server."""
    folder = certificate_authority(tmp_path_factory.mktemp("authority"))
    identity(folder, "server")
    return folder


def _filled(where: Database) -> None:
    log = FactLog()
    for job_id, user, account in (
        (_ADAS, "ada", "physics"),
        (_BOBS, "bob", "physics"),
        ("site/p1/3/1", "bob", "biology"),
    ):
        of: dict[str, Any] = {"user": user, "account": account}
        end = finished(job_id, **of)
        log.add("jobs.events", submitted(job_id, **of), started(job_id), end)
        log.add("prices.charges", charge(job_id, "0.000001", finished=end))
    log.add("audit", audited("bob"), audited("olga", refused=True))
    _, writer = database(where)
    apply_all(writer, log)


@asynccontextmanager
async def history(folder: Path, where: Database) -> AsyncIterator[Asking]:
    _filled(where)
    certificate_port, token_port = free_ports(2)
    settings = Settings(
        grpc_cert_file=folder / "server.pem",
        grpc_key_file=folder / "server.key",
        grpc_ca_file=folder / "ca.pem",
        grpc_token_port=token_port,
    )
    tokens = {one.who: fresh_token() for one in _BINDINGS}
    now = now_us()
    issued = [
        BearerToken(digest_of(token), who, now - 2, now + _HOUR_US) for who, token in tokens.items()
    ]
    table, crashes = TableInForce(), list[Exception]()
    table.now = AuthorityTable.from_message(message_of(1, _BINDINGS, "", 0, issued))
    door = Door("test", table, Audit(), NoOpMeter("test"))
    meter = HistoryMeter(NoOpMeter("test"))
    reader = HistoryReader(open_database(where))
    handlers = HistoryService(reader, meter, crashes.append, door).handlers()
    process = Process(settings, Telemetry("test", settings))
    gate = TokenGate(door, crashes.append)
    address = f"localhost:{token_port}"
    services = Services({"coplace.v1.HistoryService": address}, folder / "ca.pem", 30.0)
    async with (
        grpc_server(process, "127.0.0.1", certificate_port, handlers, gate=gate),
        listening(services) as rest,
    ):
        yield Asking(address, folder, tokens, rest)
    await services.close()
    assert crashes == []


_Ask = Callable[[Asking, str, Message], Awaitable[tuple[bool, str]]]


async def _by_grpc(history: Asking, who: str, request: Message) -> tuple[bool, str]:
    answer = await history.grpc(who, request)
    if isinstance(answer, grpc.StatusCode):
        assert answer is grpc.StatusCode.PERMISSION_DENIED
        return False, ""
    return True, str(MessageToDict(answer))


async def _by_http(history: Asking, who: str, request: Message) -> tuple[bool, str]:
    status, body = await history.http(who, request)
    assert status in (200, 403), body
    return status == 200, body


async def _by_tool(history: Asking, who: str, request: Message) -> tuple[bool, str]:
    is_answered, text = await history.tool(who, request)
    assert is_answered or "permission-denied" in text
    return is_answered, text


_ALLOWED = [
    ("ada", asked.ListRunsRequest(user="ada")),
    ("ada", asked.ListRunsRequest(user="ada", account="physics")),
    ("ada", asked.ShowStoryRequest(job_id=_ADAS)),
    ("ada", asked.ListChargesRequest(user="ada")),
    ("ada", asked.ShowAccountRequest(account="physics")),
    ("ada", asked.ShowStatementRequest(account="physics", user="ada")),
    ("vera", asked.ListRunsRequest(user="ada")),
    # Nothing is of a user who is named as an account is.
    ("physics", asked.ListRunsRequest(user="physics")),
    ("physics", asked.ListChargesRequest(user="physics")),
]
# Other users, and what SQL or the table of authority would take for a pattern.
_OTHERS: list[dict[str, Any]] = [
    *({}, {"user": "bob"}, {"account": "physics"}, {"cluster": "alpha"}),
    *({"user": "%"}, {"user": "ad_"}, {"user": "*"}, {"user": "Ada"}, {"user": "ada "}),
    {"user": "ada' or '1'='1"},
]
_REFUSED = [
    *(
        ("ada", kind(**of))
        for kind in (asked.ListRunsRequest, asked.ListChargesRequest)
        for of in _OTHERS
    ),
    ("ada", asked.ShowStoryRequest(job_id=_BOBS)),
    ("ada", asked.ShowStoryRequest(job_id="site/p1/%")),
    ("ada", asked.ShowStoryRequest(job_id="nobody's")),
    ("ada", asked.ListAccountsRequest()),
    ("ada", asked.ShowAccountRequest(account="biology")),
    ("ada", asked.ShowAccountRequest(account="%")),
    ("ada", asked.ShowStatementRequest(account="physics")),
    ("ada", asked.ShowStatementRequest(account="physics", user="bob")),
    ("ada", asked.ShowStatementRequest(account="biology", user="ada")),
    ("ada", asked.ListAuditRequest()),
    ("ada", asked.ListAuditRequest(who="ada")),
    ("physics", asked.ShowAccountRequest(account="physics")),
    ("physics", asked.ListRunsRequest(account="physics")),
    ("physics", asked.ShowStatementRequest(account="physics", user="physics")),
    ("bill", asked.ListAuditRequest()),
    ("bill", asked.ShowStatementRequest(account="biology")),
    ("vera", asked.ListRunsRequest(user="bob")),
    ("vera", asked.ListRunsRequest()),
]


@pytest.mark.parametrize("ask", [_by_grpc, _by_http, _by_tool])
async def test_who_asks_gets_own_jobs_and_nothing_of_those_of_others(
    ask: _Ask, authority: Path, empty: Database
) -> None:
    async with history(authority, empty) as served:
        for who, request in _ALLOWED:
            is_answered, text = await ask(served, who, request)
            assert is_answered, (who, request)
            assert "bob" not in text, (who, request, text)
            assert "ä%" not in text, (who, request, text)
        for who, request in _REFUSED:
            is_answered, text = await ask(served, who, request)
            assert not is_answered, (who, request, text)
            # What it repeats is what was asked.
            assert "biology" not in text or "biology" in str(request)


@pytest.mark.parametrize("ask", [_by_grpc, _by_http, _by_tool])
async def test_an_operator_of_the_region_and_who_bills_the_account_read_all_of_it(
    ask: _Ask, authority: Path, empty: Database
) -> None:
    async with history(authority, empty) as served:
        for request, told in (
            (asked.ListRunsRequest(user="bob"), "site/p1/3/1"),
            (asked.ShowStoryRequest(job_id=_BOBS), "bob"),
            (asked.ListAuditRequest(who="bob"), "Explain"),
            (asked.ListAccountsRequest(), "biology"),
            (asked.ShowStatementRequest(account="physics"), "0.000002"),
        ):
            is_answered, text = await ask(served, "olga", request)
            assert is_answered, request
            assert told in text, (request, text)
        is_answered, text = await ask(served, "bill", asked.ShowStatementRequest(account="physics"))
        assert is_answered
        assert _BOBS in text


async def test_a_page_token_of_somebody_else_opens_nothing(
    authority: Path, empty: Database
) -> None:
    async with history(authority, empty) as served:
        first = await served.grpc("olga", asked.ListRunsRequest(user="bob", page_size=1))
        assert isinstance(first, asked.ListRunsResponse)
        token = first.next_page_token
        assert token
        refused = await served.grpc("ada", asked.ListRunsRequest(user="bob", page_token=token))
        assert refused is grpc.StatusCode.PERMISSION_DENIED
        own = await served.grpc("ada", asked.ListRunsRequest(user="ada", page_token=token))
        assert isinstance(own, asked.ListRunsResponse)
        assert {run.user for run in own.runs} <= {"ada"}
