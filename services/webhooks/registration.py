"""Webhooks as they are registered, and what each hears of. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from coplace.v1.webhook_service_pb2 import (
    WEBHOOK_STATE_ACTIVE,
    AddWebhookRequest,
    Webhook,
    WebhookState,
)

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError, Violations
from shared.authority.rules import About
from shared.catalogue.webhook_types import (
    ALERT,
    BUDGET_REACHED,
    JOB_ENDED,
    JOB_REJECTED,
    JOB_STARTED,
)

_OF_JOBS: Final = (JOB_STARTED, JOB_ENDED, JOB_REJECTED)
_OF_ACCOUNTS: Final = (*_OF_JOBS, BUDGET_REACHED)
_OF_REGION: Final = (*_OF_ACCOUNTS, ALERT)
_LONGEST_DESCRIPTION: Final = 256


class WebhookRow(NamedTuple):
    """A webhook, as in the table `webhooks`; of `user`, `account` and `region` one is set."""

    webhook_id: str
    url: str
    types: str
    user: str
    account: str
    region: bool
    owner: str
    description: str
    budget_percent: int
    state: int
    reason: str
    created_at_us: int
    delivered_at_us: int
    failing_since_us: int
    last_status: int
    last_error: str
    secret_number: int
    old_secret_until_us: int

    @property
    def about(self) -> About:
        """Return what the table of authority is asked about."""
        return About(is_region=self.region, user=self.user, account=self.account)

    @property
    def is_active(self) -> bool:
        """Return whether anything is posted to it."""
        return self.state == WEBHOOK_STATE_ACTIVE

    @property
    def type_names(self) -> Sequence[str]:
        """Return the types that it hears of."""
        return tuple(orjson.loads(self.types))

    def secret_numbers(self, now_us: int) -> Sequence[int]:
        """Return the numbers of the secrets that sign now, the newest first."""
        has_old = self.secret_number > 1 and now_us < self.old_secret_until_us
        return (self.secret_number, self.secret_number - 1)[: 1 + has_old]

    def message(self, waiting: int = 0, failed: int = 0) -> Webhook:
        """Return what its owner is shown."""
        values: dict[str, Any] = self._asdict()
        del values["secret_number"]
        return Webhook(
            **(values | {"types": self.type_names, "state": WebhookState.ValueType(self.state)}),
            waiting_deliveries=waiting,
            failed_deliveries=failed,
        )


def registered(
    asked: AddWebhookRequest, webhook_id: str, who: str, budget_percent: int, now_us: int
) -> WebhookRow:
    """Return the webhook that somebody asks for; its URL is checked elsewhere. Raises
    RejectedError."""
    user = asked.user or ("" if asked.account or asked.region else who)
    wrong = Violations()
    scopes = [name for name, value in (("user", user), ("account", asked.account)) if value]
    scopes += ["region"] if asked.region else []
    if len(scopes) != 1:
        problem = "name one of user, account and region: whose jobs it shall hear of"
        wrong.add(RejectedError(scopes[0] if scopes else "user", problem))
    for name in ("user", "account"):
        if value := getattr(asked, name):
            wrong.check(require_text, name, value)
    known = _OF_REGION if asked.region else _OF_ACCOUNTS if asked.account else _OF_JOBS
    for number, each in enumerate(asked.types):
        if each not in known:
            problem = f"must be one of {', '.join(known)}, got {each[:40]!r}"
            wrong.add(RejectedError(f"types[{number}]", problem + _where(each)))
    if asked.budget_percent > 100:
        problem = f"must be from 1 to 100, got {asked.budget_percent}"
        wrong.add(RejectedError("budget_percent", problem))
    if asked.description:
        wrong.check(require_text, "description", asked.description[: _LONGEST_DESCRIPTION + 1])
    wrong.require_none()
    types = [each for each in known if each in asked.types or not asked.types]
    return WebhookRow(
        webhook_id=webhook_id,
        url=asked.url,
        types=orjson.dumps(types).decode(),
        user=user,
        account=asked.account,
        region=asked.region,
        owner=who,
        description=asked.description,
        budget_percent=asked.budget_percent or budget_percent,
        state=WEBHOOK_STATE_ACTIVE,
        reason="",
        created_at_us=now_us,
        delivered_at_us=0,
        failing_since_us=0,
        last_status=0,
        last_error="",
        secret_number=1,
        old_secret_until_us=0,
    )


def _where(name: str) -> str:
    if name == BUDGET_REACHED:
        return ", which is of an account: name it"
    return ", which is of the region: ask for that" if name == ALERT else ""


class Hearers:
    """Which webhooks hear of what. Who writes events may have a clock that is `tolerance_us`
    behind."""

    def __init__(self, rows: Iterable[WebhookRow], tolerance_us: int) -> None:
        self._tolerance_us = tolerance_us
        self._by_user: dict[str, list[WebhookRow]] = {}
        self._by_account: dict[str, list[WebhookRow]] = {}
        self._region: list[WebhookRow] = []
        self._types: Mapping[str, Sequence[str]] = {}
        types = dict[str, Sequence[str]]()
        for row in rows:
            types[row.webhook_id] = row.type_names
            if row.user:
                self._by_user.setdefault(row.user, []).append(row)
            elif row.account:
                self._by_account.setdefault(row.account, []).append(row)
            elif row.region:
                self._region.append(row)
        self._types = types

    def of(
        self, kind: str, *, user: str = "", account: str = "", written_us: int
    ) -> Iterator[WebhookRow]:
        """Yield those that hear of an event of a user and an account: of what was written since
        they were registered."""
        found = [*self._by_user.get(user, ()), *self._by_account.get(account, ()), *self._region]
        for row in found:
            since_us = row.created_at_us - self._tolerance_us
            if kind in self._types[row.webhook_id] and written_us >= since_us:
                yield row
