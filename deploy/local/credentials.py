"""Certificates and passwords of the servers and services on one machine, each file its owner's."""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from coplace_client.files import write_whole
from deploy.local.errors import LocalServersError
from deploy.local.prerequisites import require_command

_AUTHORITY_DAYS: Final = 3_650
_DAYS: Final = 397
_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_CONFIG: Final = "[req]\ndistinguished_name = dn\n[dn]\n"
# Who serves is reached on this machine, and by its name where each has a container of its own.
_HOSTS: Final = "DNS:{name},DNS:localhost,IP:127.0.0.1"
_PASSWORD_BYTES: Final = 32
_PRIVATE: Final = 0o077


class Identity(NamedTuple):
    """The files of a certificate and its key, in PEM; one file may hold both."""

    certificate: Path
    key: Path


class Credentials:
    """A certificate authority, the certificates that it signed and the passwords, in one folder
    that nobody but its owner may read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def authority(self) -> Path:
        """Return the authority that signs every certificate: hand it to clients that shall believe
        them."""
        return self.folder / "ca.pem"

    @property
    def exist(self) -> bool:
        """Return whether they were made."""
        return self.authority.exists()

    def identity(self, name: str) -> Identity:
        """Return the certificate of a name and its key, which `certify` made: one file, as Kafka
        wants it, and so that nobody ever reads an old key with a new certificate."""
        return Identity(*[self.folder / f"{name}.pem"] * 2)

    def password_file(self, name: str) -> Path:
        """Return the file of a user's password, which `give_password` made."""
        return self.folder / f"{name}.password"

    def has_password(self, name: str) -> bool:
        """Return whether the user has one here."""
        return self.password_file(name).exists()

    def password(self, name: str) -> str:
        """Return a user's password. Raises OSError where it has none."""
        return self.password_file(name).read_text().strip()

    def create(self) -> None:
        """Make the authority, if there is none. Raises PrerequisiteError without openssl."""
        require_command("openssl", "A secure installation", "openssl")
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.exist:
            self._authority()

    def certify(self, name: str, common_name: str, *, serves: bool) -> None:
        """Make a certificate for `common_name`, unless there is one of this name. One that does not
        serve is no server's: nobody is deceived by it."""
        if not self.identity(name).certificate.exists():
            self._certify(name, common_name, serves=serves)

    def give_password(self, name: str) -> None:
        """Make a user's password, unless there is one."""
        if not self.has_password(name):
            self.write(self.password_file(name), secrets.token_urlsafe(_PASSWORD_BYTES) + "\n")

    def believe_too(self, other: "Credentials") -> None:
        """Trust another's authority beside the own, which signs no more: from now on the other's
        key does. Once more changes nothing."""
        own, new = self.authority.read_text(), other.authority.read_text()
        if new not in own:
            # What signs comes first.
            self.write(self.authority, new + own)
        self.take(other, self._authority_key.name)

    def believe_only(self, other: "Credentials") -> None:
        """Trust another's authority alone."""
        self.write(self.authority, other.authority.read_text())

    def take(self, other: "Credentials", file: str) -> None:
        """Move another's file in place of the own of that name, unless it was moved before."""
        if (other.folder / file).exists():
            (other.folder / file).replace(self.folder / file)

    def write(self, path: Path, text: str) -> None:
        """Write a file for its owner alone, whole or not at all."""
        with write_whole(path) as fresh:
            fresh.touch(mode=0o600)
            fresh.write_text(text)

    def _authority(self) -> None:
        name = f"/CN=coplace authority {secrets.token_hex(4)}"
        extensions = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign")
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            made = Identity(Path(scratch) / "ca.pem", Path(scratch) / "ca.key")
            _openssl(made, name, _AUTHORITY_DAYS, extensions)
            made.key.replace(self._authority_key)
            made.certificate.replace(self.authority)

    def _certify(self, name: str, common_name: str, *, serves: bool) -> None:
        usage = "serverAuth,clientAuth" if serves else "clientAuth"
        extensions = (
            "basicConstraints=critical,CA:FALSE",
            f"extendedKeyUsage={usage}",
            *((f"subjectAltName={_HOSTS.format(name=name)}",) if serves else ()),
        )
        signer = ("-CA", str(self.authority), "-CAkey", str(self._authority_key))
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            made = Identity(Path(scratch) / "pem", Path(scratch) / "key")
            _openssl(made, f"/CN={common_name}", _DAYS, extensions, signer)
            pair = made.key.read_text() + made.certificate.read_text()
        self.write(self.identity(name).certificate, pair)

    @property
    def _authority_key(self) -> Path:
        return self.folder / "ca.key"


def _openssl(
    made: Identity, subject: str, days: int, extensions: Iterable[str], signer: Iterable[str] = ()
) -> None:
    """A new key with a certificate of its own, signed by itself unless a signer is named."""
    config = made.key.with_suffix(".cnf")
    config.write_text(_CONFIG)
    files = ("-config", config, "-keyout", made.key, "-out", made.certificate)
    words = (word for extension in extensions for word in ("-addext", extension))
    command = ["openssl", "req", "-x509", *_KEY, *files, "-days", str(days), "-subj", subject]
    done = subprocess.run(
        [*map(str, command), *signer, *words],
        capture_output=True,
        text=True,
        check=False,
        umask=_PRIVATE,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode != 0:
        raise LocalServersError(f"openssl made no certificate for {subject}: {done.stderr[-500:]}")
