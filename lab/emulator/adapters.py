"""Kafka and gRPC, as the emulator uses them."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import grpc
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.plans_pb2 import PlanProposed

from coplace_client.facts import PAYLOADS
from coplace_client.ingest import IngestClient, Patience
from lab.emulator import facts
from lab.emulator.answers import Answers
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import Record, TopicPartition
from shared.catalogue.topics import ROUND_ENDED
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.ends import EndsOfConsumer
from shared.streams.stages.stage import Round

SOURCE: Final = "simulation"
# The topics that ingest fills for the emulator, which therefore barriers the rounds in them.
MARKED: Final = (
    facts.JOBS,
    facts.COMMANDS,
    facts.SIGNATURES,
    facts.NODES,
    facts.SHUTTERS,
    facts.BILLING,
)

_POLL_MS: Final = 200
# The run stops until a restarted or a not yet started ingest answers, so it is asked often.
# Anything else would be answered again, and ends the run.
_PATIENCE: Final = Patience(
    most_pause_s=0.5,
    tried_again=frozenset(
        {
            grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.DEADLINE_EXCEEDED,
            grpc.StatusCode.CANCELLED,
            grpc.StatusCode.UNKNOWN,
        }
    ),
)


class RefusedEventError(RuntimeError):
    """Ingest refused an event of the emulator: one of the two is wrong."""


class EmulatorIngest:
    """Publishes rounds through ingest; a round is through when all of it is acknowledged."""

    def __init__(self, deployment: Deployment, address: str) -> None:
        self._stamper = deployment.hooks.stamper
        self._client = IngestClient(address, deployment.settings, _PATIENCE)

    async def __aenter__(self) -> "EmulatorIngest":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.__aexit__(*error)

    async def publish(self, events: Sequence[Publish]) -> None:
        """Publish in order, again until acknowledged: copies have the ids of their originals.

        Raises RefusedEventError for an event that ingest does not take.
        """
        said = [self._stamped(published.event) for published in events]
        refused = await self._client.publish_all([envelope_of(event) for event in said])
        if refused:
            first = min(refused)
            raise RefusedEventError(f"ingest refused {said[first].id}: {refused[first]}")

    def _stamped(self, event: Event) -> Event:
        return self._stamper.stamp(SOURCE, event) if event.traceparent else event


def envelope_of(event: Event) -> Envelope:
    """Return the event as ingest takes it."""
    envelope = Envelope(
        id=event.id, source=event.source, time_us=event.time_us, traceparent=event.traceparent
    )
    getattr(envelope, PAYLOADS[event.type]).CopyFrom(event.payload)
    return envelope


class RoundBarriers:
    """Writes a round's barrier to every partition of the topics that ingest fills."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._producer = AIOKafkaProducer(
            **deployment.connection, acks="all", enable_idempotence=True, linger_ms=0
        )

    async def __aenter__(self) -> "RoundBarriers":
        await self._producer.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._producer.stop()

    async def write(self, ended: Round) -> None:
        """Return when every barrier is acknowledged. Raises KafkaError when one was not."""
        topics = self._deployment.topics
        barrier = barrier_of(ended)
        records = [
            self._deployment.codec.encode_barrier(partition, barrier)
            for topic in MARKED
            for partition in topics.partitions(topic)
        ]
        sent = [
            await self._producer.send(
                self._deployment.name(record.partition.topic),
                partition=record.partition.kafka_partition,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
            )
            for record in records
        ]
        await asyncio.gather(*sent)


def barrier_of(ended: Round) -> Event:
    """Return the barrier that ends a round in each Kafka partition."""
    payload = RoundEnded(round=ended.number, ended_at_us=ended.ended_at_us, last=ended.last)
    event_id = f"{SOURCE}/{ROUND_ENDED}/round/{ended.number}"
    return Event(event_id, SOURCE, ended.ended_at_us, "", payload)


class RecordedAnswers:
    """Reads what a run is answered from the start, so that a restart finds what was answered."""

    def __init__(self, deployment: Deployment, topics: Sequence[str]) -> None:
        self._deployment = deployment
        self._partitions = [p for topic in topics for p in deployment.topics.partitions(topic)]
        self._consumer = AIOKafkaConsumer(
            **deployment.connection,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=_POLL_MS,
            max_partition_fetch_bytes=deployment.max_record_bytes,
        )
        self._events: dict[int, list[Event]] = defaultdict(list)
        self._at_barrier: dict[int, set[TopicPartition]] = defaultdict(set)

    async def __aenter__(self) -> "RecordedAnswers":
        await self._consumer.start()
        partitions = [
            KafkaPartition(self._deployment.name(partition.topic), partition.kafka_partition)
            for partition in self._partitions
        ]
        self._consumer.assign(partitions)
        await self._consumer.seek_to_beginning(*partitions)
        ends = await EndsOfConsumer.of(self._consumer, partitions)
        while await ends.are_ahead():
            await self._poll()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._consumer.stop()

    def is_complete(self, number: int) -> bool:
        """Return whether everything that was answered to a round has been read."""
        return len(self._at_barrier[number]) == len(self._partitions)

    async def of_round(self, number: int, stop: asyncio.Event) -> Answers:
        """Return what was answered to a round, waiting until it is complete; nothing when `stop` is
        set."""
        while not self.is_complete(number):
            if stop.is_set():
                return Answers([])
            await self._poll()
        del self._at_barrier[number]
        return Answers.from_events(self._events.pop(number, []))

    async def _poll(self) -> None:
        found = await self._consumer.getmany(timeout_ms=_POLL_MS)
        for records in found.values():
            for record in records:
                self._take(self._deployment.record(record))

    def _take(self, record: Record) -> None:
        event = self._deployment.codec.decode(record)
        match event.payload:
            case RoundEnded() as barrier:
                self._at_barrier[barrier.round].add(record.partition)
            case PlacementDecided() | PlanProposed() as answer:
                self._events[answer.round].append(event)
