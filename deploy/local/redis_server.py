"""The system's redis-server as a program, with its data on disk."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from deploy.local.credentials import Credentials
from deploy.local.prerequisites import require_command
from deploy.local.program import Program

REDIS: Final = "redis"


@dataclass(frozen=True, slots=True)
class SecureRedis:
    """What a Redis needs that asks who somebody is: its certificate, the file of its users, and the
    user by whom it is asked whether it is ready."""

    credentials: Credentials
    probing_user: str

    @property
    def users_file(self) -> Path:
        """Return the file of users in Redis's own form, with digests of the passwords."""
        return self.credentials.folder / "redis-users.acl"

    def options(self, port: int) -> Mapping[str, str]:
        """Return its settings beyond those of a plain one."""
        certificate, key = self.credentials.identity(REDIS)
        return {
            "port": "0",
            "tls-port": str(port),
            "tls-cert-file": str(certificate),
            "tls-key-file": str(key),
            "tls-ca-cert-file": str(self.credentials.authority),
            # Clients are known by user and password.
            "tls-auth-clients": "no",
            "aclfile": str(self.users_file),
        }

    def ready_url(self, port: int) -> str:
        """Return where it answers a PING; the password stays in its file."""
        files = {
            "ca_file": self.credentials.authority,
            "password_file": self.credentials.password_file(self.probing_user),
        }
        return f"rediss://{self.probing_user}@127.0.0.1:{port}/0?{urlencode(files)}"


def redis_program(data_dir: Path, port: int, secure: SecureRedis | None = None) -> Program:
    """Return Redis on loopback that keeps every write over a kill of its process; a secure one
    speaks TLS alone, and knows only the users of its file.

    Raises PrerequisiteError if redis-server is not installed.
    """
    require_command("redis-server", "The Redis read model", "redis-server")
    data_dir.mkdir(parents=True, exist_ok=True)
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": str(data_dir),
        # The log of writes reaches the system before the client gets its answer; snapshots,
        # which would fork the process now and then, add nothing to it.
        "appendonly": "yes",
        # A kill of the process loses nothing that the system has, and a flush to the disk every
        # second would hold up whatever Kafka appends meanwhile.
        "appendfsync": "no",
        "save": "",
        **(secure.options(port) if secure else {}),
    }
    argv = [
        "redis-server",
        *(word for key, value in options.items() for word in (f"--{key}", value)),
    ]
    ready_url = secure.ready_url(port) if secure else f"redis://127.0.0.1:{port}/0"
    return Program("redis", argv, ready_url=ready_url)
