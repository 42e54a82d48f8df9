"""Connections to Redis as the settings say."""

import asyncio
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from shared.runtime.http import Readiness
from shared.runtime.security import redis_options
from shared.runtime.settings import Settings

_PAUSE_S: Final = 0.3


def redis_client(settings: Settings) -> Redis:
    """A client that connects when it is first asked; close it with `async with`."""
    return Redis.from_url(settings.redis_url, **redis_options(settings))


async def wait_for_redis(redis: Redis, readiness: Readiness, stop: asyncio.Event) -> None:
    """Return when Redis answers, or when `stop` is set."""
    while not stop.is_set():
        try:
            await redis.ping()
            return
        except RedisConnectionError:
            readiness.wait_for("Redis at COPLACE_REDIS_URL")
            await asyncio.sleep(_PAUSE_S)
