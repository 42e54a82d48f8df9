"""Webhooks over gRPC and REST, by who may have them."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from coplace.v1.webhook_service_pb2 import (
    WEBHOOK_STATE_ACTIVE,
    AddWebhookRequest,
    ListFailedDeliveriesRequest,
    ListWebhooksRequest,
    RemoveWebhookRequest,
    RetryDeliveriesRequest,
    RotateWebhookSecretRequest,
)
from coplace.v1.webhook_service_pb2 import TestWebhookRequest as AskedTest
from coplace.v1.webhook_service_pb2_grpc import WebhookServiceStub
from opentelemetry.metrics import NoOpMeter
from standardwebhooks import Webhook as Verifier

from coplace_client.errors import CannotStartError
from services.rest.calls import Services
from services.webhooks.addresses import AddressRules
from services.webhooks.service import WebhookService, objection_of
from services.webhooks.signing import secret_text
from shared.authority.binding import Binding, Role
from shared.authority.callers import bear
from shared.authority.door import Door
from shared.authority.table import AuthorityTable, TableInForce
from tests.unit.services.calls import details_of, served_by_process
from tests.unit.services.history.made import started, submitted
from tests.unit.services.rest.served import listening
from tests.unit.services.webhooks.made import DAY_US, KEY, URL, World
from tests.unit.shared.authority.test_bearing import Audit

_BINDINGS = [
    Binding("olga", Role.OPERATOR, sites=("*",)),
    Binding("ada", Role.USER, accounts=("physics",)),
    Binding("bob", Role.USER, accounts=("physics",)),
    Binding("head", Role.OPERATOR, sites=("north",), accounts=("physics",), users=("ada",)),
    Binding("vera", Role.VIEWER, sites=("*",)),
    Binding("oidc:ada", Role.USER, users=("ada",)),
]

_ON_ONE: dict[str, Any] = {
    "RemoveWebhook": RemoveWebhookRequest,
    "TestWebhook": AskedTest,
    "RotateWebhookSecret": RotateWebhookSecretRequest,
    "ListFailedDeliveries": ListFailedDeliveriesRequest,
    "RetryDeliveries": RetryDeliveriesRequest,
}


@dataclass
class Asked:
    """A service with a table of authority, asked by whoever a test says."""

    world: World
    service: WebhookService
    door: Door
    audit: Audit
    crashes: list[Exception] = field(default_factory=list)
    stub: Any = None
    address: str = ""

    async def add(self, who: str, **asked: Any) -> Any:
        return await self.call(who, "AddWebhook", AddWebhookRequest(**({"url": URL} | asked)))

    async def call(self, who: str, method: str, request: Any) -> Any:
        shown = (("who", who),)
        return await getattr(self.stub, method)(request, metadata=shown, timeout=10)

    async def refused(self, who: str, method: str, request: Any) -> grpc.aio.AioRpcError:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await self.call(who, method, request)
        return error.value

    async def ids(self, who: str) -> list[str]:
        found = await self.call(who, "ListWebhooks", ListWebhooksRequest())
        return [each.webhook_id for each in found.webhooks]


class Named(grpc.aio.ServerInterceptor):
    """Takes the caller for whom metadata say it is."""

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        who = dict(details.invocation_metadata).get("who", "")
        bear(lambda: who)
        return await continuation(details)


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asked]:
    async with _served(tmp_path, _BINDINGS) as found:
        yield found


@asynccontextmanager
async def _served(folder: Path, bindings: list[Binding] | None) -> AsyncIterator[Asked]:
    world, audit, table = World(folder), Audit(), TableInForce()
    if bindings:
        table.now = AuthorityTable(1, bindings)
    door = Door("webhooks", table, audit, NoOpMeter("test"))
    rules, crashes = AddressRules(), list[Exception]()

    async def check(url: str) -> None:
        rules.parse(url)

    service = WebhookService(
        *(world.registry, world.queue, world.deliverer(), KEY, check, door, crashes.append),
        budget_percent=80,
        old_secret_us=DAY_US,
        now_us=world.now_us,
    )
    server = grpc.aio.server(interceptors=[Named()])
    server.add_generic_rpc_handlers((service.handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = cast(Any, WebhookServiceStub)(channel)
        yield Asked(world, service, door, audit, crashes, stub, f"127.0.0.1:{port}")
    await server.stop(None)
    assert crashes == []


async def test_a_webhook_is_of_who_registers_it_and_its_secret_is_shown_once(asked: Asked) -> None:
    made = await asked.add("ada")
    webhook = made.webhook
    assert (webhook.user, webhook.owner, webhook.url) == ("ada", "ada", URL)
    assert list(webhook.types) == ["job.started", "job.ended", "job.rejected"]
    assert webhook.state == WEBHOOK_STATE_ACTIVE
    found = await asked.call("ada", "ListWebhooks", ListWebhooksRequest())
    assert list(found.webhooks) == [webhook]
    assert made.secret not in str(found)
    stored = b"".join(each.read_bytes() for each in asked.world.file.parent.iterdir())
    secret = base64.b64decode(made.secret.removeprefix("whsec_"))
    assert secret not in stored
    assert made.secret.encode() not in stored


@pytest.mark.parametrize(
    ("who", "scope"),
    [
        ("ada", {"user": "bob"}),
        ("ada", {"account": "physics"}),
        ("ada", {"region": True}),
        ("head", {"user": "bob"}),
        ("head", {"account": "art"}),
        ("head", {"region": True}),
        ("vera", {"region": True}),
        ("nobody", {"user": "nobody"}),
        ("oidc:ada", {"user": "bob"}),
        ("oidc:ada", {}),
    ],
)
async def test_who_may_not_have_jobs_of_others_posted_is_refused_and_on_record(
    asked: Asked, who: str, scope: dict[str, Any]
) -> None:
    error = await asked.refused(who, "AddWebhook", AddWebhookRequest(url=URL, **scope))
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert details_of(error)["ErrorInfo"].reason == "NOT_ALLOWED"
    [record] = asked.audit.records
    assert (record.who, record.action, record.refused) == (who, "AddWebhook", True)
    assert asked.world.registry.every() == []


@pytest.mark.parametrize(
    ("who", "scope"),
    [
        ("head", {"user": "ada"}),
        ("oidc:ada", {"user": "ada"}),
        ("head", {"account": "physics"}),
        ("olga", {"user": "bob"}),
        ("olga", {"account": "art"}),
        ("olga", {"region": True, "types": ["alert"]}),
    ],
)
async def test_an_operator_has_posted_what_is_of_its_scope(
    asked: Asked, who: str, scope: dict[str, Any]
) -> None:
    made = await asked.add(who, **scope)
    assert await asked.ids(who) == [made.webhook.webhook_id]


async def test_a_user_sees_and_changes_own_webhooks_alone(asked: Asked) -> None:
    adas = (await asked.add("ada")).webhook.webhook_id
    bobs = (await asked.add("bob")).webhook.webhook_id
    assert await asked.ids("ada") == [adas]
    assert await asked.ids("head") == [adas]
    assert sorted(await asked.ids("olga")) == sorted([adas, bobs])
    asked.audit.records.clear()
    for method, request in _ON_ONE.items():
        for name in (bobs, "wh_unknown"):
            error = await asked.refused("ada", method, request(webhook_id=name))
            assert error.code() is grpc.StatusCode.PERMISSION_DENIED, method
        error = await asked.refused("olga", method, request(webhook_id="wh_unknown"))
        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert details_of(error)["ErrorInfo"].reason == "WEBHOOK_UNKNOWN"
    assert [one.action for one in asked.audit.records] == [
        each for each in _ON_ONE for _ in range(2)
    ]
    assert asked.world.posted.taken == []
    assert asked.world.registry.find(bobs)


async def test_whom_an_operators_webhook_is_about_neither_changes_it_nor_sees_its_url(
    asked: Asked,
) -> None:
    url = "https://example.org:8443/hook/path-secret?token=secret"
    for who in ("olga", "head"):
        made = await asked.add(who, user="ada", url=url)
        name = made.webhook.webhook_id
        asked.audit.records.clear()
        for method, request in _ON_ONE.items():
            error = await asked.refused("ada", method, request(webhook_id=name))
            assert error.code() is grpc.StatusCode.PERMISSION_DENIED, method
        refused = [(one.action, one.refused) for one in asked.audit.records]
        assert refused == [(method, True) for method in _ON_ONE]
        row = asked.world.registry.find(name)
        assert row
        assert row.secret_number == 1
    found = await asked.call("ada", "ListWebhooks", ListWebhooksRequest())
    assert [each.url for each in found.webhooks] == ["https://example.org:8443"] * 2
    found = await asked.call("olga", "ListWebhooks", ListWebhooksRequest())
    assert [each.url for each in found.webhooks] == [url] * 2
    found = await asked.call("head", "ListWebhooks", ListWebhooksRequest())
    urls = {each.owner: each.url for each in found.webhooks}
    assert urls == {"head": url, "olga": "https://example.org:8443"}


async def test_who_registered_a_webhook_and_operators_of_the_region_change_it(
    asked: Asked,
) -> None:
    name = (await asked.add("head", user="ada")).webhook.webhook_id
    rotate = RotateWebhookSecretRequest(webhook_id=name)
    for who in ("head", "olga"):
        await asked.call(who, "RotateWebhookSecret", rotate)
    await asked.call("olga", "RemoveWebhook", RemoveWebhookRequest(webhook_id=name))
    assert asked.world.registry.every() == []


async def test_each_change_is_in_the_audit_with_who_made_it(asked: Asked) -> None:
    name = (await asked.add("ada", url=URL + "?token=secret")).webhook.webhook_id
    await asked.call("ada", "TestWebhook", AskedTest(webhook_id=name))
    await asked.call("ada", "RotateWebhookSecret", RotateWebhookSecretRequest(webhook_id=name))
    await asked.call("olga", "RetryDeliveries", RetryDeliveriesRequest(webhook_id=name))
    await asked.call("olga", "RemoveWebhook", RemoveWebhookRequest(webhook_id=name))
    found = [(one.who, one.action, one.event_id, one.refused) for one in asked.audit.records]
    assert found == [
        ("ada", "AddWebhook", name, False),
        ("ada", "TestWebhook", name, False),
        ("ada", "RotateWebhookSecret", name, False),
        ("olga", "RetryDeliveries", name, False),
        ("olga", "RemoveWebhook", name, False),
    ]
    assert "secret" not in str(asked.audit.records)


async def test_without_a_table_each_change_is_on_record_too(tmp_path: Path) -> None:
    async with _served(tmp_path, None) as asked:
        await asked.add("", user="ada")
        assert [one.action for one in asked.audit.records] == ["AddWebhook"]
        error = await asked.refused("", "AddWebhook", AddWebhookRequest(url=URL))
        assert "name one of user, account and region" in str(error.details())


async def test_what_was_registered_by_nobody_ends_where_a_table_is_declared(
    tmp_path: Path,
) -> None:
    async with _served(tmp_path, None) as asked:
        await asked.add("", user="ada")
        [row] = asked.world.registry.every()
        assert objection_of(asked.door, row, row.owner) == ""
        asked.door.table.now = AuthorityTable(1, _BINDINGS)
        assert "may not have it posted" in objection_of(asked.door, row, row.owner)


async def test_a_right_that_is_taken_away_ends_the_webhook(asked: Asked) -> None:
    await asked.add("ada")
    [row] = asked.world.registry.every()
    assert objection_of(asked.door, row, "ada") == ""
    asked.door.table.now = AuthorityTable(2, _BINDINGS[:1])
    assert "'ada' may not have it posted" in objection_of(asked.door, row, row.owner)


async def test_there_are_so_many_webhooks_of_one_owner_and_in_all(asked: Asked) -> None:
    for _ in range(10):
        await asked.add("ada")
    error = await asked.refused("ada", "AddWebhook", AddWebhookRequest(url=URL))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "there are 10 of 'ada', which is the most: remove one" in str(error.details())
    for number in range(90):
        asked.world.add(f"w{number}", user="bob", who=f"bob{number}")
    error = await asked.refused("bob", "AddWebhook", AddWebhookRequest(url=URL))
    assert "ask an operator" in str(error.details())


async def test_lists_have_pages(asked: Asked) -> None:
    names = sorted([(await asked.add("ada")).webhook.webhook_id for _ in range(5)])
    found, token = list[str](), ""
    while True:
        page = ListWebhooksRequest(page_size=2, page_token=token)
        answer = await asked.call("ada", "ListWebhooks", page)
        found += [each.webhook_id for each in answer.webhooks]
        token = answer.next_page_token
        if not token:
            break
    assert found == names


@pytest.mark.parametrize("url", ["http://example.org/", "https://10.0.0.1/", "https://a:b@x.org/"])
async def test_a_url_that_is_no_receiver_is_refused_by_its_field(asked: Asked, url: str) -> None:
    error = await asked.refused("ada", "AddWebhook", AddWebhookRequest(url=url))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details_of(error)["BadRequest"].field_violations[0].field == "url"


async def test_a_test_says_what_came_of_it_and_enables_again(asked: Asked) -> None:
    name = (await asked.add("ada")).webhook.webhook_id
    asked.world.registry.disable(name, "it failed", asked.world.now)
    asked.world.posted.statuses = [500]
    asked.service._deliverer._post = asked.world.posted
    request = AskedTest(webhook_id=name)
    failed = await asked.call("ada", "TestWebhook", request)
    assert (failed.delivered, failed.status, failed.error) == (False, 500, "it answers 500")
    error = await asked.refused("ada", "RetryDeliveries", RetryDeliveriesRequest(webhook_id=name))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "a test that succeeds enables it" in str(error.details())
    asked.world.posted.statuses = [200]
    assert (await asked.call("ada", "TestWebhook", request)).delivered
    [shown] = (await asked.call("ada", "ListWebhooks", ListWebhooksRequest())).webhooks
    assert (shown.state, shown.reason) == (WEBHOOK_STATE_ACTIVE, "")
    assert asked.world.posted.documents[0]["type"] == "webhook.test"
    assert asked.world.posted.documents[0]["data"] == {"testedBy": "ada", "webhookId": name}


async def test_both_secrets_sign_while_one_is_replaced(asked: Asked) -> None:
    made = await asked.add("ada")
    name, world = made.webhook.webhook_id, asked.world
    request = RotateWebhookSecretRequest(webhook_id=name)
    rotated = await asked.call("ada", "RotateWebhookSecret", request)
    assert rotated.old_secret_until_us == world.now + DAY_US
    assert rotated.secret != made.secret
    world.tell("jobs.events", submitted("j"), started("j"))
    await world.deliver()
    world.now += DAY_US + 1
    world.tell("jobs.events", started("j", 2))
    await world.deliver()
    signatures = [headers["webhook-signature"].split() for _, headers, _ in world.posted.taken]
    assert [len(each) for each in signatures] == [2, 1]
    assert rotated.secret == secret_text(KEY.of(name, 2))
    assert Verifier(made.secret)._whsecret == KEY.of(name, 1)


async def test_failed_deliveries_are_listed_by_pages_and_retried(asked: Asked) -> None:
    name, world = (await asked.add("ada")).webhook.webhook_id, asked.world
    world.registry.disable(name, "it failed", world.now)
    for number in range(3):
        world.tell("jobs.events", submitted(f"j{number}"), started(f"j{number}"))
    await asked.call("ada", "TestWebhook", AskedTest(webhook_id=name))
    request = ListFailedDeliveriesRequest(webhook_id=name, page_size=2)
    first = await asked.call("ada", "ListFailedDeliveries", request)
    request.page_token = first.next_page_token
    second = await asked.call("ada", "ListFailedDeliveries", request)
    every = [each.delivery_id for each in (*first.deliveries, *second.deliveries)]
    assert len(set(every)) == 3
    retry = RetryDeliveriesRequest(webhook_id=name, delivery_ids=every[:1])
    assert (await asked.call("ada", "RetryDeliveries", retry)).deliveries == 1
    del retry.delivery_ids[:]
    assert (await asked.call("ada", "RetryDeliveries", retry)).deliveries == 2
    await world.deliver()
    assert sorted(world.posted.ids[1:]) == sorted(every)


async def test_rest_answers_the_same(tmp_path: Path) -> None:
    async with _served(tmp_path, None) as asked:
        services = Services({"coplace.v1.WebhookService": asked.address}, None, 30.0)
        async with listening(services) as client:
            made = (await client.post("/v1/webhooks", {"url": URL, "user": "ada"})).json
            assert made["secret"].startswith("whsec_")
            listed = (await client.get("/v1/webhooks")).json
            name = {"webhookId": made["webhook"]["webhookId"]}
            failed = await client.get(f"/v1/webhooks/failed?webhookId={name['webhookId']}")
            removed = await client.post("/v1/webhooks/remove", name)
            wrong = await client.post("/v1/webhooks", {"url": "http://x", "user": "ada"})
        await services.close()
    assert listed["webhooks"] == [made["webhook"]]
    assert failed.json == {"deliveries": [], "nextPageToken": ""}
    assert removed.json == {}
    assert wrong.status == 400


def test_another_key_than_the_one_of_the_secrets_is_refused(tmp_path: Path) -> None:
    registry = World(tmp_path).registry
    registry.require_key(KEY.check)
    registry.require_key(KEY.check)
    with pytest.raises(CannotStartError, match="COPLACE_WEBHOOKS_KEY_FILE"):
        registry.require_key("another")


async def test_a_message_that_is_no_protobuf_is_refused(asked: Asked) -> None:
    async with (
        served_by_process(asked.service.handlers()) as (address, _),
        grpc.aio.insecure_channel(address) as channel,
    ):
        call: Any = channel.unary_unary("/coplace.v1.WebhookService/AddWebhook")
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call(b"\xff\xff", timeout=10)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
