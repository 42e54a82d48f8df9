"""Deliveries in the database: which are due, what came of them, and which were given up."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from coplace.v1.webhook_service_pb2 import WEBHOOK_STATE_DISABLED, FailedDelivery
from sqlalchemy import ColumnElement, Table, delete, exists, func, literal, select, tuple_, update

from services.webhooks.model import DeliveryAttempt, DeliveryState, after_attempt
from services.webhooks.registration import WebhookRow
from services.webhooks.registry import note
from services.webhooks.tables import DELIVERIES, EARLY, JOBS, WEBHOOKS
from shared.sql.sqlite import SqliteDatabase

# Rows that one transaction removes: others have their turn between.
_REMOVED_AT_ONCE = 5_000


class Delivery(NamedTuple):
    """What is to be posted."""

    delivery_id: str
    body: bytes
    attempts: int


class DueWebhook(NamedTuple):
    """A webhook with deliveries that are due."""

    webhook: WebhookRow
    deliveries: Sequence[Delivery]


class DeliveryBacklog(NamedTuple):
    """How much waits, for how long the oldest of receivers that answer is overdue, how much was
    given up, and how many webhooks are disabled."""

    waiting: int = 0
    overdue_s: float = 0.0
    failed: int = 0
    disabled: int = 0


class Retention(NamedTuple):
    """How long rows are kept, us, and how many given-up deliveries of one webhook."""

    delivered_us: int
    failed_us: int
    most_failed: int
    ended_jobs_us: int
    jobs_us: int
    early_us: int


class DeliveryQueue:
    """The deliveries of all webhooks."""

    def __init__(self, database: SqliteDatabase, most_failing_us: int) -> None:
        self._database, self._most_failing_us = database, most_failing_us

    def due(
        self, now_us: int, under_way: Mapping[str, Collection[str]], at_once: int
    ) -> Sequence[DueWebhook]:
        """Return the webhooks that something is due for, those that wait longest first, each with
        its oldest deliveries: as many as may be under way at once, without those that are."""
        is_waiting = DELIVERIES.c.state == DeliveryState.WAITING
        of_webhook = DELIVERIES.c.webhook_id == WEBHOOKS.c.webhook_id
        due_at_us = DELIVERIES.c.due_at_us
        oldest = select(func.min(due_at_us)).where(of_webhook, is_waiting).scalar_subquery()
        full = [name for name, each in under_way.items() if len(each) >= at_once]
        query = select(WEBHOOKS, oldest.label("oldest")).where(
            exists().where(of_webhook, is_waiting, due_at_us <= now_us),
            WEBHOOKS.c.webhook_id.not_in(full),
        )
        found = list[DueWebhook]()
        with self._database.transaction() as connection:
            for row in connection.execute(query.order_by("oldest")).all():
                webhook = WebhookRow._make(row[:-1])
                own = DELIVERIES.c.webhook_id == webhook.webhook_id
                already = under_way.get(webhook.webhook_id, ())
                page = select(
                    DELIVERIES.c.delivery_id, DELIVERIES.c.body, DELIVERIES.c.attempts
                ).where(own, is_waiting, due_at_us <= now_us)
                page = page.where(DELIVERIES.c.delivery_id.not_in(already))
                page = page.order_by(due_at_us, DELIVERIES.c.delivery_id)
                rows = connection.execute(page.limit(at_once - len(already)))
                if deliveries := [Delivery._make(each) for each in rows]:
                    found.append(DueWebhook(webhook, deliveries))
        return found

    def next_due_us(self) -> int | None:
        """Return when the next delivery is due, None where none waits."""
        query = select(func.min(DELIVERIES.c.due_at_us)).where(
            DELIVERIES.c.state == DeliveryState.WAITING
        )
        with self._database.transaction() as connection:
            found: int | None = connection.execute(query).scalar()
            return found

    def attempted(
        self, webhook_id: str, delivery: Delivery, attempt: DeliveryAttempt, now_us: int
    ) -> DeliveryState:
        """Note what came of an attempt, and return what the delivery is now."""
        name = delivery.delivery_id
        following = after_attempt(name, delivery.attempts, attempt, now_us)
        values = {
            "state": following.state,
            "attempts": following.attempts,
            "due_at_us": following.due_at_us,
            "last_status": attempt.status,
            "last_error": attempt.error,
        }
        query = update(DELIVERIES).where(DELIVERIES.c.delivery_id == name)
        if not attempt.is_delivered:
            # The webhook may have been disabled meanwhile, and this given up.
            query = query.where(DELIVERIES.c.state == DeliveryState.WAITING)
        with self._database.transaction() as connection:
            connection.execute(query.values(values))
            note(connection, webhook_id, attempt, now_us, self._most_failing_us)
        return following.state

    def failed(
        self, webhook_id: str, behind: tuple[int, str] | None, most: int
    ) -> Sequence[FailedDelivery]:
        """Return a page of the deliveries that were given up, the newest first."""
        key = DELIVERIES.c.due_at_us, DELIVERIES.c.delivery_id
        where = DELIVERIES.c.webhook_id == webhook_id, DELIVERIES.c.state == DeliveryState.FAILED
        query = select(DELIVERIES).where(*where).order_by(*(each.desc() for each in key))
        if behind is not None:
            query = query.where(tuple_(*key) < tuple_(*map(literal, behind)))
        with self._database.transaction() as connection:
            return [
                FailedDelivery(
                    delivery_id=row.delivery_id,
                    type=row.type,
                    at_us=row.at_us,
                    attempts=row.attempts,
                    last_status=row.last_status,
                    last_error=row.last_error,
                    failed_at_us=row.due_at_us,
                )
                for row in connection.execute(query.limit(most))
            ]

    def retry(self, webhook_id: str, delivery_ids: Sequence[str], now_us: int) -> int:
        """Have deliveries tried again that were given up, all where none is named; return how many
        these are."""
        query = update(DELIVERIES).where(
            DELIVERIES.c.webhook_id == webhook_id, DELIVERIES.c.state == DeliveryState.FAILED
        )
        if delivery_ids:
            query = query.where(DELIVERIES.c.delivery_id.in_(delivery_ids))
        values = {"state": DeliveryState.WAITING, "attempts": 0, "due_at_us": now_us}
        with self._database.transaction() as connection:
            return connection.execute(query.values(values)).rowcount

    def backlog(self, now_us: int) -> DeliveryBacklog:
        """Return how much waits."""
        of_state = select(func.count()).select_from(DELIVERIES)
        disabled = select(func.count()).where(WEBHOOKS.c.state == WEBHOOK_STATE_DISABLED)
        is_waiting = DELIVERIES.c.state == DeliveryState.WAITING
        oldest = (
            select(func.min(DELIVERIES.c.due_at_us))
            .join(WEBHOOKS, WEBHOOKS.c.webhook_id == DELIVERIES.c.webhook_id)
            .where(is_waiting, WEBHOOKS.c.failing_since_us == 0)
        )
        with self._database.transaction() as connection:
            found = connection.scalar(oldest)
            return DeliveryBacklog(
                connection.scalar(of_state.where(is_waiting)) or 0,
                0.0 if found is None else max(0, now_us - found) / 1e6,
                connection.scalar(of_state.where(DELIVERIES.c.state == DeliveryState.FAILED)) or 0,
                connection.scalar(disabled) or 0,
            )

    def remove_old(self, now_us: int, kept: Retention) -> int:
        """Remove what is kept no longer, and return how many rows that were."""
        state, since = DELIVERIES.c.state, DELIVERIES.c.due_at_us
        rules = (
            (DELIVERIES, (state == DeliveryState.DELIVERED, since < now_us - kept.delivered_us)),
            (DELIVERIES, (state == DeliveryState.FAILED, since < now_us - kept.failed_us)),
            (JOBS, (JOBS.c.has_ended.is_(True), JOBS.c.heard_at_us < now_us - kept.ended_jobs_us)),
            (JOBS, (JOBS.c.has_ended.is_(False), JOBS.c.heard_at_us < now_us - kept.jobs_us)),
            (EARLY, (EARLY.c.heard_at_us < now_us - kept.early_us,)),
        )
        removed = 0
        for table, where in rules:
            removed += self._remove(table, *where)
        return removed + self._remove_excess(kept.most_failed)

    def _remove(self, table: Table, *where: ColumnElement[bool]) -> int:
        [key] = table.primary_key.columns
        some = select(key).where(*where).limit(_REMOVED_AT_ONCE)
        removed = 0
        while True:
            with self._database.transaction() as connection:
                found = connection.execute(delete(table).where(key.in_(some))).rowcount
            removed += found
            if found < _REMOVED_AT_ONCE:
                return removed

    def _remove_excess(self, most_failed: int) -> int:
        """Of each webhook the newest of those that were given up are kept."""
        given_up = DELIVERIES.c.state == DeliveryState.FAILED
        many = (
            select(DELIVERIES.c.webhook_id)
            .where(given_up)
            .group_by(DELIVERIES.c.webhook_id)
            .having(func.count() > most_failed)
        )
        with self._database.transaction() as connection:
            names = connection.execute(many).scalars().all()
        removed = 0
        for name in names:
            of = DELIVERIES.c.webhook_id == name, given_up
            newest = (
                select(DELIVERIES.c.delivery_id)
                .where(*of)
                .order_by(DELIVERIES.c.due_at_us.desc(), DELIVERIES.c.delivery_id.desc())
                .limit(most_failed)
            )
            removed += self._remove(DELIVERIES, *of, DELIVERIES.c.delivery_id.not_in(newest))
        return removed
