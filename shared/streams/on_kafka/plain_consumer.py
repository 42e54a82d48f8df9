"""Consumers of kafka-python that read whatever a broker holds.

Their module is not aiokafka's: a process that reads with that alone does without this library.
"""

from typing import Any

from kafka import KafkaConsumer
from kafka.consumer import fetcher
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords

from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.readable import ReadableRecords


def plain_consumer(deployment: Deployment, **options: Any) -> KafkaConsumer:
    """Return a consumer of a deployment, with kafka-python's options."""
    fetcher.MemoryRecords = lambda data: ReadableRecords(MemoryRecords, data, CorruptRecordError)
    return KafkaConsumer(**deployment.connection, **options)
