"""Faust for what keeps no state in it: stateless stages and read models.

A handler's failure ends the process before Faust acknowledges the batch, since Faust acknowledges
it anyway. Copies of records are possible: handlers must not mind them.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import faust
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from faust import Stream
from faust.auth import SASLCredentials, SSLCredentials
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, StreamT
from yarl import URL

from shared.catalogue.record import Record, TopicPartition
from shared.process.crash import end_process
from shared.streams.on_kafka.deployment import Deployment

Handler = Callable[[Sequence[Record]], Awaitable[None]]
Positions = Callable[[Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]]

BATCH_RECORDS = 500
# Faust wakes up so often although nothing comes: at every 20 ms that is 4 % of a core.
_GATHER_S = 0.5
# A killed process reads again what it handled since: handlers do not mind.
_COMMIT_S = 2.0
_BEATS_A_SESSION = 5
# Faust wants a folder although it keeps nothing; none of ours may be writable.
_EMPTY_FOLDER = str(Path(tempfile.gettempdir()) / "coplace-faust")


class _ConsumerThread(driver.AIOKafkaConsumerThread):
    """Reads committed records only, which Faust does inside of its own transactions alone."""

    def _create_worker_consumer(self, transport: driver.Transport) -> AIOKafkaConsumer:
        app = cast(StatelessApp, self.app)
        deployment = app.deployment
        session_ms = int(deployment.settings.session_timeout_s * 1_000)
        self._assignor = RoundRobinPartitionAssignor
        return AIOKafkaConsumer(
            **deployment.connection,
            group_id=app.conf.id,
            group_instance_id=deployment.settings.worker or None,
            partition_assignment_strategy=[self._assignor],
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // _BEATS_A_SESSION,
            max_partition_fetch_bytes=deployment.max_record_bytes,
            **deployment.fetching(app.relaxed_s),
        )


class _Consumer(driver.Consumer):
    def _new_consumer_thread(self) -> _ConsumerThread:
        return _ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek where to read on after an assignment.

        Faust calls it while the flow of records is paused, and takes the answer as what it has read
        and acknowledged: so a position outside of Kafka can be older than the group's.
        """
        app = cast(StatelessApp, self.app)
        if app.positions is None:
            return await super().seek_to_committed()
        found = {
            TopicPartition(app.deployment.topic_of(tp.topic), tp.partition): tp
            for tp in self.assignment()
        }
        positions = await app.positions(list(found))
        offsets = {tp: positions.get(partition, 0) for partition, tp in found.items()}
        await self.seek_wait(offsets)
        return offsets


class _Transport(driver.Transport):
    Consumer = _Consumer


class StatelessApp(faust.App):
    """A Faust app that keeps nothing, in our namespace and with our settings."""

    deployment: Deployment
    positions: Positions | None
    relaxed_s: float

    def _new_transport(self) -> _Transport:
        return _Transport(self.conf.broker_consumer, self)

    def _crash(self, reason: BaseException) -> None:
        end_process(f"faust app {self.conf.id}", reason)


def stateless_app(
    deployment: Deployment,
    name: str,
    handlers: Mapping[str, Handler],
    positions: Positions | None = None,
    relaxed_s: float = 0.0,
) -> StatelessApp:
    """Return the consumer group `name` that gives each topic's records to its handler, batch by
    batch.

    `positions` gives where to read on, for a read model that keeps its position with its data;
    without it the group's offsets count. What it handles may be `relaxed_s` late.
    """
    settings = deployment.settings
    app = StatelessApp(
        deployment.name(name),
        broker=[URL(f"kafka://{server}") for server in deployment.connection["bootstrap_servers"]],
        broker_credentials=_credentials(deployment.connection),
        broker_session_timeout=settings.session_timeout_s,
        broker_commit_interval=_COMMIT_S,
        processing_guarantee="at_least_once",
        datadir=_EMPTY_FOLDER,
        store="memory://",
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        autodiscover=False,
    )
    app.deployment = deployment
    app.positions = positions
    app.relaxed_s = relaxed_s
    for topic, handler in handlers.items():
        _add_agent(app, topic, handler)
    return app


async def run_stateless(app: StatelessApp, stop: asyncio.Event) -> None:
    """Run the app until `stop` is set; anything that goes wrong ends the process."""
    app.finalize()
    await app.start()
    await stop.wait()
    await app.stop()


def _add_agent(app: StatelessApp, topic: str, handler: Handler) -> None:
    deployment = app.deployment
    channel = app.topic(
        deployment.name(topic),
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
    )

    async def consume(stream: StreamT[Any]) -> None:
        async for events in cast(Stream[Any], stream).take_events(BATCH_RECORDS, within=_GATHER_S):
            try:
                await handler([deployment.record(event.message) for event in events])
            except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
                end_process(f"handler of {topic}", error)

    app.agent(channel, name=f"{app.conf.id}.{topic}")(consume)


def _credentials(connection: Mapping[str, Any]) -> SASLCredentials | SSLCredentials | None:
    protocol = connection["security_protocol"]
    context = connection.get("ssl_context")
    if protocol.startswith("SASL_"):
        return SASLCredentials(
            username=connection["sasl_plain_username"],
            password=connection["sasl_plain_password"],
            mechanism=connection["sasl_mechanism"],
            ssl_context=context,
        )
    return SSLCredentials(context) if protocol == "SSL" else None
