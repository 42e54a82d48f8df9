"""Channels to a gRPC server: its certificate checked, our own certificate or token shown."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

import grpc

# A server that vanished is noticed within 40 s, also between calls.
KEEP_ALIVE: Final = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.~+/=-]+")


class GrpcSettings(Protocol):
    """Files by which the two sides of a connection know each other; without any they speak plain
    text. Each is read when a connection begins: who renews them restarts nobody."""

    @property
    def grpc_ca_file(self) -> Path | None:
        """Return the PEM that signs the server's certificate."""

    @property
    def grpc_cert_file(self) -> Path | None:
        """Return the PEM of our own certificate."""

    @property
    def grpc_key_file(self) -> Path | None:
        """Return the PEM of its private key."""

    @property
    def grpc_token_file(self) -> Path | None:
        """Return the file of our token, read at each call; shown over TLS alone."""


@dataclass(frozen=True, slots=True)
class GrpcFiles:
    """The settings of a program that has none of its own; without any it speaks plain text."""

    grpc_ca_file: Path | None = None
    grpc_cert_file: Path | None = None
    grpc_key_file: Path | None = None
    grpc_token_file: Path | None = None

    @classmethod
    def from_environment(cls) -> Self:
        """Read COPLACE_GRPC_CA_FILE, _CERT_FILE, _KEY_FILE and _TOKEN_FILE."""
        names = (f"COPLACE_GRPC_{each}_FILE" for each in ("CA", "CERT", "KEY", "TOKEN"))
        return cls(*(Path(text) if (text := os.environ.get(name)) else None for name in names))


def grpc_channel(address: str, settings: GrpcSettings) -> grpc.Channel:
    """Open a channel of a command or another client that waits for each answer."""
    credentials = grpc_channel_credentials(settings)
    if credentials is None:
        return grpc.insecure_channel(address, options=KEEP_ALIVE)
    return grpc.secure_channel(address, credentials, options=KEEP_ALIVE)


def grpc_aio_channel(address: str, settings: GrpcSettings) -> grpc.aio.Channel:
    """Open a channel in an event loop."""
    credentials = grpc_channel_credentials(settings)
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=KEEP_ALIVE)
    return grpc.aio.secure_channel(address, credentials, options=KEEP_ALIVE)


def grpc_channel_credentials(settings: GrpcSettings) -> grpc.ChannelCredentials | None:
    """Return what a client checks servers with and shows of itself; None speaks plain text."""
    if settings.grpc_ca_file is None and settings.grpc_cert_file is None:
        return None
    connection = grpc.ssl_channel_credentials(
        root_certificates=_bytes(settings.grpc_ca_file),
        private_key=_bytes(settings.grpc_key_file),
        certificate_chain=_bytes(settings.grpc_cert_file),
    )
    if settings.grpc_token_file is None:
        return connection
    shown = grpc.metadata_call_credentials(_TokenOfFile(settings.grpc_token_file))
    return grpc.composite_channel_credentials(connection, shown)


class _TokenOfFile(grpc.AuthMetadataPlugin):
    """Shows the token that its file has at each call."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(
        self, _context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback
    ) -> None:
        """What cannot be read or shown fails the call, by the name of the file alone."""
        try:
            token = self._file.read_text().strip()
        except OSError as error:
            callback((), error)
            return
        if _TOKEN.fullmatch(token):
            callback((("authorization", f"Bearer {token}"),), None)
        else:
            callback((), ValueError(f"COPLACE_GRPC_TOKEN_FILE={self._file} holds no token"))


def _bytes(path: Path | None) -> bytes | None:
    return path.read_bytes() if path else None
