"""Waiting for the topics that a process works with; creating them is an operator's decision."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError

from coplace_client.health import Readiness
from coplace_client.tls import files_problem
from shared.process.refusals import acl_problem
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.refusals import kafka_problem

_PAUSE_S: Final = 0.3

log = structlog.get_logger(__name__)


async def wait_for_topics(
    settings: Settings, topics: Iterable[str], readiness: Readiness, stop: asyncio.Event
) -> None:
    """Return when Kafka answers and has all topics, or when `stop` is set."""
    deployment = Deployment.from_settings(settings)
    wanted = {deployment.name(topic) for topic in topics}
    while not stop.is_set():
        missing = await _missing(deployment, wanted)
        if not missing:
            return
        readiness.wait_for(missing)
        await asyncio.sleep(_PAUSE_S)


async def _missing(deployment: Deployment, wanted: set[str]) -> str:
    """Return what to wait for, in words; empty when everything is there."""
    settings = deployment.settings
    if wrong := files_problem(settings, "kafka"):
        return wrong
    admin = AIOKafkaAdminClient(**deployment.connection)
    try:
        await admin.start()
        absent = sorted(wanted - set(await admin.list_topics()))
        forbidden = await _forbidden(admin, absent)
    except KafkaConnectionError:
        return await kafka_problem(settings) or f"Kafka at {settings.kafka_bootstrap}"
    finally:
        await admin.close()
    if forbidden:
        error = TopicAuthorizationFailedError(", ".join(forbidden))
        return acl_problem(settings, error)
    return f"topics {', '.join(absent)}: run `coplace topics create`" if absent else ""


async def _forbidden(admin: AIOKafkaAdminClient, absent: Sequence[str]) -> list[str]:
    """Return the topics that are not listed since this process may not know of them."""
    described = await admin.describe_topics(list(absent)) if absent else []
    refused = TopicAuthorizationFailedError.errno
    return [topic["topic"] for topic in described if topic["error_code"] == refused]
