"""What the accounts of a run spent: folded from its charges, and as Redis has it."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Final

from coplace.v1.pricing_pb2 import ChargeMade

from services.pricing.accounts.adapters import RedisAccounts
from services.pricing.accounts.model import entry_of, spent_micro_su
from shared.catalogue.record import TopicPartition
from shared.process.redis_client import redis_client
from shared.streams.on_kafka.deployment import Deployment

_POLL_S: Final = 0.1

Spent = Mapping[str, int]


class WrongAccountsError(RuntimeError):
    """The accounts in Redis are not the sums of the charges."""


def fold_charges(charges: Iterable[ChargeMade]) -> Spent:
    """Return what each account spent by its charges, in 0.000001 service units."""
    return spent_micro_su(map(entry_of, charges))


def in_redis(
    deployment: Deployment, ends: Mapping[TopicPartition, int], patience_s: float
) -> Spent:
    """Return what each account spent by Redis, once the charges are applied up to `ends`.

    Raises WrongAccountsError when it is not within `patience_s`.
    """
    return asyncio.run(_in_redis(deployment, ends, patience_s))


def require_equal(found: Spent, ledger: Spent) -> None:
    """Raise WrongAccountsError naming the first account whose balance is not that of its
    charges."""
    for account in sorted({*found, *ledger}):
        here, there = found.get(account, 0), ledger.get(account, 0)
        if here != there:
            raise WrongAccountsError(
                f"Redis says that {account} spent {here} micro service units, its charges {there}"
            )


async def _in_redis(
    deployment: Deployment, ends: Mapping[TopicPartition, int], patience_s: float
) -> Spent:
    settings = deployment.settings
    deadline_s = time.monotonic() + patience_s
    async with redis_client(settings) as redis:
        accounts = RedisAccounts(redis, deployment.name)
        while behind := [p for p, end in ends.items() if await accounts.position(p) < end]:
            if time.monotonic() > deadline_s:
                raise WrongAccountsError(
                    f"the accounts are behind {behind[0]} for {patience_s:.0f} s: "
                    "see their log (`coplace local logs accounts`)"
                )
            await asyncio.sleep(_POLL_S)
        return await accounts.spent_micro_su()
