"""Connections to Redis as the settings say."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis, SSLConnection
from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError as RedisConnectionError

from coplace_client.health import Readiness
from coplace_client.tls import files_problem
from shared.process.refusals import redis_problem
from shared.process.security import redis_options
from shared.process.settings import Settings

_PAUSE_S: Final = 0.3


def redis_client(settings: Settings) -> Redis:
    """Return a client that connects when it is first asked; close it with `async with`."""
    options = redis_options(settings)
    if settings.redis_password_file:
        options["credential_provider"] = _PasswordFile(
            settings.redis_username, settings.redis_password_file
        )
    client = Redis.from_url(settings.redis_url, **options)
    pool = client.connection_pool
    if pool.connection_class is SSLConnection:
        pool.connection_class = _TlsConnectionOfFiles
    return client


class _TlsConnectionOfFiles(SSLConnection):
    """TLS as the files of the settings say when a connection begins, and when it begins again."""

    def _connection_arguments(self) -> Mapping[str, Any]:
        self.ssl_context.context = None
        found: Mapping[str, Any] = super()._connection_arguments()
        return found


class _PasswordFile(CredentialProvider):
    """A user of Redis with the password that the file holds when a connection begins."""

    def __init__(self, user: str, file: Path) -> None:
        self._user = user
        self._file = file

    def get_credentials(self) -> tuple[str, str] | tuple[str]:
        """User and password; the password alone is the default user's. Raises OSError."""
        password = self._file.read_text().strip()
        return (self._user, password) if self._user else (password,)

    async def get_credentials_async(self) -> tuple[str, str] | tuple[str]:
        """Return the credentials: those of a file of a line."""
        return self.get_credentials()


async def wait_for_redis(
    settings: Settings, redis: Redis, readiness: Readiness, stop: asyncio.Event
) -> None:
    """Return when Redis answers, or when `stop` is set."""
    while not stop.is_set():
        try:
            await redis.ping()
            return
        except RedisConnectionError as error:
            problem = files_problem(settings, "redis") or redis_problem(settings, error)
            readiness.wait_for(problem or "Redis at COPLACE_REDIS_URL")
            await asyncio.sleep(_PAUSE_S)
