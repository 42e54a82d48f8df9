"""TLS settings in the form that a gRPC server wants; most processes serve none."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import grpc

from shared.process.settings import Settings


def grpc_server_credentials(
    settings: Settings, *, for_tokens: bool = False
) -> grpc.ServerCredentials | None:
    """Return the server's certificate, None to speak plain text; with a CA, clients must show
    theirs, but where they come with tokens. Both are as the files have them when a connection
    begins.

    Raises ValueError when clients shall be checked without a certificate to serve.
    """
    key, certificate = settings.grpc_key_file, settings.grpc_cert_file
    if certificate is None or key is None:
        if settings.grpc_ca_file:
            raise ValueError("grpc_ca_file on a server needs grpc_cert_file and grpc_key_file")
        return None
    files = _ServerFiles(certificate, key, None if for_tokens else settings.grpc_ca_file)
    # Its types know no None, by which it goes on with what it has.
    renewed = cast(Callable[[], grpc.ServerCertificateConfiguration], files.renewed)
    return grpc.dynamic_ssl_server_credentials(
        files.read(), renewed, require_client_authentication=files.authority is not None
    )


class _ServerFiles:
    """The files of a server, read anew once one of them was replaced."""

    def __init__(self, certificate: Path, key: Path, authority: Path | None) -> None:
        self.authority = authority
        self._certificate = certificate
        self._key = key
        self._read_at = self._changed_at()

    def read(self) -> grpc.ServerCertificateConfiguration:
        """Read the files as they are. Raises OSError."""
        pair = (self._key.read_bytes(), self._certificate.read_bytes())
        authority = self.authority.read_bytes() if self.authority else None
        return grpc.ssl_server_certificate_configuration([pair], authority)

    def renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Asked as each connection begins: None where they are as before. Raises OSError."""
        changed_at = self._changed_at()
        if changed_at == self._read_at:
            return None
        self._read_at = changed_at
        return self.read()

    def _changed_at(self) -> tuple[tuple[int, int], ...]:
        every = (self._certificate, self._key, *((self.authority,) if self.authority else ()))
        return tuple((found.st_mtime_ns, found.st_ino) for found in map(Path.stat, every))
