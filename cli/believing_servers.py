"""Changes of running Kafka and Redis of a secure installation: whom they believe and what they
show."""

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError
from redis.asyncio import Redis

from cli.security import Security
from deploy.local.credentials import Credentials, Identity
from deploy.local.kafka.broker import NODE_ID, reloaded_files
from deploy.local.redis_server import REDIS
from deploy.local.servers import LocalServers
from shared.catalogue.access.redis import set_passwords
from shared.catalogue.access.rules import OPERATOR
from shared.process.redis_client import redis_client
from shared.process.refusals import RefusedError
from shared.process.settings import Settings

_CONNECT_S: Final = 5.0
_REFUSED_WITHIN_S: Final = 0.3
_TRIES: Final = 100
_PAUSE_S: Final = 0.1


class RunningServers:
    """Those of an installation; see `cli.rotation.BelievingServers`."""

    def __init__(self, security: Security, servers: LocalServers) -> None:
        self._security = security
        self._servers = servers

    def reload_kafka(self) -> None:
        """Make the broker read its files again: it does when it is given their names, though they
        be the same.

        It takes changes one after another: once it is seen to have reset the setting, it
        has read the files for everything that it opens connections with.
        """
        files = reloaded_files(self._security.credentials)
        broker = ConfigResource(ConfigResourceType.BROKER, str(NODE_ID), files)
        with self._security.open_kafka(self._servers) as client:
            _require_ok(client.alter_configs([broker], raise_on_unknown=False))
            _wait_until(lambda: _is_told(client, files), "Kafka begins to read its files again")
            # Where they are is said by its configuration.
            _require_ok(client.reset_configs([broker], raise_on_unknown=False))
            _wait_until(lambda: not _is_told(client, files), "Kafka has read its files again")

    def require_kafka(self, authority: Credentials, shown: Identity) -> None:
        """Wait until Kafka wants certificates where it speaks to itself."""
        _wait_until(
            lambda: believe_each_other(self._servers.kafka_internal, authority, shown),
            "Kafka shows and believes certificates of the new authority",
        )

    def set_kafka_passwords(self, credentials: Credentials) -> None:
        """Give each user one password, the only one that a broker knows of it."""
        users = filter(credentials.has_password, self._security.access.principals)
        with self._security.open_kafka(self._servers) as client:
            self._security.set_passwords(client, credentials, users)

    def require_passwords(self) -> None:
        """Wait until a broker applies what its controller has taken."""
        self._security.wait_until_believed(self._servers)

    def set_redis_passwords(self, *believed: Credentials) -> None:
        """Set the passwords of Redis, in its file of users too, which it reads as it starts."""
        passwords = self._security.write_redis_users(believed)
        asyncio.run(self._ask_redis(lambda redis: set_passwords(redis, passwords)))

    def reload_redis(self) -> None:
        """Make Redis read its certificate again, which it does when it is given its name."""

        async def load(redis: Redis) -> None:
            certificate, _ = self._security.credentials.identity(REDIS)
            await redis.config_set("tls-cert-file", str(certificate))

        asyncio.run(self._ask_redis(load))

    async def _ask_redis(self, ask: Callable[[Redis], Awaitable[object]]) -> None:
        fields: dict[str, Any] = {
            **self._security.settings(OPERATOR),
            "redis_url": self._servers.redis_url,
        }
        async with redis_client(Settings(**fields)) as redis:
            await ask(redis)


def believe_each_other(address: str, authority: Credentials, shown: Identity) -> bool:
    """Return whether a server accepts this certificate, and shows one of this authority. The server
    must want certificates, and be silent until it is asked something."""
    context = ssl.create_default_context(cafile=authority.authority)
    context.load_cert_chain(shown.certificate, shown.key)
    host, _, port = address.rpartition(":")
    try:
        with (
            socket.create_connection((host, int(port)), _CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as connection,
        ):
            return _stays_open(connection)
    except OSError:
        return False


def _stays_open(connection: ssl.SSLSocket) -> bool:
    """TLS 1.3 refuses a client behind the handshake."""
    connection.settimeout(_REFUSED_WITHIN_S)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    return False


def _is_told(client: KafkaAdminClient, files: Mapping[str, str]) -> bool:
    """Whether the broker's own settings name any of these."""
    asked = ConfigResource(ConfigResourceType.BROKER, str(NODE_ID))
    return bool(set(files) & set(client.describe_configs([asked])["broker"][asked.name]))


def _require_ok(told: Mapping[str, Mapping[str, str]]) -> None:
    if refused := {why for of in told.values() for why in of.values() if why != "OK"}:
        raise KafkaError(f"Kafka does not read its certificates again: {', '.join(refused)}")


def _wait_until(happens: Callable[[], bool], what: str) -> None:
    for _ in range(_TRIES):
        if happens():
            return
        time.sleep(_PAUSE_S)
    raise RefusedError(f"timed out before {what}: see the log of kafka, then rotate again")
