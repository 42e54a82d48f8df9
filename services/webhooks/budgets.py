"""What accounts are charged and may spend, and who hears that a budget is used so far."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson
import structlog
from coplace.v1.accounts_pb2 import AllocationDeclared
from coplace.v1.history_service_pb2 import Account
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.webhook_service_pb2 import BudgetReached
from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import insert

from coplace_client.errors import RejectedError
from services.webhooks.facts import amounts_micro_su
from services.webhooks.posting import Outbox
from services.webhooks.tables import ACCOUNTS, BUDGETS_REACHED, CHARGES, known_rows
from shared.catalogue.codec import format_time
from shared.catalogue.payloads.tariffs import allocated_su
from shared.catalogue.webhook_types import BUDGET_REACHED
from shared.domain.money import micro_units, su_text

log = structlog.get_logger(__name__)


class UsedBudgets:
    """What accounts are charged and may spend, and who hears that a budget is used so far."""

    def __init__(self, connection: Connection, outbox: Outbox, written_us: int) -> None:
        self._connection, self._outbox, self._written_us = connection, outbox, written_us

    def apply(
        self,
        charges: Sequence[ChargeMade],
        allocations: Sequence[tuple[AllocationDeclared, str]],
    ) -> None:
        """Apply charges and allocations."""
        known_charges = list(_usable(charges))
        owed = self._owed(known_charges)
        names = [*owed, *(declared.account for declared, _ in allocations)]
        query = list(dict.fromkeys(names))
        rows = {row.account: row._asdict() for row in known_rows(self._connection, ACCOUNTS, query)}
        for account, micro_su in owed.items():
            row = rows.setdefault(account, _no_account(account))
            row["charged_micro_su"] = str(int(row["charged_micro_su"]) + micro_su)
        for declared, event_id in allocations:
            row = rows.setdefault(declared.account, _no_account(declared.account))
            try:
                _allocate(row, declared, event_id)
            except RejectedError as error:
                log.warning("left out", allocation=event_id, problem=str(error))
        if rows:
            query_ = insert(ACCOUNTS)
            changed = {each.name: query_.excluded[each.name] for each in ACCOUNTS.columns}
            query_ = query_.on_conflict_do_update(index_elements=["account"], set_=changed)
            self._connection.execute(query_, list(rows.values()))
        at_us = max((charge.charged_at_us for charge, _ in known_charges), default=0)
        for row in rows.values():
            self._hear(row, at_us or self._outbox.now_us)

    def _owed(self, charges: Sequence[tuple[ChargeMade, Mapping[str, int]]]) -> dict[str, int]:
        """Return what the charges change of each account: a revision replaces the one before."""
        job_ids = list(dict.fromkeys(charge.job_id for charge, _ in charges))
        known = {
            (row.job_id, row.attempt): (row.revision, orjson.loads(row.amounts))
            for row in known_rows(self._connection, CHARGES, job_ids)
        }
        owed, changed = dict[str, int](), set[tuple[str, int]]()
        for charge, amounts in charges:
            key = charge.job_id, charge.attempt
            revision, before = known.get(key, (0, {}))
            if charge.revision <= revision:
                continue
            for account in {**before, **amounts}:
                change = amounts.get(account, 0) - before.get(account, 0)
                owed[account] = owed.get(account, 0) + change
            known[key] = charge.revision, amounts
            changed.add(key)
        if changed:
            rows = [
                {
                    "job_id": key[0],
                    "attempt": key[1],
                    "revision": known[key][0],
                    "amounts": orjson.dumps(known[key][1]).decode(),
                }
                for key in changed
            ]
            query = insert(CHARGES)
            values = {name: query.excluded[name] for name in ("revision", "amounts")}
            query = query.on_conflict_do_update(index_elements=["job_id", "attempt"], set_=values)
            self._connection.execute(query, rows)
        return owed

    def _hear(self, row: Mapping[str, Any], at_us: int) -> None:
        account, charged = row["account"], int(row["charged_micro_su"])
        if not row["allocation_id"] or charged <= 0:
            return
        allocated = int(row["allocated_micro_su"])
        hearers = self._outbox.hearers.of(
            BUDGET_REACHED, account=account, written_us=self._written_us
        )
        for hearer in hearers:
            percent = hearer.budget_percent
            if charged * 100 < allocated * percent:
                continue
            said = {
                "webhook_id": hearer.webhook_id,
                "account": account,
                "allocation_id": row["allocation_id"],
            }
            query = insert(BUDGETS_REACHED).values(said).on_conflict_do_nothing()
            if self._connection.execute(query).rowcount:
                name = f"{BUDGET_REACHED}/{account}/{row['allocation_id']}/{percent}"
                of = Account(
                    account=account, charged_su=su_text(charged), allocated_su=su_text(allocated)
                )
                data = BudgetReached(account=of, percent=percent)
                self._outbox.post([hearer], name, BUDGET_REACHED, at_us, data)


def _usable(charges: Iterable[ChargeMade]) -> Iterator[tuple[ChargeMade, Mapping[str, int]]]:
    """Yield charges with what each puts on accounts."""
    for charge in charges:
        try:
            # A body has the time of the newest one.
            format_time(charge.charged_at_us)
            yield charge, amounts_micro_su(charge)
        except RejectedError as error:
            log.warning("left out", charge=(charge.job_id, charge.attempt), problem=str(error))


def _no_account(account: str) -> dict[str, Any]:
    return {
        "account": account,
        "charged_micro_su": "0",
        "allocated_micro_su": "0",
        "allocation_id": "",
        "declared_at_us": 0,
    }


def _allocate(row: dict[str, Any], declared: AllocationDeclared, event_id: str) -> None:
    """The newest declaration counts."""
    stamp = row["declared_at_us"], row["allocation_id"]
    if (declared.declared_at_us, event_id) > stamp:
        row["allocated_micro_su"] = str(micro_units(Decimal(allocated_su(declared))))
        row["allocation_id"], row["declared_at_us"] = event_id, declared.declared_at_us
