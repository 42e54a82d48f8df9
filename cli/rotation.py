"""New credentials for a secure installation while it runs: a new authority, new certificates and
new passwords. Nothing is stopped: the next connection reads the files as they are then."""

import shutil
from collections.abc import Callable
from typing import Final, Protocol

from cli.security import Security
from deploy.local.credentials import Credentials, Identity
from deploy.local.kafka.broker import KAFKA

_NEW: Final = "next"


class BelievingServers(Protocol):
    """Kafka and Redis as far as a rotation changes whom they believe and what they show. Each
    method returns once it is so, and raises RefusedError where it is not within seconds."""

    def reload_kafka(self) -> None:
        """Reload the certificate and the authorities of Kafka."""
        ...

    def require_kafka(self, authority: Credentials, shown: Identity) -> None:
        """Wait until Kafka shows a certificate of this authority, and believes the one that is
        shown."""
        ...

    def set_kafka_passwords(self, credentials: Credentials) -> None:
        """Set for each user that has a password that one, and no other."""
        ...

    def require_passwords(self) -> None:
        """Wait until Kafka believes clients that show the passwords that are kept."""
        ...

    def set_redis_passwords(self, *believed: Credentials) -> None:
        """Set for each user the passwords that these have."""
        ...

    def reload_redis(self) -> None:
        """Reload the certificate of Redis."""
        ...


class Rotation:
    """The steps from the old credentials to new ones.

    The new ones are made whole in a folder beside the old and taken out of it one by one, so what
    is left there is what is left to do: after a death at any place `run` goes on. In between all
    works, over new starts too; but where death came between Kafka's new passwords and their files,
    connections wait until `run` goes on.
    """

    def __init__(self, security: Security, servers: BelievingServers) -> None:
        self._security = security
        self._servers = servers
        self._kept = security.credentials
        self._new = Credentials(self._kept.folder / _NEW)

    def run(self, tell: Callable[[str], object], *, keep_old: bool = False) -> None:
        """Do what is left, reporting each step once it is done; with `keep_old` all but the last,
        so that programs from outside can be given what is new while what they have is believed.

        Raises LocalServersError, KafkaError, RefusedError and RedisError; then run it again.
        """
        if not has_begun(self._security):
            self._make()
        tell("a new authority, certificates and passwords are made")
        self._believe_both()
        tell("both authorities are believed")
        self._change_passwords()
        tell("Kafka and Redis know the new passwords alone")
        self._change_certificates()
        tell("everybody shows a new certificate")
        if not keep_old:
            self._forget()
            tell("the new authority alone is believed")

    def _make(self) -> None:
        fresh = Credentials(self._kept.folder / f"{_NEW}.unfinished")
        shutil.rmtree(fresh.folder, ignore_errors=True)
        self._security.make(fresh)
        fresh.folder.replace(self._new.folder)

    def _believe_both(self) -> None:
        self._kept.believe_too(self._new)
        self._servers.reload_kafka()
        new, taken = self._new.identity(KAFKA), self._kept.identity(KAFKA)
        self._servers.require_kafka(self._kept, new if new.certificate.exists() else taken)

    def _change_passwords(self) -> None:
        # Redis knows both meanwhile. Kafka knows one, of which it asks new connections alone.
        self._servers.set_redis_passwords(self._kept, self._new)
        self._servers.set_kafka_passwords(self._new)
        for file in sorted(self._new.folder.glob("*.password")):
            self._kept.take(self._new, file.name)
        self._servers.require_passwords()
        self._servers.set_redis_passwords(self._kept)

    def _change_certificates(self) -> None:
        for certificate in sorted(self._new.folder.glob("*.pem")):
            if certificate != self._new.authority:
                self._kept.take(self._new, certificate.name)
        self._servers.reload_kafka()
        self._servers.reload_redis()
        self._servers.require_kafka(self._new, self._kept.identity(KAFKA))

    def _forget(self) -> None:
        self._kept.believe_only(self._new)
        self._servers.reload_kafka()
        over = self._kept.folder / f"{_NEW}.over"
        shutil.rmtree(over, ignore_errors=True)
        self._new.folder.replace(over)
        shutil.rmtree(over)


def has_begun(security: Security) -> bool:
    """Return whether a rotation was begun and is not over."""
    return Credentials(security.credentials.folder / _NEW).exist
