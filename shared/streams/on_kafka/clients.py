"""Plain producers and consumers with kafka-python, for the command line and for clients outside.

kafka-python checks records with the crc32c package when that is installed, as it is here: without
it every record costs several times as much.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.errors import KafkaError

from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.ends import Ends
from shared.streams.on_kafka.plain_consumer import plain_consumer
from shared.streams.on_kafka.refusals import require_kafka_believes

# A killed broker is back within seconds; the pauses between attempts would grow to 30.
_RECONNECT_WITHIN_MS: Final = 500
# A consumer that was connected to a broker that was killed may hear nothing for minutes, though the
# broker is back: one that is silent for so long is made anew.
_SILENT_S: Final = 10.0
_CLOSE_WITHIN_MS: Final = 1_000


class Publisher:
    """Appends records and returns when the broker has them. Use it as a context manager. Raises
    RefusedError."""

    def __init__(self, deployment: Deployment) -> None:
        require_kafka_believes(deployment.settings)
        self._deployment = deployment
        self._producer = KafkaProducer(
            **deployment.connection,
            acks="all",
            enable_idempotence=True,
            reconnect_backoff_max_ms=_RECONNECT_WITHIN_MS,
            max_request_size=deployment.max_record_bytes,
        )

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Send what was appended, and disconnect."""
        self._producer.close()

    def append(self, records: Iterable[NewRecord]) -> None:
        """Append all. Raises KafkaError when one of them was not taken."""
        futures = [
            self._producer.send(
                self._deployment.name(record.partition.topic),
                partition=record.partition.kafka_partition,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
            )
            for record in records
        ]
        self._producer.flush()
        failures = [future.exception for future in futures if future.failed()]
        if failures:
            raise KafkaError(f"{len(failures)} records were not taken: {failures[0]}")


class Reader:
    """Reads committed records of some partitions from their beginning. A context manager. Raises
    RefusedError."""

    def __init__(self, deployment: Deployment, partitions: Sequence[TopicPartition]) -> None:
        require_kafka_believes(deployment.settings)
        self._deployment = deployment
        self._partitions = [self._named(partition) for partition in partitions]
        self._positions: dict[KafkaPartition, int] = {}
        self._consumer = self._connected()
        self._heard_s = time.monotonic()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; nothing is read any more."""
        self._consumer.close()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue from an offset."""
        self._positions[self._named(partition)] = offset
        self._consumer.seek(self._named(partition), offset)

    def skip_to_end(self) -> None:
        """Continue with what comes from now on."""
        self._consumer.seek_to_end(*self._partitions)
        # It asks where the end is, now.
        self._positions = {each: self._consumer.position(each) for each in self._partitions}

    def poll(self, timeout_s: float = 0.2) -> list[Record]:
        """Return what has come since the last call; waits for the first record at most
        `timeout_s`."""
        found = self._consumer.poll(timeout_ms=int(timeout_s * 1_000))
        if found:
            self._heard_s = time.monotonic()
            self._positions |= {each: records[-1].offset + 1 for each, records in found.items()}
        elif time.monotonic() - self._heard_s > _SILENT_S:
            self._renew()
        return [self._deployment.record(record) for records in found.values() for record in records]

    def to_end(self) -> Iterator[Record]:
        """Yield every record up to what is committed now."""
        ends = Ends(self._consumer.end_offsets(self._partitions))
        while ends.are_ahead({each: self._consumer.position(each) for each in ends.partitions}):
            if ends.are_doubtful:
                ends.check(self._consumer.end_offsets(ends.partitions))
            yield from self.poll()

    def _named(self, partition: TopicPartition) -> KafkaPartition:
        return KafkaPartition(self._deployment.name(partition.topic), partition.kafka_partition)

    def _connected(self) -> KafkaConsumer:
        """Return a consumer that goes on where this reader is."""
        consumer = plain_consumer(
            self._deployment,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            reconnect_backoff_max_ms=_RECONNECT_WITHIN_MS,
            max_partition_fetch_bytes=self._deployment.max_record_bytes,
        )
        consumer.assign(self._partitions)
        for partition, offset in self._positions.items():
            consumer.seek(partition, offset)
        return consumer

    def _renew(self) -> None:
        """Connect anew; while Kafka is away the consumer that is there waits for it."""
        self._heard_s = time.monotonic()
        with suppress(KafkaError):
            deaf, self._consumer = self._consumer, self._connected()
            deaf.close(autocommit=False, timeout_ms=_CLOSE_WITHIN_MS)
