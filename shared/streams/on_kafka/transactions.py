"""The Kafka side of a unit: its transactions and the state that they leave."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.structs import RecordMetadata

from shared.catalogue.record import NewRecord, TopicPartition
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.ends import EndsOfConsumer
from shared.streams.stages.provenance import Provenance
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import Commit

# A transaction's coordinator answers "concurrent transactions" until the last one's markers are
# written; the client's default pause of 100 ms before it asks again would dominate a round.
RETRY_BACKOFF_MS = 5
_BATCH_BYTES = 524_288
_POLL_MS = 200

Acknowledgements = list[asyncio.Future[RecordMetadata]]


def topic_partition(deployment: Deployment, partition: TopicPartition) -> KafkaPartition:
    """Return a partition as Kafka knows it."""
    return KafkaPartition(deployment.name(partition.topic), partition.kafka_partition)


class Transactions:
    """Commits what a unit did; opening it ends whoever wrote for the unit before."""

    def __init__(self, deployment: Deployment, stage: Stage, number: int) -> None:
        self._deployment = deployment
        self._step = deployment.hooks.step
        self._group = deployment.name(stage.name)
        self._changelog = TopicPartition(stage.changelog, number)
        self.provenance = Provenance()
        self._producer = AIOKafkaProducer(
            **deployment.connection,
            transactional_id=deployment.name(f"{stage.name}.{number}"),
            retry_backoff_ms=RETRY_BACKOFF_MS,
            max_request_size=deployment.max_record_bytes,
            max_batch_size=_BATCH_BYTES,
        )

    async def open(self) -> None:
        """Take the transactional id over: an older owner's open transaction is aborted, and it
        can commit no other."""
        await self._producer.start()

    async def close(self) -> None:
        """Disconnect; a transaction that is open is given up."""
        await self._producer.stop()

    async def commit(self, commit: Commit) -> None:
        """Write outputs, state changes, positions and the state's provenance, all or nothing.

        Raises KafkaError when that failed, ProducerFenced among them; the unit is of no use then.
        """
        await self._producer.begin_transaction()
        outputs = await self._send(commit.outputs)
        if outputs:
            self._step.reached("outputs sent")
        changes = await self._send(self._changes(commit.changelog))
        self._step.reached("changelog sent")
        after, _ = await asyncio.gather(
            self._send_provenance(commit, outputs), self._send_positions(commit.positions)
        )
        await asyncio.gather(*changes)
        self._step.reached("offsets sent")
        self._step.reached("committing")
        await self._producer.commit_transaction()
        self.provenance = after
        self._step.reached("committed")

    async def _send_provenance(self, commit: Commit, outputs: Acknowledgements) -> Provenance:
        """Send the provenance last: it says where outputs lie."""
        written_to = self._ends(commit.outputs, await asyncio.gather(*outputs))
        after = self.provenance.after(commit.positions, commit.last_read, written_to)
        await asyncio.gather(*await self._send(self._changes(after.change())))
        return after

    async def _send_positions(self, positions: Mapping[TopicPartition, int]) -> None:
        """Send the positions with the number of the commit: so even a commit that moves none is
        distinguished."""
        number = str(self.provenance.commits + 1)
        if moved := self.provenance.to_commit(positions):
            await self._producer.send_offsets_to_transaction(
                {topic_partition(self._deployment, p): (o, number) for p, o in moved.items()},
                self._group,
            )

    def _ends(
        self, outputs: Sequence[NewRecord], acknowledged: Sequence[RecordMetadata]
    ) -> Mapping[TopicPartition, int]:
        """Return how far the unit has written its stage's topics."""
        ends: dict[TopicPartition, int] = {}
        for new, at in zip(outputs, acknowledged, strict=True):
            if self.provenance.has(new.partition):
                ends[new.partition] = max(ends.get(new.partition, 0), at.offset + 1)
        return ends

    def _changes(self, changelog: Mapping[str, bytes | None]) -> Iterable[NewRecord]:
        for key, value in changelog.items():
            yield NewRecord(self._changelog, key.encode(), value)

    async def _send(self, records: Iterable[NewRecord]) -> Acknowledgements:
        return [
            await self._producer.send(
                self._deployment.name(record.partition.topic),
                partition=record.partition.kafka_partition,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
            )
            for record in records
        ]


async def read_changelog(deployment: Deployment, partition: TopicPartition) -> Mapping[str, bytes]:
    """Read the state that committed transactions left at a partition of a changelog."""
    partition = topic_partition(deployment, partition)
    consumer = AIOKafkaConsumer(
        **deployment.connection,
        isolation_level="read_committed",
        enable_auto_commit=False,
        # Where records are deleted meanwhile: the default would pass over the whole state.
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=deployment.max_record_bytes,
    )
    await consumer.start()
    try:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        return await _read_to_end(consumer, partition)
    finally:
        await consumer.stop()


async def _read_to_end(consumer: AIOKafkaConsumer, partition: KafkaPartition) -> dict[str, bytes]:
    state: dict[str, bytes] = {}
    ends = await EndsOfConsumer.of(consumer, [partition])
    while await ends.are_ahead():
        for records in (await consumer.getmany(partition, timeout_ms=_POLL_MS)).values():
            for record in records:
                _apply(state, record.key.decode(), record.value)
    return state


def _apply(state: dict[str, bytes], key: str, value: bytes | None) -> None:
    if value is None:
        state.pop(key, None)
    else:
        state[key] = value
