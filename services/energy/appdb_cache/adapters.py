"""The application database in Redis: one hash of signatures, one of coefficients."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from redis.asyncio import Redis

from services.energy.appdb_cache.model import COEFFICIENTS, SIGNATURES, CachedRow
from shared.streams.read_models.read_model import Field, Name, ReadModel

_KEYS: Final = {SIGNATURES: ("appdb:signatures",), COEFFICIENTS: ("appdb:coefficients",)}
_APPLY: Final = (Path(__file__).parent / "apply.lua").read_text()


class RedisAppDB(ReadModel[CachedRow]):
    """Writes the cache: a read model of both topics."""

    def __init__(self, redis: Redis, name: Name) -> None:
        super().__init__(redis, name, script=_APPLY, keys=_KEYS, fields=_fields)


class CachedAppDB:
    """Reads the cache; needs a connection that returns bytes. States are messages in protobuf."""

    def __init__(self, redis: Redis, name: Name) -> None:
        self._redis = redis
        self._signatures, self._coefficients = (name(key) for (key,) in _KEYS.values())

    async def signatures(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return SignatureUpdated by `{app_id}|{node_model}`, those of `keys` that there are."""
        return await self._some(self._signatures, keys)

    async def coefficients(self, node_models: Sequence[str] = ()) -> Mapping[str, bytes]:
        """Return CoefficientsPublished by node model, those that there are; all when none is
        named."""
        if node_models:
            return await self._some(self._coefficients, node_models)
        found = cast(dict[bytes, bytes], await self._redis.hgetall(self._coefficients))
        return {key.decode(): _state(value) for key, value in found.items()}

    async def _some(self, name: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """One round trip, however many keys."""
        if not keys:
            return {}
        values = cast(list[bytes | None], await self._redis.hmget(name, keys))
        found = zip(keys, values, strict=True)
        return {key: _state(value) for key, value in found if value is not None}


def _fields(row: CachedRow) -> Sequence[Field]:
    return (row.key, row.time_us, row.state)


def _state(value: bytes) -> bytes:
    """What follows the time (`apply.lua`)."""
    return value.partition(b" ")[2]
