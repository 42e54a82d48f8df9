"""Accounts in Redis: integers of 0.000001 service unit beside the position that made them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from redis.asyncio import Redis

from services.pricing.accounts.model import Entry
from shared.messaging.record import Place

_APPLY: Final = (Path(__file__).parent / "apply.lua").read_text()


class RedisAccounts:
    """What accounts spent. `name` puts the namespace before a key."""

    def __init__(self, redis: Redis, name: Callable[[str], str]) -> None:
        self._redis = redis
        self._name = name
        self._apply = redis.register_script(_APPLY)

    async def position(self, place: Place) -> int:
        """The offset from which the ledger is still to be applied; 0 for a new or lost Redis."""
        return int(await self._redis.get(self._position_key(place)) or 0)

    async def apply(
        self,
        place: Place,
        read_from: int,
        next_position: int,
        entries: Iterable[tuple[int, Entry]],
    ) -> None:
        """Apply a batch of (offset, entry); what was applied before changes nothing.

        Raises redis.ResponseError when Redis has lost what lies before `read_from`: the ledger
        must then be read again from `position`.
        """
        keys = [
            self._position_key(place),
            self._name("accounts:spent"),
            self._name("accounts:charges"),
        ]
        arguments = [read_from, next_position, *_arguments(entries)]
        await self._apply(keys=keys, args=arguments)

    async def spent_micro_su(self) -> Mapping[str, int]:
        """What each account has spent so far."""
        spent = await self._redis.hgetall(self._name("accounts:spent"))
        return {_text(account): int(amount) for account, amount in spent.items()}

    def _position_key(self, place: Place) -> str:
        return self._name(f"position:{place.topic}:{place.kafka_partition}")


def _text(found: bytes | str) -> str:
    return found if isinstance(found, str) else found.decode()


def _arguments(entries: Iterable[tuple[int, Entry]]) -> Sequence[str | int]:
    return [
        argument
        for offset, entry in entries
        for argument in (
            offset,
            entry.subject,
            entry.account,
            entry.revision,
            entry.amount_micro_su,
        )
    ]
