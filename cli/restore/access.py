"""Whether Kafka and Redis allow each service what it needs, and nothing else."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from kafka.errors import SecurityDisabledError

from cli.stages import access
from shared.catalogue.access.kafka import difference
from shared.catalogue.access.redis import differences, has_users
from shared.catalogue.access.rules import Access
from shared.process.redis_client import redis_client
from shared.streams.on_kafka.admin import admin_client
from shared.streams.on_kafka.deployment import Deployment

KAFKA: Final = "access to Kafka"
REDIS: Final = "access to Redis"


def examine_access(deployment: Deployment) -> Mapping[str, Sequence[str] | None]:
    """Return what is missing or too much at each server, in words; None where it restricts nobody.
    Raises KafkaError and RedisError."""
    allowed = access(deployment.settings.namespace)
    return {
        KAFKA: _at_kafka(deployment, allowed),
        REDIS: asyncio.run(_at_redis(deployment, allowed)),
    }


def _at_kafka(deployment: Deployment, access: Access) -> list[str] | None:
    with admin_client(deployment) as client:
        try:
            missing, too_much = difference(client, access)
        except SecurityDisabledError:
            return None
    lacking = [f"missing: {rule}: `coplace topics create --acls` creates it" for rule in missing]
    return [*lacking, *(f"too much: {rule}: delete it with kafka-acls" for rule in too_much)]


async def _at_redis(deployment: Deployment, access: Access) -> list[str] | None:
    async with redis_client(deployment.settings) as redis:
        if not await has_users(redis):
            return None
        return await differences(redis, access.redis_users())
