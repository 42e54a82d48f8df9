"""TLS settings in the form that gRPC wants; apart, since most processes speak no gRPC."""

from pathlib import Path

import grpc

from shared.runtime.settings import Settings


def grpc_server_credentials(settings: Settings) -> grpc.ServerCredentials | None:
    """The server's certificate, None to speak plain text; with a CA, clients must show theirs.

    Raises ValueError when clients shall be checked without a certificate to serve.
    """
    if settings.grpc_cert_file is None or settings.grpc_key_file is None:
        if settings.grpc_ca_file:
            raise ValueError("grpc_ca_file on a server needs grpc_cert_file and grpc_key_file")
        return None
    pair = (settings.grpc_key_file.read_bytes(), settings.grpc_cert_file.read_bytes())
    authority = _bytes(settings.grpc_ca_file)
    return grpc.ssl_server_credentials(
        [pair], root_certificates=authority, require_client_auth=authority is not None
    )


def grpc_channel(address: str, settings: Settings) -> grpc.Channel:
    """A channel of a command or another client that waits for each answer."""
    credentials = grpc_channel_credentials(settings)
    if credentials is None:
        return grpc.insecure_channel(address)
    return grpc.secure_channel(address, credentials)


def grpc_channel_credentials(settings: Settings) -> grpc.ChannelCredentials | None:
    """What a client checks servers with and shows of itself; None speaks plain text."""
    if settings.grpc_ca_file is None and settings.grpc_cert_file is None:
        return None
    return grpc.ssl_channel_credentials(
        root_certificates=_bytes(settings.grpc_ca_file),
        private_key=_bytes(settings.grpc_key_file),
        certificate_chain=_bytes(settings.grpc_cert_file),
    )


def _bytes(path: Path | None) -> bytes | None:
    return path.read_bytes() if path else None
