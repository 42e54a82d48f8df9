"""Accounts in Redis: integers of 0.000001 service unit beside the position that made them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from redis.asyncio import Redis

from services.pricing.accounts.model import AccountEntry
from shared.streams.read_models.read_model import Field, Name, ReadModel

LEDGER: Final = "prices.charges"
_SPENT: Final = "accounts:spent"
_APPLY: Final = (Path(__file__).parent / "apply.lua").read_text()


class RedisAccounts(ReadModel[AccountEntry]):
    """What accounts spent: a read model of the charges."""

    def __init__(self, redis: Redis, name: Name) -> None:
        keys = {LEDGER: (_SPENT, "accounts:charges")}
        super().__init__(redis, name, script=_APPLY, keys=keys, fields=_fields)

    async def spent_micro_su(self) -> Mapping[str, int]:
        """Return what each account has spent so far."""
        spent = await self._redis.hgetall(self._name(_SPENT))
        return {_text(account): int(amount) for account, amount in spent.items()}


def _text(found: bytes | str) -> str:
    return found if isinstance(found, str) else found.decode()


def _fields(entry: AccountEntry) -> Sequence[Field]:
    surcharges = [[account, str(micro_su)] for account, micro_su in entry.surcharges_micro_su]
    told = json.dumps(surcharges) if surcharges else ""
    return (entry.subject, entry.account, entry.revision, entry.amount_micro_su, told)
