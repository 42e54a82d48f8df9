"""Follows what is charged, so that users read it where they submitted."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.message import DecodeError

from shared.catalogue.record import type_of
from shared.streams.on_kafka.deployment import Deployment

CHARGES: Final = "prices.charges"
_TYPE: Final = ChargeMade.DESCRIPTOR.full_name.encode()
_POLL_MS: Final = 1000
_AT_ONCE: Final = 200

log = structlog.get_logger(__name__)


class ChargeFollower:
    """The charges since this process was stopped, and those that come; what was charged before it
    ever ran is not."""

    def __init__(self, deployment: Deployment, name: str) -> None:
        self._topic = deployment.name(CHARGES)
        self._partitions = [
            KafkaPartition(self._topic, each.kafka_partition)
            for each in deployment.topics.partitions(CHARGES)
        ]
        self._consumer = AIOKafkaConsumer(
            **deployment.connection,
            group_id=deployment.name(f"resource-manager.{name}.charges"),
            isolation_level="read_committed",
            auto_offset_reset="latest",
            enable_auto_commit=False,
            max_partition_fetch_bytes=deployment.max_record_bytes,
        )

    async def run(self, note: Callable[[ChargeMade], Awaitable[None]]) -> None:
        """Pass each on, until cancelled; the Kafka of a site may have none. Raises KafkaError where
        Kafka is not there to begin with."""
        self._consumer.assign(self._partitions)
        try:
            await self._consumer.start()
            if self._topic not in await self._consumer.topics():
                log.info("charges are not on this Kafka: users do not read them")
                return
            while True:
                found = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_AT_ONCE)
                for record in (record for each in found.values() for record in each):
                    if (charge := charge_in(record)) is not None:
                        await note(charge)
                if found:
                    await self._consumer.commit()
        finally:
            await self._consumer.stop()


def charge_in(record: Any) -> ChargeMade | None:
    """Return the charge that a record is; None where it is none, or cannot be read."""
    if record.value is None or type_of(record) != _TYPE:
        return None
    try:
        return ChargeMade.FromString(record.value)
    except DecodeError:
        log.error("a charge cannot be read", at=f"{record.partition}/{record.offset}")
        return None
