"""Why Kafka and this process do not believe each other, in words."""

import asyncio
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError

from coplace_client.tls import TlsFiles, files_problem, tls_problem
from shared.process.refusals import RefusedError
from shared.process.security import kafka_options
from shared.process.settings import Settings

_CONNECT_S: Final = 5.0


async def kafka_problem(settings: Settings) -> str:
    """Return why Kafka and this process do not believe each other; empty where they do, and where
    nobody answers at all."""
    if settings.kafka_security_protocol == "PLAINTEXT":
        return ""
    if wrong := files_problem(settings, "kafka"):
        return wrong
    options = kafka_options(settings)
    for server in options.pop("bootstrap_servers"):
        host, _, port = server.rpartition(":")
        if wrong := await _kafka_problem_at(settings, host, int(port), options):
            return wrong
    return ""


async def _kafka_problem_at(
    settings: Settings, host: str, port: int, options: dict[str, object]
) -> str:
    peer = f"Kafka at {host}:{port}"
    try:
        connection = await create_conn(
            host, port, request_timeout_ms=int(_CONNECT_S * 1_000), **options
        )
    except ssl.SSLError as error:
        return tls_problem(peer, TlsFiles.of(settings, "kafka"), error)
    except (OSError, TimeoutError):
        return await _of_protocol(peer, settings, host, port)
    except KafkaError as error:
        return _of_password(peer, settings, error) or await _of_protocol(peer, settings, host, port)
    connection.close()
    return ""


async def _of_protocol(peer: str, settings: Settings, host: str, port: int) -> str:
    """A broker that speaks no TLS ends the connection without a word too, as one does that is being
    started."""
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), _CONNECT_S)
    except (OSError, TimeoutError):
        return ""
    writer.close()
    protocol = f"COPLACE_KAFKA_SECURITY_PROTOCOL={settings.kafka_security_protocol}"
    return f"{peer} is there and does not speak {protocol}"


def _of_password(peer: str, settings: Settings, error: KafkaError) -> str:
    """A broker that speaks no SASL ends the connection without a word."""
    if "uthentication" not in f"{type(error).__name__} {error}":
        return ""
    setting = "_FILE" if settings.kafka_sasl_password_file else ""
    return (
        f"{peer} refuses user {settings.kafka_sasl_username} with the password of "
        f"COPLACE_KAFKA_SASL_PASSWORD{setting}"
    )


def require_kafka_believes(settings: Settings) -> None:
    """Raise RefusedError where Kafka and this process do not believe each other: kafka-python would
    try again for half a minute, and say nothing of it."""
    if settings.kafka_security_protocol == "PLAINTEXT":
        return
    with ThreadPoolExecutor(1) as apart:  # the caller may have a loop of its own
        if problem := apart.submit(asyncio.run, kafka_problem(settings)).result():
            raise RefusedError(problem)
