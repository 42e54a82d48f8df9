"""Webhooks in the database: registered, listed, removed, disabled; and the key of their secrets."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from coplace.v1.webhook_service_pb2 import WEBHOOK_STATE_ACTIVE, WEBHOOK_STATE_DISABLED, Webhook
from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from coplace_client.errors import CannotStartError, RejectedError
from services.webhooks.model import DeliveryAttempt, DeliveryState, after_failures
from services.webhooks.registration import WebhookRow
from services.webhooks.tables import BUDGETS_REACHED, DELIVERIES, KEY_CHECK, WEBHOOKS
from shared.sql.sqlite import SqliteDatabase

_IS_DISABLED: Final = "the webhook is disabled"


class RegistryLimits(NamedTuple):
    """How many webhooks there may be of one owner and in all, and after how long one that fails is
    disabled."""

    most_of_one: int
    most: int
    most_failing_us: int


class WebhookRegistry:
    """The webhooks that there are."""

    def __init__(self, database: SqliteDatabase, limits: RegistryLimits) -> None:
        self._database, self._limits = database, limits

    def require_key(self, check: str) -> None:
        """Raise CannotStartError where another key made the secrets that owners have."""
        with self._database.transaction() as connection:
            known = connection.execute(select(KEY_CHECK)).scalar()
            if known is None:
                connection.execute(KEY_CHECK.insert(), {"check_value": check})
            elif known != check:
                raise CannotStartError(
                    "the key is not the one that made the secrets of the webhooks in the database: "
                    "restore the file that COPLACE_WEBHOOKS_KEY_FILE names "
                    "(docs/how-to/webhooks.md, 'When it refuses')"
                )

    def add(self, row: WebhookRow) -> None:
        """Register a webhook. Raises RejectedError where there are too many."""
        with self._database.transaction() as connection:
            own = _count(connection, WEBHOOKS.c.owner == row.owner)
            if own >= self._limits.most_of_one:
                problem = f"there are {own} of {row.owner!r}, which is the most: remove one"
                raise RejectedError("webhook_id", problem)
            if _count(connection) >= self._limits.most:
                problem = f"there are {self._limits.most} in all, which is the most"
                raise RejectedError("webhook_id", f"{problem}: ask an operator to remove some")
            connection.execute(WEBHOOKS.insert(), row._asdict())

    def find(self, webhook_id: str) -> WebhookRow | None:
        """Return a webhook, None where there is no such."""
        with self._database.transaction() as connection:
            return _find(connection, webhook_id)

    def every(self) -> Sequence[WebhookRow]:
        """Return all webhooks by their ids."""
        query = select(WEBHOOKS).order_by(WEBHOOKS.c.webhook_id)
        with self._database.transaction() as connection:
            return [WebhookRow._make(row) for row in connection.execute(query)]

    def shown(self, rows: Sequence[WebhookRow]) -> Sequence[Webhook]:
        """Return webhooks as their owners are shown them."""
        with self._database.transaction() as connection:
            return [
                row.message(
                    _deliveries(connection, row.webhook_id, DeliveryState.WAITING),
                    _deliveries(connection, row.webhook_id, DeliveryState.FAILED),
                )
                for row in rows
            ]

    def remove(self, webhook_id: str) -> None:
        """Remove a webhook with all of its."""
        with self._database.transaction() as connection:
            for table in (DELIVERIES, BUDGETS_REACHED, WEBHOOKS):
                connection.execute(delete(table).where(table.c.webhook_id == webhook_id))

    def rotate(self, webhook_id: str, old_until_us: int) -> WebhookRow | None:
        """Have the next secret sign, and the one before until then."""
        values = {
            "secret_number": WEBHOOKS.c.secret_number + 1,
            "old_secret_until_us": old_until_us,
        }
        with self._database.transaction() as connection:
            _update(connection, webhook_id, values)
            return _find(connection, webhook_id)

    def disable(self, webhook_id: str, reason: str, now_us: int) -> None:
        """Disable a webhook: what waits for it is given up."""
        with self._database.transaction() as connection:
            disable(connection, webhook_id, reason, now_us)

    def note(
        self, webhook_id: str, attempt: DeliveryAttempt, now_us: int, *, enables: bool
    ) -> None:
        """Note how an attempt went; one that was good may enable a webhook again."""
        with self._database.transaction() as connection:
            note(connection, webhook_id, attempt, now_us, self._limits.most_failing_us)
            if enables and attempt.is_delivered:
                values = {"state": WEBHOOK_STATE_ACTIVE, "reason": ""}
                _update(connection, webhook_id, values)


def note(
    connection: Connection,
    webhook_id: str,
    attempt: DeliveryAttempt,
    now_us: int,
    most_failing_us: int,
) -> None:
    """Note how an attempt went, and disable a webhook that fails for too long."""
    row = _find(connection, webhook_id)
    if row is None:
        return
    found = after_failures(row.failing_since_us, attempt, now_us, most_failing_us)
    values = {
        "failing_since_us": found.failing_since_us,
        "last_status": attempt.status,
        "last_error": attempt.error,
    }
    if attempt.is_delivered:
        values["delivered_at_us"] = now_us
    _update(connection, webhook_id, values)
    if found.reason and row.is_active:
        disable(connection, webhook_id, found.reason, now_us)


def disable(connection: Connection, webhook_id: str, reason: str, now_us: int) -> None:
    """Disable a webhook within a transaction."""
    _update(connection, webhook_id, {"state": WEBHOOK_STATE_DISABLED, "reason": reason})
    waiting = (
        DELIVERIES.c.webhook_id == webhook_id,
        DELIVERIES.c.state == DeliveryState.WAITING,
    )
    values = {"state": DeliveryState.FAILED, "due_at_us": now_us}
    connection.execute(
        update(DELIVERIES)
        .where(*waiting, DELIVERIES.c.last_error == "")
        .values(values | {"last_error": _IS_DISABLED})
    )
    connection.execute(update(DELIVERIES).where(*waiting).values(values))


def _find(connection: Connection, webhook_id: str) -> WebhookRow | None:
    query = select(WEBHOOKS).where(WEBHOOKS.c.webhook_id == webhook_id)
    row = connection.execute(query).first()
    return None if row is None else WebhookRow._make(row)


def _update(connection: Connection, webhook_id: str, values: dict[str, object]) -> None:
    query = update(WEBHOOKS).where(WEBHOOKS.c.webhook_id == webhook_id)
    connection.execute(query.values(values))


def _count(connection: Connection, *where: ColumnElement[bool]) -> int:
    query = select(func.count()).select_from(WEBHOOKS).where(*where)
    return int(connection.execute(query).scalar_one())


def _deliveries(connection: Connection, webhook_id: str, state: DeliveryState) -> int:
    query = select(func.count()).where(
        DELIVERIES.c.webhook_id == webhook_id, DELIVERIES.c.state == state
    )
    return int(connection.execute(query).scalar_one())
