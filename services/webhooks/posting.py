"""Deliveries that are to be made: written in the transaction of what they say."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import structlog
from google.protobuf.message import Message
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.sqlite import insert

from coplace_client.errors import RejectedError
from services.webhooks.model import DeliveryState
from services.webhooks.registration import Hearers, WebhookRow
from services.webhooks.signing import delivery_id
from services.webhooks.tables import DELIVERIES, WEBHOOKS
from shared.catalogue.webhook_types import webhook_body

_TOO_MANY: Final = "too many deliveries wait for the webhook"
_DISABLED: Final = "the webhook is disabled"

log = structlog.get_logger(__name__)


class PostingLimits(NamedTuple):
    """How many deliveries may wait for one webhook, and how far clocks of writers may be behind."""

    most_waiting: int
    tolerance_us: int


class Outbox:
    """Makes the rows of one transaction, which `write` writes."""

    def __init__(
        self, connection: Connection, limits: PostingLimits, now_us: Callable[[], int]
    ) -> None:
        self._connection, self._limits = connection, limits
        self.now_us = now_us()
        rows = (WebhookRow._make(row) for row in connection.execute(select(WEBHOOKS)))
        self.hearers = Hearers(rows, limits.tolerance_us)
        self._waiting: dict[str, int] = {}
        self._rows: dict[str, Mapping[str, Any]] = {}

    def post(
        self, hearers: Iterable[WebhookRow], event_id: str, kind: str, at_us: int, data: Message
    ) -> None:
        """Have an event delivered to webhooks. What cannot be delivered now is given up, where its
        owner finds it; an event that no body can have is left out."""
        body = b""
        for row in hearers:
            name = delivery_id(row.webhook_id, event_id)
            if name in self._rows:
                continue
            try:
                body = body or webhook_body(kind, at_us, data)
            except RejectedError as error:
                log.warning("left out", event_id=event_id, problem=str(error))
                return
            problem = self._problem(row)
            self._rows[name] = {
                "delivery_id": name,
                "webhook_id": row.webhook_id,
                "type": kind,
                "at_us": at_us,
                "body": body,
                "state": DeliveryState.FAILED if problem else DeliveryState.WAITING,
                "attempts": 0,
                "due_at_us": self.now_us,
                "last_status": 0,
                "last_error": problem,
                "created_at_us": self.now_us,
            }
            if not problem:
                self._waiting[row.webhook_id] += 1

    def write(self) -> None:
        """Write the rows; those that are there already are left as they are."""
        if self._rows:
            query = insert(DELIVERIES).on_conflict_do_nothing()
            self._connection.execute(query, list(self._rows.values()))

    def _problem(self, row: WebhookRow) -> str:
        if not row.is_active:
            return _DISABLED
        if row.webhook_id not in self._waiting:
            query = select(func.count()).where(
                DELIVERIES.c.webhook_id == row.webhook_id,
                DELIVERIES.c.state == DeliveryState.WAITING,
            )
            self._waiting[row.webhook_id] = self._connection.execute(query).scalar_one()
        is_full = self._waiting[row.webhook_id] >= self._limits.most_waiting
        return _TOO_MANY if is_full else ""
