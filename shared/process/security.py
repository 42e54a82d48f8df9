"""TLS and SASL settings in the form that the Kafka and Redis clients want. What is in files is read
when a connection begins: who renews them restarts nobody."""

import ssl
from pathlib import Path
from typing import Any, Self

from shared.process.settings import Settings


def kafka_options(settings: Settings) -> dict[str, Any]:
    """Return keyword arguments of connection, understood by aiokafka and kafka-python alike."""
    protocol = settings.kafka_security_protocol
    options: dict[str, Any] = {
        "bootstrap_servers": settings.kafka_bootstrap.split(","),
        "security_protocol": protocol,
    }
    if protocol.endswith("SSL"):
        options["ssl_context"] = _TlsContextOfFiles(settings)
    if protocol.startswith("SASL_"):
        options["sasl_mechanism"] = settings.kafka_sasl_mechanism
        options["sasl_plain_username"] = settings.kafka_sasl_username
        file, password = settings.kafka_sasl_password_file, settings.kafka_password
        options["sasl_plain_password"] = _PasswordOfFile(password, file) if file else password
    return options


class _TlsContextOfFiles(ssl.SSLContext):
    """TLS with Kafka as the files of the settings say when a connection begins."""

    _settings: Settings

    def __new__(cls, settings: Settings) -> Self:
        found = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        found._settings = settings
        return found

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """Wrap as asyncio begins a connection. Raises OSError for unusable files."""
        return _kafka_tls(self._settings).wrap_bio(*arguments, **named)

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        """Wrap as others do. Raises OSError for unusable files."""
        return _kafka_tls(self._settings).wrap_socket(*arguments, **named)


class _PasswordOfFile(str):
    """A password as its file has it at the moment: SCRAM of both clients encodes it at each
    connection. Clients of PLAIN keep what it was when they were made."""

    __slots__ = ("_file",)
    _file: Path

    def __new__(cls, password: str, file: Path) -> Self:
        found = super().__new__(cls, password)
        found._file = file
        return found

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return what the file has. Raises OSError without it."""
        return self._file.read_text().strip().encode(encoding, errors)


def _kafka_tls(settings: Settings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.kafka_ca_file)
    if settings.kafka_cert_file:
        context.load_cert_chain(settings.kafka_cert_file, settings.kafka_key_file)
    return context


def redis_options(settings: Settings) -> dict[str, Any]:
    """Return keyword arguments of `redis.asyncio.from_url` beside the URL; TLS follows from
    rediss://."""
    files = {
        "ssl_ca_certs": settings.redis_ca_file,
        "ssl_certfile": settings.redis_cert_file,
        "ssl_keyfile": settings.redis_key_file,
    }
    options: dict[str, Any] = {name: str(path) for name, path in files.items() if path}
    if settings.redis_username and not settings.redis_password_file:
        options["username"] = settings.redis_username
    return options
