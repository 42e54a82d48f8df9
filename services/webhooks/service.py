"""The gRPC service: webhooks are registered, looked after and removed, behind the table of
authority. Each change is on record before it is made."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar

import grpc
from coplace.v1.webhook_service_pb2 import (
    AddWebhookRequest,
    AddWebhookResponse,
    ListFailedDeliveriesRequest,
    ListFailedDeliveriesResponse,
    ListWebhooksRequest,
    ListWebhooksResponse,
    RemoveWebhookRequest,
    RemoveWebhookResponse,
    RetryDeliveriesRequest,
    RetryDeliveriesResponse,
    RotateWebhookSecretRequest,
    RotateWebhookSecretResponse,
    TestWebhookRequest,
    TestWebhookResponse,
    WebhookTested,
)
from google.protobuf.message import Message
from grpc.aio import ServicerContext
from yarl import URL

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from services.webhooks.deliveries import DeliveryQueue
from services.webhooks.delivering import Deliverer
from services.webhooks.registration import WebhookRow, registered
from services.webhooks.registry import WebhookRegistry
from services.webhooks.signing import Secrets, delivery_id, secret_text
from shared.authority.callers import caller
from shared.authority.door import AccessRequest, Door
from shared.authority.rules import About, AccessVerdict
from shared.catalogue.webhook_types import TEST, webhook_body
from shared.process.grpc_answers import Answering, answering_methods
from shared.process.grpc_errors import RefusalReason, RefusedCallError
from shared.process.pages import page_key, page_size, page_token

NAME: Final = "coplace.v1.WebhookService"
_MOST_RETRIED: Final = 1_000
_ID_BYTES: Final = 8
_Request = TypeVar("_Request", bound=Message)
_T = TypeVar("_T")


class WebhookService:
    """The RPCs. `check_url` raises RejectedError for a URL that is not posted to, `crash` ends the
    process for an exception that is no fault of a caller."""

    def __init__(
        self,
        registry: WebhookRegistry,
        queue: DeliveryQueue,
        deliverer: Deliverer,
        keys: Secrets,
        check_url: Callable[[str], Awaitable[None]],
        door: Door,
        crash: Callable[[Exception], object],
        *,
        budget_percent: int,
        old_secret_us: int,
        now_us: Callable[[], int],
    ) -> None:
        self._registry, self._queue, self._deliverer = registry, queue, deliverer
        self._keys, self._check_url = keys, check_url
        self._door, self._crash = door, crash
        self._budget_percent, self._old_secret_us = budget_percent, old_secret_us
        self._now_us = now_us

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the RPCs."""
        methods: dict[str, Answering] = {
            "AddWebhook": (AddWebhookRequest, self.add),
            "ListWebhooks": (ListWebhooksRequest, self.list_webhooks),
            "RemoveWebhook": (RemoveWebhookRequest, self.remove),
            "TestWebhook": (TestWebhookRequest, self.test),
            "RotateWebhookSecret": (RotateWebhookSecretRequest, self.rotate_secret),
            "ListFailedDeliveries": (ListFailedDeliveriesRequest, self.list_failed),
            "RetryDeliveries": (RetryDeliveriesRequest, self.retry),
        }
        return answering_methods(NAME, methods, self._crash)

    async def add(
        self, asked: AddWebhookRequest, context: ServicerContext[Any, Any]
    ) -> AddWebhookResponse:
        """Register a webhook and answer with its secret."""
        name, who = f"wh_{secrets.token_hex(_ID_BYTES)}", caller(context)
        row = registered(asked, name, who, self._budget_percent, self._now_us())
        await self._require(context, "AddWebhook", row.about)
        await self._check_url(row.url)
        await self._record(context, "AddWebhook", row)
        await asyncio.to_thread(self._registry.add, row)
        secret = secret_text(self._keys.of(name, row.secret_number))
        return AddWebhookResponse(webhook=row.message(), secret=secret)

    async def list_webhooks(
        self, asked: ListWebhooksRequest, context: ServicerContext[Any, Any]
    ) -> ListWebhooksResponse:
        """Answer with a page of the webhooks that the caller might register, with the host alone
        of the URLs of those that it may not change."""
        await self._require(context, "ListWebhooks", About())
        size, behind = page_size(asked.page_size), page_key(asked.page_token, (str,))
        who = caller(context)
        own = [
            row
            for row in await asyncio.to_thread(self._registry.every)
            if (behind is None or row.webhook_id > str(behind[0])) and not self.objection(row, who)
        ]
        shown = await asyncio.to_thread(self._registry.shown, own[:size])
        for row, webhook in zip(own, shown, strict=False):
            if not self._may_change(row, who):
                webhook.url = str(URL(row.url).origin())
        token = page_token((own[size - 1].webhook_id,)) if len(own) > size else ""
        return ListWebhooksResponse(webhooks=shown, next_page_token=token)

    async def remove(
        self, asked: RemoveWebhookRequest, context: ServicerContext[Any, Any]
    ) -> RemoveWebhookResponse:
        """Remove a webhook."""
        row = await self._own(context, "RemoveWebhook", asked.webhook_id)
        await self._record(context, "RemoveWebhook", row)
        await asyncio.to_thread(self._registry.remove, row.webhook_id)
        return RemoveWebhookResponse()

    async def test(
        self, asked: TestWebhookRequest, context: ServicerContext[Any, Any]
    ) -> TestWebhookResponse:
        """Post to a webhook now, and answer what came of it."""
        row = await self._own(context, "TestWebhook", asked.webhook_id)
        await self._record(context, "TestWebhook", row)
        now_us = self._now_us()
        data = WebhookTested(webhook_id=row.webhook_id, tested_by=caller(context))
        name = delivery_id(row.webhook_id, f"{TEST}/{now_us}")
        attempt = await self._deliverer.attempt(row, name, webhook_body(TEST, now_us, data))
        note = partial(self._registry.note, enables=True)
        await asyncio.to_thread(note, row.webhook_id, attempt, self._now_us())
        return TestWebhookResponse(
            delivery_id=name,
            delivered=attempt.is_delivered,
            status=attempt.status,
            error=attempt.error,
        )

    async def rotate_secret(
        self, asked: RotateWebhookSecretRequest, context: ServicerContext[Any, Any]
    ) -> RotateWebhookSecretResponse:
        """Make another secret."""
        row = await self._own(context, "RotateWebhookSecret", asked.webhook_id)
        await self._record(context, "RotateWebhookSecret", row)
        until_us = self._now_us() + self._old_secret_us
        fresh = await asyncio.to_thread(self._registry.rotate, row.webhook_id, until_us)
        if fresh is None:
            raise _unknown(row.webhook_id)
        secret = secret_text(self._keys.of(fresh.webhook_id, fresh.secret_number))
        return RotateWebhookSecretResponse(secret=secret, old_secret_until_us=until_us)

    async def list_failed(
        self, asked: ListFailedDeliveriesRequest, context: ServicerContext[Any, Any]
    ) -> ListFailedDeliveriesResponse:
        """Answer with a page of the deliveries that were given up."""
        row = await self._own(context, "ListFailedDeliveries", asked.webhook_id)
        size, key = page_size(asked.page_size), page_key(asked.page_token, (int, str))
        behind = (int(key[0]), str(key[1])) if key else None
        found = await asyncio.to_thread(self._queue.failed, row.webhook_id, behind, size + 1)
        shown = found[:size]
        last = (shown[-1].failed_at_us, shown[-1].delivery_id) if len(found) > size else None
        token = page_token(last) if last else ""
        return ListFailedDeliveriesResponse(deliveries=shown, next_page_token=token)

    async def retry(
        self, asked: RetryDeliveriesRequest, context: ServicerContext[Any, Any]
    ) -> RetryDeliveriesResponse:
        """Have deliveries tried again that were given up."""
        if len(asked.delivery_ids) > _MOST_RETRIED:
            problem = f"must be at most {_MOST_RETRIED}, or none, which means all"
            raise RejectedError("delivery_ids", problem)
        row = await self._own(context, "RetryDeliveries", asked.webhook_id)
        if not row.is_active:
            problem = f"{row.webhook_id} is disabled: {row.reason}; a test that succeeds enables it"
            code, reason = grpc.StatusCode.FAILED_PRECONDITION, RefusalReason.WEBHOOK_DISABLED
            raise RefusedCallError(code, problem, reason)
        await self._record(context, "RetryDeliveries", row)
        names = list(asked.delivery_ids)
        count = await asyncio.to_thread(self._queue.retry, row.webhook_id, names, self._now_us())
        self._deliverer.wake()
        return RetryDeliveriesResponse(deliveries=count)

    def objection(self, row: WebhookRow, who: str) -> str:
        """Return why an identity may not have what a webhook has posted; empty where it may."""
        return objection_of(self._door, row, who)

    async def _own(
        self, context: ServicerContext[Any, Any], action: str, webhook_id: str
    ) -> WebhookRow:
        """Return a webhook that the caller may have: who registered it, or may have all of them. Of
        one that there is not nobody else than the latter learns that."""
        require_text("webhook_id", webhook_id)
        row = await asyncio.to_thread(self._registry.find, webhook_id)
        if row is None:
            await self._require(context, action, About(is_region=True))
            raise _unknown(webhook_id)
        await self._require(context, action, row.about)
        if _is_of_another(row, caller(context)):
            await self._require(context, action, About(is_region=True))
        return row

    def _may_change(self, row: WebhookRow, who: str) -> bool:
        table = self._door.table.now
        if table is None or not _is_of_another(row, who):
            return True
        return table.may(who, "RemoveWebhook", About(is_region=True)).is_allowed

    async def _require(self, context: ServicerContext[Any, Any], action: str, about: About) -> None:
        verdict = await self._door.answer(context, action, about)
        if not verdict.is_allowed:
            code = grpc.StatusCode.PERMISSION_DENIED
            raise RefusedCallError(code, verdict.reason, RefusalReason.NOT_ALLOWED)

    async def _record(
        self, context: ServicerContext[Any, Any], action: str, row: WebhookRow
    ) -> None:
        attempt = AccessRequest(caller(context), action, row.about, row.webhook_id)
        verdict = AccessVerdict(True, f"{row.url.partition('?')[0]}")
        await (await self._door.record(attempt, verdict))


def objection_of(door: Door, row: WebhookRow, who: str) -> str:
    """Return why an identity may not have what a webhook has posted; empty where it may."""
    table = door.table.now
    if table is None:
        return ""
    verdict = table.may(who, "AddWebhook", row.about)
    return "" if verdict.is_allowed else f"{who!r} may not have it posted: {verdict.reason}"


def _is_of_another(row: WebhookRow, who: str) -> bool:
    return bool(row.owner) and row.owner != who


def _unknown(webhook_id: str) -> RefusedCallError:
    problem = f"there is no webhook {webhook_id[:80]!r}: `coplace webhook list` shows yours"
    return RefusedCallError(grpc.StatusCode.NOT_FOUND, problem, RefusalReason.WEBHOOK_UNKNOWN)
