"""Webhooks over a log of facts, with a clock that a test turns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from coplace.v1.accounts_pb2 import WHEN_EMPTY_RUN, AllocationDeclared
from coplace.v1.webhook_service_pb2 import AddWebhookRequest
from sqlalchemy import select

from services.webhooks.app import MIGRATIONS
from services.webhooks.deliveries import DeliveryQueue, Retention
from services.webhooks.delivering import Deliverer, DispatchLimits
from services.webhooks.facts import TOPICS
from services.webhooks.model import DeliveryAttempt, DeliveryState
from services.webhooks.posting import PostingLimits
from services.webhooks.registration import WebhookRow, registered
from services.webhooks.registry import RegistryLimits, WebhookRegistry
from services.webhooks.signing import Secrets
from services.webhooks.tables import DELIVERIES
from services.webhooks.writing import TopicWriter
from shared.catalogue.record import Record, TopicPartition
from shared.sql.sqlite import SqliteDatabase
from shared.streams.following import TopicBatch
from tests.unit.services.history.made import CODEC, T0_US, TOPIC_ID, FactLog

DAY_US = 86_400_000_000
URL = "https://example.org/hook"
LIMITS = PostingLimits(most_waiting=1_000, tolerance_us=10_000_000)
RETENTION = Retention(7 * DAY_US, 30 * DAY_US, 100, 7 * DAY_US, 400 * DAY_US, DAY_US)
KEY = Secrets(b"k" * 32)


class Attempts:
    """Counts attempts."""

    def __init__(self) -> None:
        self.made: list[DeliveryAttempt] = []

    def attempted(self, attempt: DeliveryAttempt) -> None:
        self.made.append(attempt)


class Posted:
    """A receiver that answers what a test says: the newest status first of those that are left,
    the last one for ever."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses) or [200]
        self.retry_after_us = 0
        self.taken: list[tuple[str, Mapping[str, str], bytes]] = []

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> DeliveryAttempt:
        self.taken.append((url, headers, body))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return DeliveryAttempt(
            status, "" if status == 200 else f"it answers {status}", self.retry_after_us
        )

    @property
    def ids(self) -> list[str]:
        """The headers webhook-id."""
        return [headers["webhook-id"] for _, headers, _ in self.taken]

    @property
    def documents(self) -> list[Any]:
        """The bodies."""
        return [orjson.loads(body) for _, _, body in self.taken]


class World:
    """A database, its topics and a clock."""

    def __init__(self, folder: Path, *, limits: PostingLimits = LIMITS) -> None:
        self.file = folder / "webhooks.db"
        self.limits = limits
        self.now = T0_US
        self.log = FactLog()
        self.posted = Posted()
        self.attempts = Attempts()
        self.objections: dict[str, str] = {}
        self.open()
        for topic in TOPICS:
            for place in CODEC.topics.partitions(topic):
                self.writer.begin(place, TOPIC_ID, 0)

    def open(self) -> None:
        """Begin as a process does that was killed."""
        self.database = SqliteDatabase(self.file)
        self.database.migrate(MIGRATIONS, "restore an older one")
        self.writer = TopicWriter(self.database, CODEC, self.limits, self.now_us)
        self.registry = WebhookRegistry(self.database, RegistryLimits(10, 100, 5 * DAY_US))
        self.queue = DeliveryQueue(self.database, 5 * DAY_US)

    def now_us(self) -> int:
        return self.now

    def add(self, webhook_id: str, *, who: str = "ada", **asked: Any) -> WebhookRow:
        """Register a webhook."""
        request = AddWebhookRequest(url=URL, **asked)
        row = registered(request, webhook_id, who, 80, self.now)
        self.registry.add(row)
        return row

    def tell(self, topic: str, *payloads: Any) -> None:
        """Write events, and apply all that was written."""
        self.log.add(topic, *payloads)
        self.apply()

    def apply(self, places: Sequence[TopicPartition] | None = None) -> int:
        """Apply what was not applied yet of some Kafka partitions, or of all."""
        applied = 0
        for place in list(self.log.records) if places is None else places:
            at = self.writer.positions()[place].position
            if fresh := self.log.records[place][at:]:
                applied += self.writer.apply([batch(fresh, at)])
        return applied

    def deliverer(self, limits: DispatchLimits | None = None) -> Deliverer:
        """What delivers."""
        return Deliverer(
            *(self.queue, self.registry, self.posted, KEY),
            limits or DispatchLimits(4, 4, 16),
            *(RETENTION, self.attempts),
            objection=lambda row: self.objections.get(row.webhook_id, ""),
            now_us=self.now_us,
        )

    async def deliver(self) -> None:
        """Deliver all that is due now."""
        deliverer = self.deliverer()
        while await deliverer.step():
            await deliverer.settled()

    def rows(self, webhook_id: str = "") -> list[Any]:
        """All deliveries, of one webhook or of all."""
        query = select(DELIVERIES).order_by(DELIVERIES.c.created_at_us, DELIVERIES.c.delivery_id)
        if webhook_id:
            query = query.where(DELIVERIES.c.webhook_id == webhook_id)
        with self.database.transaction() as connection:
            return list(connection.execute(query))

    def types(self, webhook_id: str = "") -> list[str]:
        """The types of all deliveries."""
        return sorted(row.type for row in self.rows(webhook_id))

    def states(self) -> list[DeliveryState]:
        return [DeliveryState(row.state) for row in self.rows()]


def batch(records: Sequence[Record], read_from: int) -> TopicBatch:
    """A batch of records of one Kafka partition."""
    return TopicBatch(records[0].partition, read_from, records, records[-1].offset + 1)


def allocated(account: str, su: str, at_us: int = T0_US) -> AllocationDeclared:
    return AllocationDeclared(
        account=account, allocated_su=su, when_empty=WHEN_EMPTY_RUN, declared_at_us=at_us
    )
