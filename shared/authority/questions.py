"""The door of a process that answers questions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from shared.authority.door import AUDIT, Door
from shared.authority.following import TOPIC, table_followed
from shared.authority.following_issuer import issuer_followed
from shared.authority.table import TableInForce
from shared.process.crash import end_process
from shared.process.life import Process
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.publisher import KafkaPublisher
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.telemetry import hooks_of


@asynccontextmanager
async def question_door(process: Process, name: str) -> AsyncIterator[Door]:
    """Open a door that knows the table in force, as it is now and as it becomes meanwhile."""
    await wait_for_topics(process.settings, (TOPIC, AUDIT), process.readiness, process.stop)
    deployment, table = (
        Deployment.from_settings(process.settings, hooks_of(process.telemetry)),
        TableInForce(),
    )
    crash = partial(end_process, name)
    async with (
        KafkaPublisher(deployment, name) as publisher,
        table_followed(deployment, table, crash),
    ):
        door = Door(name, table, publisher, process.telemetry.meter)
        door.announce()
        async with issuer_followed(door.signed, crash):
            yield door
