"""`coplace accounts` and `coplace statement`: what accounts spent, and for which jobs."""

import asyncio
from collections.abc import Iterable, Sequence
from decimal import Decimal

from coplace.v1.pricing_pb2 import ChargeMade

from cli.kafka_topics import CHARGES, KafkaTopics
from cli.output import Row
from coplace_client.errors import UnusableError
from services.pricing.accounts.adapters import RedisAccounts
from shared.domain.money import QUANTUM
from shared.process.redis_client import redis_client
from shared.streams.on_kafka.deployment import Deployment


class UnknownAccountError(UnusableError):
    """Nothing was charged to the account so far."""


def balances(deployment: Deployment) -> dict[str, Decimal]:
    """Return what each account spent, in service units, as Redis has it."""
    return asyncio.run(_balances(deployment))


async def _balances(deployment: Deployment) -> dict[str, Decimal]:
    async with redis_client(deployment.settings) as redis:
        spent = await RedisAccounts(redis, deployment.name).spent_micro_su()
    return {account: amount * QUANTUM for account, amount in sorted(spent.items())}


def charges(deployment: Deployment, account: str) -> list[ChargeMade]:
    """Return the last revision of each charge of an account, the oldest first.

    Raises UnknownAccountError where there is none.
    """
    made = (event.payload for event in KafkaTopics(deployment).topic(CHARGES))
    found = latest(one for one in made if isinstance(one, ChargeMade) and one.account == account)
    if not found:
        raise UnknownAccountError(
            f"nothing was charged to {account!r} so far: `coplace accounts` names those that "
            "something was charged to"
        )
    return found


def latest(made: Iterable[ChargeMade]) -> list[ChargeMade]:
    """Return the last revision of each charge, ordered by the time at which it was made."""
    found: dict[tuple[str, int], ChargeMade] = {}
    for charge in made:
        subject = charge.job_id, charge.attempt
        if subject not in found or charge.revision > found[subject].revision:
            found[subject] = charge
    return sorted(found.values(), key=lambda one: (one.charged_at_us, one.job_id, one.attempt))


def balance_rows(spent: dict[str, Decimal]) -> list[Row]:
    """Return a row for each account, in service units."""
    return [{"account": account, "spent SU": str(amount)} for account, amount in spent.items()]


def statement_rows(made: Sequence[ChargeMade]) -> list[Row]:
    """Return a row for each attempt that was charged. "In full" is the state of practice's price,
    without discounts for interference."""
    return [
        {
            "job": _run(one),
            "cluster": one.cluster,
            "core h": f"{one.cores * one.runtime_s / 3600:.3f}",
            "price SU": one.price_su,
            "in full SU": one.state_of_practice_su,
        }
        for one in made
    ]


def total_row(made: Sequence[ChargeMade]) -> Row:
    """Return the row that sums all charges."""
    prices = sum((Decimal(one.price_su) for one in made), Decimal(0))
    in_full = sum((Decimal(one.state_of_practice_su) for one in made), Decimal(0))
    sums = {"price SU": str(prices), "in full SU": str(in_full)}
    return {"job": "in all", "cluster": None, "core h": None, **sums}


def _run(charge: ChargeMade) -> str:
    return f"{charge.job_id} ({charge.attempt})" if charge.attempt > 1 else charge.job_id
