"""The topics of a run on Kafka: read whole, or followed until the run is complete."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.jobs_pb2 import JobFinished

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.record import Record, TopicPartition
from shared.streams.on_kafka.clients import Reader
from shared.streams.on_kafka.deployment import Deployment

JOBS = "jobs.events"
CHARGES = "prices.charges"
COMMANDS = "commands"


class StalledRunError(RuntimeError):
    """Nothing has happened in a run for too long."""


class KafkaTopics:
    """The topics of one namespace."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment

    def topic(self, name: str) -> Iterable[Event]:
        """Yield every committed event of a topic; records that are invalid are in the dead-letter
        queue."""
        with Reader(self.deployment, self.deployment.topics.partitions(name)) as reader:
            for record in reader.to_end():
                yield from self._event(record)

    def read_key(self, name: str, key: str) -> Iterable[Event]:
        """Yield every committed event of a topic under one key: its Kafka partition alone is
        read."""
        with Reader(self.deployment, [self.deployment.topics.partition_of(name, key)]) as reader:
            for record in reader.to_end():
                if record.key == key.encode():
                    yield from self._event(record)

    def ends(self, name: str) -> Mapping[TopicPartition, int]:
        """Return the offset after the last committed record of each partition of a topic."""
        with Reader(self.deployment, self.deployment.topics.partitions(name)) as reader:
            return {record.partition: record.offset + 1 for record in reader.to_end()}

    def follow(self, progress: Callable[[int], None], patience_s: float) -> None:
        """Wait for the last round's barrier in all of prices.charges; report finished jobs.

        Raises StalledRunError when neither a job event nor a charge came for `patience_s`.
        """
        topics = self.deployment.topics
        partitions = [*topics.partitions(JOBS), *topics.partitions(CHARGES)]
        watch = _Watch(topics.partitions(CHARGES))
        last_seen = time.monotonic()
        with Reader(self.deployment, partitions) as reader:
            while not watch.is_complete:
                records = reader.poll()
                for record in records:
                    for event in self._event(record):
                        watch.see(record.partition, event)
                progress(watch.take_finished())
                last_seen = time.monotonic() if records else last_seen
                if time.monotonic() - last_seen > patience_s:
                    raise StalledRunError(
                        f"no job event and no charge for {patience_s:.0f} s: "
                        "see the processes' logs (`coplace local logs`)"
                    )

    def _event(self, record: Record) -> Iterable[Event]:
        with suppress(RejectedError):
            yield self.deployment.codec.decode(record, of_any_count=True)


class _Watch:
    """What has been seen of a run."""

    def __init__(self, charges: Sequence[TopicPartition]) -> None:
        self._open = set(charges)
        self._finished: set[str] = set()
        self._told = 0

    @property
    def is_complete(self) -> bool:
        return not self._open

    def see(self, partition: TopicPartition, event: Event) -> None:
        if isinstance(event.payload, JobFinished):
            self._finished.add(event.id)
        elif isinstance(event.payload, RoundEnded) and event.payload.last:
            self._open.discard(partition)

    def take_finished(self) -> int:
        """How many more jobs have finished since the last call."""
        told, self._told = self._told, len(self._finished)
        return self._told - told
