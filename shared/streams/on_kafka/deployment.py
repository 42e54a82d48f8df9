"""What the Kafka side of a process works with: settings, topics, names, listeners."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from coplace_client.clock import GuardedClock
from shared.catalogue.codec import ENVELOPE_BYTES, Codec
from shared.catalogue.record import Record, TopicPartition
from shared.catalogue.topics import Topics
from shared.process.clock import process_clock
from shared.process.security import kafka_options
from shared.process.settings import Settings
from shared.streams.on_kafka.readable import install
from shared.streams.stages.hooks import Hooks
from shared.streams.stages.unit import EventTimeLimit

_MUCH_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Deployment:
    """One namespace on one Kafka."""

    settings: Settings
    codec: Codec
    limit: EventTimeLimit
    hooks: Hooks = field(default_factory=Hooks)
    clock: GuardedClock = field(default_factory=process_clock)

    @classmethod
    def from_settings(cls, settings: Settings, hooks: Hooks | None = None) -> "Deployment":
        """Return the deployment that the settings describe; its consumers read whatever a topic
        holds."""
        install()
        topics = Topics(kafka_partitions=settings.kafka_partitions or None)
        limit, tolerance_us = EventTimeLimit(), round(settings.clock_tolerance_s * 1e6)
        if not settings.is_emulated:
            limit = replace(EventTimeLimit.from_wall_clock(), command_ahead_us=tolerance_us)
        limit = replace(limit, round_ahead_us=tolerance_us)
        codec = Codec(
            topics, settings.max_message_bytes, is_guarded=settings.kafka_knows_its_clients
        )
        return cls(settings, codec, limit, hooks or Hooks())

    @property
    def topics(self) -> Topics:
        """Return the topics as this deployment has them."""
        return self.codec.topics

    @property
    def connection(self) -> dict[str, Any]:
        """Return keyword arguments that every Kafka client takes."""
        return kafka_options(self.settings)

    @property
    def max_record_bytes(self) -> int:
        """Return the size of the largest record with all that belongs to it."""
        return self.settings.max_message_bytes + ENVELOPE_BYTES

    def fetching(self, relaxed_s: float) -> dict[str, Any]:
        """Return how a consumer fetches: one that may be `relaxed_s` late is answered once there is
        much, since an answer costs the same with one record. Others are answered at once, and keep
        the client's short fetches: a partition that was full waits for the one that runs without
        it."""
        if self.settings.is_emulated or not relaxed_s:
            return {}
        wait_ms = round(relaxed_s * 1_000) // 2
        return {"fetch_min_bytes": _MUCH_BYTES, "fetch_max_wait_ms": wait_ms}

    def name(self, text: str) -> str:
        """Return a topic, group or transactional id as Kafka knows it."""
        return f"{self.settings.namespace}.{text}" if self.settings.namespace else text

    def topic_of(self, name: str) -> str:
        """Return the topic that Kafka knows by this name."""
        return name.removeprefix(self.name(""))

    def record(self, found: Any) -> Record:
        """Return a record of a client of Kafka as one of ours."""
        partition = TopicPartition(self.topic_of(found.topic), found.partition)
        headers = tuple((name, value or b"") for name, value in found.headers)
        value, written_ms = found.value, max(found.timestamp, 0)
        return Record(partition, found.offset, found.key or b"", value, headers, written_ms)
