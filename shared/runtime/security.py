"""TLS and SASL settings in the form that the Kafka and Redis clients want."""

import ssl
from typing import Any

from shared.runtime.settings import Settings


def kafka_options(settings: Settings) -> dict[str, Any]:
    """Keyword arguments of connection, understood by aiokafka and kafka-python alike."""
    protocol = settings.kafka_security_protocol
    options: dict[str, Any] = {
        "bootstrap_servers": settings.kafka_bootstrap.split(","),
        "security_protocol": protocol,
    }
    if protocol.endswith("SSL"):
        options["ssl_context"] = _kafka_tls(settings)
    if protocol.startswith("SASL_"):
        options["sasl_mechanism"] = settings.kafka_sasl_mechanism
        options["sasl_plain_username"] = settings.kafka_sasl_username
        options["sasl_plain_password"] = settings.kafka_password
    return options


def _kafka_tls(settings: Settings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.kafka_ca_file)
    if settings.kafka_cert_file:
        context.load_cert_chain(settings.kafka_cert_file, settings.kafka_key_file)
    return context


def redis_options(settings: Settings) -> dict[str, Any]:
    """Keyword arguments of `redis.asyncio.from_url` beside the URL; TLS follows from rediss://."""
    files = {
        "ssl_ca_certs": settings.redis_ca_file,
        "ssl_certfile": settings.redis_cert_file,
        "ssl_keyfile": settings.redis_key_file,
    }
    options: dict[str, Any] = {name: str(path) for name, path in files.items() if path}
    if settings.redis_username and not settings.redis_password_file:
        options["username"] = settings.redis_username
    return options
