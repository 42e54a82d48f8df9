"""Writing events to Kafka outside of a stage: at the edges, where copies may arise."""

import asyncio
from collections.abc import Iterable
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.structs import RecordMetadata

from shared.catalogue.event import Publish
from shared.streams.on_kafka.deployment import Deployment

_BATCH_BYTES: Final = 131_072
_RETRY_BACKOFF_MS: Final = 10


class KafkaPublisher:
    """An idempotent producer: every replica has an event before it is acknowledged, and the
    client's own retries neither double nor reorder."""

    def __init__(self, deployment: Deployment, name: str) -> None:
        self._deployment = deployment
        self._name = name
        self._producer = AIOKafkaProducer(
            **deployment.connection,
            acks="all",
            enable_idempotence=True,
            linger_ms=1,
            max_batch_size=_BATCH_BYTES,
            max_request_size=deployment.max_record_bytes,
            retry_backoff_ms=_RETRY_BACKOFF_MS,
        )

    async def __aenter__(self) -> "KafkaPublisher":
        await self._producer.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._producer.stop()

    async def send(self, publish: Publish) -> asyncio.Future[RecordMetadata]:
        """Put an event into a batch; waits while the batches of its place are full.

        What is returned raises KafkaError when the broker did not take it.
        """
        stamped = self._deployment.hooks.stamper.stamp(self._name, publish.event)
        record = self._deployment.codec.encode(Publish(publish.topic, stamped))
        sent: asyncio.Future[RecordMetadata] = await self._producer.send(
            self._deployment.name(record.partition.topic),
            partition=record.partition.kafka_partition,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
        return sent

    async def send_all(self, publishes: Iterable[Publish]) -> None:
        """Send events in their order, and return when the broker has them.

        Raises KafkaError when it did not take one.
        """
        await asyncio.gather(*[await self.send(publish) for publish in publishes])
