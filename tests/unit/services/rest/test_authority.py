"""Who asks over HTTP is who its token names, over real TLS, whatever certificate REST has."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import grpc
import pytest
from opentelemetry.metrics import NoOpMeter

from deploy.local.ports import free_ports
from services.placement.service import Duty, PlacementService
from services.rest.calls import Services
from services.rest.publishing import SOURCE
from shared.authority.bearing import TokenGate
from shared.authority.binding import Binding, Role
from shared.authority.door import Door
from shared.authority.table import AuthorityTable, TableInForce, message_of
from shared.authority.tokens import BearerToken, digest_of, fresh_token
from shared.domain.eamc_policy import Policy
from shared.pricing.terms import PriceTerms
from shared.process.clock import now_us
from shared.process.grpc_server import grpc_server
from shared.process.life import Process
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
from tests.support.certificates import certificate_authority, identity
from tests.unit.services.rest.served import Client, listening
from tests.unit.shared.authority.test_bearing import Audit
from tests.unit.shared.placement.region import T0_US, placement, round_of, submitted

_HOUR_US = 3_600_000_000
_BINDINGS = [
    Binding("olga", Role.OPERATOR, sites=("*",)),
    Binding("ada", Role.USER, accounts=("physics",)),
    Binding("vera", Role.VIEWER, sites=("*",)),
]
_ADAS, _BOBS = "site/p1/1/1767225600", "site/p1/2/1767225600"


class Guarded(NamedTuple):
    """REST before a placement that asks for tokens."""

    client: Client
    tokens: dict[str, str]
    audit: Audit
    address: str

    def bearing(self, who: str) -> dict[str, str]:
        """The header of somebody's token."""
        return {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate authority and a server."""
    folder = certificate_authority(tmp_path_factory.mktemp("authority"))
    identity(folder, "server")
    return folder


@asynccontextmanager
async def guarded(folder: Path) -> AsyncIterator[Guarded]:
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
    table, audit, crashes = TableInForce(), Audit(), list[Exception]()
    table.now = AuthorityTable.from_message(message_of(1, _BINDINGS, "", 0, issued))
    processor = placement(policy=Policy.BASE)
    jobs = ((_ADAS, "ada"), (_BOBS, "bob"))
    round_of(processor, 0, *(submitted(job_id, T0_US, user=user) for job_id, user in jobs))
    duty = Duty()
    duty.begin(processor.queries)
    door = Door("test", table, audit, NoOpMeter("test"))
    handlers = PlacementService(duty, 100, PriceTerms(Decimal(1)), door).handlers()
    process = Process(settings, Telemetry("test", settings))
    gate = TokenGate(door, crashes.append)
    addresses = {"coplace.v1.PlacementService": f"localhost:{token_port}"}
    services = Services(addresses, folder / "ca.pem", 30.0)
    async with (
        grpc_server(process, "127.0.0.1", certificate_port, handlers, gate=gate),
        listening(services) as client,
    ):
        yield Guarded(client, tokens, audit, f"localhost:{token_port}")
    await services.close()
    assert crashes == []


# Who asks, of whose job, and how it is answered.
_TABLE = [
    ("ada", _ADAS, 200),
    ("ada", _BOBS, 403),
    ("ada", "site/p1/nobody's", 403),
    ("olga", _BOBS, 200),
    ("vera", _ADAS, 200),
    ("vera", _BOBS, 200),
    ("", _ADAS, 401),
]


async def test_each_reads_the_jobs_that_its_token_allows(authority: Path) -> None:
    async with guarded(authority) as rest:
        for who, job_id, status in _TABLE:
            path = f"/v1/jobs/{quote(job_id, safe='')}"
            answer = await rest.client.get(path, **rest.bearing(who))
            assert (who, job_id, answer.status) == (who, job_id, status)
            if status != 200:
                assert answer.problem[0] in ("permission-denied", "unauthenticated")
                assert b"bob" not in answer.body
    refused = [(one.who, one.action) for one in rest.audit.records]
    assert ("ada", "Explain") in refused


async def test_a_list_of_all_jobs_is_not_for_a_user(authority: Path) -> None:
    async with guarded(authority) as rest:
        answers = [
            (await rest.client.get(f"/v1/jobs?{query}", **rest.bearing("ada"))).status
            for query in ("", "user=bob", "user=ada")
        ]
    assert answers == [403, 403, 200]


@pytest.mark.parametrize(
    "shown",
    ["Bearer coplace_made-up", "Basic YWRhOnNlY3JldA==", "Bearer", "Bearer a b", "bearer \tä"],
)
async def test_what_is_no_token_that_counts_is_refused(authority: Path, shown: str) -> None:
    async with guarded(authority) as rest:
        answer = await rest.client.get("/v1/clusters", Authorization=shown)
    assert (answer.status, answer.problem[0]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_no_answer_is_kept_for_somebody_else(authority: Path) -> None:
    async with guarded(authority) as rest:
        answer = await rest.client.get("/v1/clusters", **rest.bearing("olga"))
        tag = answer.headers["etag"]
        nobody = await rest.client.get("/v1/clusters", If_None_Match=tag)
    assert answer.headers["cache-control"] == "private, no-cache"
    assert answer.headers["vary"] == "Authorization"
    assert nobody.status == 401


async def test_headers_that_claim_to_be_somebody_change_nothing(authority: Path) -> None:
    claims = {"X-Forwarded-User": "olga", "X-SSL-Client-S-DN-CN": "olga", SOURCE: "olga"}
    async with guarded(authority) as rest:
        answer = await rest.client.get("/v1/clusters", **claims)
    assert answer.status == 401


async def test_a_token_is_not_shown_to_a_service_that_speaks_plain_text() -> None:
    seen: list[str] = []

    async def show_power(_request: bytes, context: Any) -> bytes:
        seen.extend(key for key, _ in context.invocation_metadata())
        return b""

    name = "coplace.v1.PlacementService"
    server = grpc.aio.server()
    methods: dict[str, Any] = {"ShowPower": grpc.unary_unary_rpc_method_handler(show_power)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    services = Services({name: f"127.0.0.1:{port}"}, None, 30.0)
    async with listening(services) as client:
        answer = await client.get("/v1/power", Authorization="Bearer secret")
    await services.close()
    await server.stop(None)
    assert answer.status == 200
    assert seen
    assert "authorization" not in seen
