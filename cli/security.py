"""What a secure installation has beyond a plain one: a certificate authority, certificates, a user
and password for each service, and what each of them may do."""

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient

from coplace_client.errors import UnusableError
from coplace_client.files import write_whole
from deploy.local.credentials import Credentials
from deploy.local.kafka.broker import KAFKA
from deploy.local.redis_server import REDIS, SecureRedis
from deploy.local.servers import LocalServers
from shared.catalogue.access.kafka import ensure_acls, set_scram_passwords
from shared.catalogue.access.redis import acl_file
from shared.catalogue.access.rules import OPERATOR, Access, load_principals
from shared.domain.cluster import EMULATED_SITE
from shared.process.refusals import RefusedError
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.refusals import require_kafka_believes

# Services that answer over gRPC, and clients that ask only; the emulator speaks for the resource
# managers of its site.
_SERVING: Final = (
    KAFKA,
    REDIS,
    "ingest",
    "placement",
    "energy-api",
    "watch",
    "rest",
    "history",
    "webhooks",
)
# Of these, who speaks to neither Kafka nor Redis.
_GRPC_ALONE: Final = ("rest",)
_ASKING: Final[Mapping[str, str]] = {OPERATOR: OPERATOR, "simulation": EMULATED_SITE}
_FOLDER: Final = "credentials"
_TRIES: Final = 100
_PAUSE_S: Final = 0.1
_CLIENTS: Final = "clients.json"
_FOR_ALL: Final = 0o444
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class Security:
    """The credentials of one installation, in a folder of their own, and the holder of each.

    `namespace` is that of its topics: users of Kafka and Redis have it before their names.
    """

    def __init__(self, folder: Path, namespace: str) -> None:
        self.credentials = Credentials(folder.absolute() / _FOLDER)
        self.namespace = namespace

    @property
    def access(self) -> Access:
        """Return what services and clients may do."""
        from cli.stages import access

        return access(self.namespace, self.clients())

    @property
    def redis(self) -> SecureRedis:
        """Return what its Redis needs."""
        return SecureRedis(self.credentials, self._user(OPERATOR))

    def clients(self) -> Mapping[str, str]:
        """Return the clients from outside that were given credentials, with their role."""
        file = self.credentials.folder / _CLIENTS
        return json.loads(file.read_text()) if file.exists() else {}

    def prepare(self) -> None:
        """Make what is not there yet, and Redis's file of users. Raises LocalServersError."""
        self.make(self.credentials)
        self.write_redis_users([self.credentials])

    def make(self, credentials: Credentials) -> None:
        """Make what is not there yet of everybody's. Raises LocalServersError."""
        credentials.create()
        for name in _SERVING:
            credentials.certify(name, name, serves=True)
        for name, common_name in {**_ASKING, **{each: each for each in self.clients()}}.items():
            credentials.certify(name, common_name, serves=False)
        for user in self.access.principals:
            credentials.give_password(user)

    def write_redis_users(self, believed: Sequence[Credentials]) -> Mapping[str, Sequence[str]]:
        """Write the file that Redis reads its users from as it starts, each with the passwords that
        these have; return the passwords."""
        users = self.access.redis_users()
        passwords = {
            user.name: [one.password(user.name) for one in believed if one.has_password(user.name)]
            for user in users
        }
        self.credentials.write(self.redis.users_file, acl_file(users, passwords))
        return passwords

    def provision(self, servers: LocalServers) -> None:
        """Give Kafka, where it speaks to itself, the ACLs and every user with password, and return
        when it applies them.

        Raises KafkaError, and RefusedError where it does not within seconds.
        """
        with self.open_kafka(servers) as client:
            ensure_acls(client, self.access)
            self.set_passwords(client, self.credentials, self.access.principals)
        self.wait_until_believed(servers)

    def open_kafka(self, servers: LocalServers) -> KafkaAdminClient:
        """Open a client where Kafka speaks to itself: by its own certificate it may do anything
        there. Raises RefusedError."""
        certificate, key = self.credentials.identity(KAFKA)
        settings = Settings(
            kafka_bootstrap=servers.kafka_internal,
            kafka_security_protocol="SSL",
            kafka_ca_file=self.credentials.authority,
            kafka_cert_file=certificate,
            kafka_key_file=key,
            namespace=self.namespace,
        )
        return admin_client(Deployment.from_settings(settings))

    def wait_until_believed(self, servers: LocalServers) -> None:
        """Return when Kafka takes the passwords. Raises RefusedError where it does not within
        seconds."""
        for name in (OPERATOR, *self.clients()):
            self._wait_until_believed(name, servers.kafka_bootstrap)

    def _wait_until_believed(self, name: str, kafka_bootstrap: str) -> None:
        """A broker applies what its controller has taken a moment later, in the same order."""
        fields: dict[str, Any] = {**self.settings(name), "kafka_bootstrap": kafka_bootstrap}
        known = Settings(**fields)
        for _ in range(_TRIES):
            with suppress(RefusedError):
                return require_kafka_believes(known)
            time.sleep(_PAUSE_S)
        return require_kafka_believes(known)

    def set_passwords(
        self, client: KafkaAdminClient, credentials: Credentials, users: Iterable[str]
    ) -> None:
        """Set the passwords of these users in Kafka. Raises KafkaError."""
        set_scram_passwords(client, {user: credentials.password(user) for user in users})

    def add_client(self, name: str, role: str) -> None:
        """Note who comes from outside; `prepare` and `provision` make what belongs to the name.
        Raises UnusableError for a role that does not exist, and for a name that is not free or that
        no file and no certificate can have."""
        if not _NAME.fullmatch(name):
            raise UnusableError(f"{name!r} is not a valid name: use a-z, 0-9 and '-'")
        if name in (*_SERVING, *_ASKING, _FOLDER):
            raise UnusableError(f"{name} is the name of a service: give the client another one")
        from cli.stages import access

        clients = {**self.clients(), name: role}
        access(self.namespace, clients)
        with write_whole(self.credentials.folder / _CLIENTS) as fresh:
            fresh.write_text(json.dumps(clients, indent=2) + "\n")

    def environment(self, name: str) -> Mapping[str, str]:
        """Return what a service or client needs to be believed, as COPLACE_* variables: names of
        files, and nothing secret itself."""
        return {f"COPLACE_{field.upper()}": text for field, text in self.settings(name).items()}

    def settings(self, name: str) -> Mapping[str, str]:
        """Return what a service or client needs to be believed, as fields of `Settings`."""
        found = {} if name in _GRPC_ALONE else self._at_servers(name)
        certificate, key = self.credentials.identity(name)
        if certificate.exists():
            found["grpc_ca_file"] = str(self.credentials.authority)
            found["grpc_cert_file"] = str(certificate)
            found["grpc_key_file"] = str(key)
        return found

    def _at_servers(self, name: str) -> dict[str, str]:
        """Return by what Kafka and Redis believe a service or client."""
        user = self._user(name)
        password = str(self.credentials.password_file(user))
        authority = str(self.credentials.authority)
        found = {
            "kafka_security_protocol": "SASL_SSL",
            "kafka_sasl_mechanism": "SCRAM-SHA-512",
            "kafka_sasl_username": user,
            "kafka_sasl_password_file": password,
            "kafka_ca_file": authority,
        }
        if any(user == known.name for known in self.access.redis_users()):
            found["redis_username"] = user
            found["redis_password_file"] = password
            found["redis_ca_file"] = authority
        return found

    def hand_out(self, folder: Path) -> None:
        """Lay what each holder has into a folder of its own below this one, under the same names
        for all. Containers mount nothing else, and run as users of their own, so anybody who
        reaches a folder may read it. Raises OSError."""
        services = [one.name for one in load_principals().values() if not one.is_role]
        for name in {*_SERVING, *services, *self.clients()}:
            own = folder / name
            own.mkdir(parents=True, exist_ok=True)
            for handed, file in self._files(name).items():
                if file.exists():
                    with write_whole(own / handed) as fresh:
                        fresh.write_bytes(file.read_bytes())
                        fresh.chmod(_FOR_ALL)

    def _files(self, name: str) -> Mapping[str, Path]:
        """What a holder may have, by the name that it is handed under."""
        found = {
            "ca.pem": self.credentials.authority,
            "certificate.pem": self.credentials.identity(name).certificate,
            "password": self.credentials.password_file(self._user(name)),
        }
        return {**found, "users.acl": self.redis.users_file} if name == REDIS else found

    def _user(self, name: str) -> str:
        return f"{self.namespace}.{name}" if self.namespace else name
