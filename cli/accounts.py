"""`coplace accounts` and `coplace statement`: what accounts spent, and for which jobs."""

import asyncio
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from coplace.v1.pricing_pb2 import ChargeMade

from cli.output import Row
from services.pricing.accounts.adapters import RedisAccounts
from services.pricing.accounts.focus import core_hours
from services.pricing.accounts.statement import Posting, Statement
from shared.domain.money import QUANTUM
from shared.domain.natural_order import natural
from shared.process.redis_client import redis_client
from shared.streams.on_kafka.deployment import Deployment

STATEMENT_COLUMNS: Final = ("job", "cluster", "core h", "price SU", "in full SU")
_BLANK: Final[Row] = dict.fromkeys(STATEMENT_COLUMNS)


def balances(deployment: Deployment) -> dict[str, Decimal]:
    """Return what each account spent, in service units, as Redis has it."""
    return asyncio.run(_balances(deployment))


async def _balances(deployment: Deployment) -> dict[str, Decimal]:
    async with redis_client(deployment.settings) as redis:
        spent = await RedisAccounts(redis, deployment.name).spent_micro_su()
    return {account: amount * QUANTUM for account, amount in sorted(spent.items())}


def latest(made: Iterable[ChargeMade]) -> list[ChargeMade]:
    """Return the last revision of each charge, ordered by the time at which it was made."""
    found: dict[tuple[str, int], ChargeMade] = {}
    for charge in made:
        subject = charge.job_id, charge.attempt
        if subject not in found or charge.revision > found[subject].revision:
            found[subject] = charge
    return sorted(
        found.values(), key=lambda one: (one.charged_at_us, natural(one.job_id), one.attempt)
    )


def balance_rows(spent: dict[str, Decimal]) -> list[Row]:
    """Return a row for each account, in service units."""
    return [{"account": account, "spent SU": str(amount)} for account, amount in spent.items()]


def statement_rows(found: Statement) -> list[Row]:
    """Return a row for each posting, and their sum with what was owed before. "In full" is the
    price without discounts for interference."""
    rows: list[Row] = [_posted(each) for each in found.postings]
    if found.opening_su:
        rows.insert(0, {**_BLANK, "job": "before", "price SU": f"{found.opening_su:f}"})
    in_full = sum((each.in_full_su for each in found.postings), Decimal(0))
    sums = {"price SU": f"{found.closing_su:f}", "in full SU": f"{in_full:f}"}
    return [*rows, {**_BLANK, "job": "in all", **sums}]


def _posted(posting: Posting) -> Row:
    return {
        "job": _run(posting),
        "cluster": posting.entry.cluster,
        "core h": f"{core_hours(posting):.3f}",
        "price SU": f"{posting.amount_su:f}",
        "in full SU": f"{posting.in_full_su:f}",
    }


def _run(posting: Posting) -> str:
    entry = posting.entry
    name = f"{entry.job_id} ({entry.attempt})" if entry.attempt > 1 else entry.job_id
    if posting.surcharge:
        name = f"{posting.surcharge.co_runner_job_id}, which slowed down {name}"
    return f"{name}, reversed" if posting.is_reversal else name
