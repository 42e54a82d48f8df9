"""Waiting for the topics that a process works with; creating them is an operator's decision."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError

from coplace_client.errors import CannotStartError
from coplace_client.health import Readiness
from coplace_client.tls import files_problem
from shared.process.refusals import acl_problem
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.refusals import kafka_problem

_PAUSE_S: Final = 0.3
_LEAST_SESSION: Final = "group.min.session.timeout.ms"
_MOST_SESSION: Final = "group.max.session.timeout.ms"

log = structlog.get_logger(__name__)


async def wait_for_topics(
    settings: Settings, topics: Iterable[str], readiness: Readiness, stop: asyncio.Event
) -> None:
    """Return when Kafka answers and has all topics, or when `stop` is set.

    Raises CannotStartError for a session time-out that Kafka does not take: groups with such a one
    never read, and Faust's neither say so nor stop.
    """
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
        # With access control services have no right to this: Kafka would log a denial each time.
        if settings.kafka_security_protocol == "PLAINTEXT":
            await _require_session(admin, settings)
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


async def _require_session(admin: AIOKafkaAdminClient, settings: Settings) -> None:
    """Raise CannotStartError for a session time-out out of Kafka's bounds, where Kafka has them
    under these names."""
    brokers = (await admin.describe_cluster())["brokers"]
    names = {_LEAST_SESSION: None, _MOST_SESSION: None}
    of = [
        ConfigResource(ConfigResourceType.BROKER, str(each["node_id"]), names) for each in brokers
    ]
    answers = await admin.describe_configs(of[:1])
    told = {
        name: int(value) / 1_000
        for answer in answers
        for *_, entries in answer.resources
        for name, value, *_ in entries
    }
    if told.keys() != names.keys():
        return
    least_s, most_s = told[_LEAST_SESSION], told[_MOST_SESSION]
    if not least_s <= settings.session_timeout_s <= most_s:
        raise CannotStartError(
            f"COPLACE_SESSION_TIMEOUT_S={settings.session_timeout_s:g}: Kafka at "
            f"{settings.kafka_bootstrap} takes {least_s:g} to {most_s:g} s: set one of these, "
            f"or change {_LEAST_SESSION} and {_MOST_SESSION} of its brokers"
        )
