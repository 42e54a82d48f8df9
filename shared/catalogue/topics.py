"""The topics: read from `proto/topics/*.yaml`, and those derived from topics and stages."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from string import Formatter
from typing import Any

import yaml
from aiokafka.partitioner import murmur2
from google.protobuf.message import Message

from coplace_client.errors import UnusableError
from shared.catalogue.options import ranks
from shared.catalogue.record import TopicPartition

_HERE = Path(__file__).parent
# Beside this file where Coplace is installed, in the folder of the schemas in a checkout of it.
_INSTALLED = _HERE / "proto"
TOPIC_FILES = (_INSTALLED if _INSTALLED.is_dir() else _HERE.parents[1] / "proto") / "topics"
DAY_S = 86_400
DLQ_PREFIX = "dlq."
ROUND_ENDED = "coplace.v1.RoundEnded"


class Cleanup(StrEnum):
    """What Kafka does with old records."""

    DELETE = "delete"
    COMPACT = "compact"


class Origin(StrEnum):
    """Who can write a topic."""

    STAGES = "stages"
    """Our own stages alone: what they write is right, where Kafka keeps others out."""
    OUTSIDE = "outside"
    """Mirrors, adapters and clients too: who reads it checks it."""


@dataclass(frozen=True, slots=True)
class KeyTemplate:
    """How a message's key is made of its fields: `{app_id}|{node_model}`, or a constant."""

    text: str
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "KeyTemplate":
        """Parse the template, written as a format string."""
        return cls(text, tuple(name for _, name, _, _ in Formatter().parse(text) if name))

    def fill(self, payload: Message) -> str:
        """Return the key of one message."""
        return self.text.format(**{name: getattr(payload, name) for name in self.fields})


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic. `messages` maps each protobuf message to its key; a topic without any holds JSON.

    `consumers` are, as the topic's file says, those that are no stages; `read_by` adds the stages.
    `retention_s` None keeps records for ever; `example` is the golden record (`headers`, `key`,
    `value`) that every later version must still decode.
    """

    name: str
    description: str
    messages: Mapping[str, KeyTemplate]
    kafka_partitions: int
    cleanup: Cleanup
    retention_s: int | None
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    example: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = Origin.STAGES

    def key_of(self, payload: Message) -> str:
        """Return the key under which this topic holds a message.

        Raises ValueError when the topic does not list the message.
        """
        template = self.messages.get(payload.DESCRIPTOR.full_name)
        if template is None:
            raise ValueError(
                f"{self.name} does not hold {payload.DESCRIPTOR.full_name}: "
                f"add it to proto/topics/{self.name}.yaml"
            )
        return template.fill(payload)


def read_by(
    topics: Mapping[str, TopicSpec], inputs: Mapping[str, Iterable[str]]
) -> Mapping[str, TopicSpec]:
    """Return the topics with the stages that read them, given the inputs of each stage."""
    return {
        name: replace(
            spec, consumers=(*(s for s, of in inputs.items() if name in of), *spec.consumers)
        )
        for name, spec in topics.items()
    }


# Every process reads all of them: libyaml takes an eighth of the time, where PyYAML has it.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def load_topics(folder: Path = TOPIC_FILES) -> Mapping[str, TopicSpec]:
    """Read every topic by name, once a process."""
    documents = (yaml.load(path.read_text(), _Loader) for path in sorted(folder.glob("*.yaml")))
    return {spec.name: spec for spec in map(_parse, documents)}


def _parse(document: Mapping[str, Any]) -> TopicSpec:
    messages = {name: KeyTemplate.parse(key) for name, key in _messages(document["messages"])}
    days = document["retention_days"]
    return TopicSpec(
        name=document["topic"],
        description=document["description"],
        messages=messages,
        kafka_partitions=document["kafka_partitions"],
        cleanup=Cleanup(document["cleanup"]),
        retention_s=None if days == "forever" else days * DAY_S,
        producers=tuple(document["producers"]),
        consumers=tuple(document["readers"]),
        example=document["example"],
        origin=Origin(document["origin"]),
    )


def _messages(declared: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Messages with their keys; `ranked` means all that placement is informed of."""
    for name, key in declared.items():
        if name == "ranked":
            yield from dict.fromkeys(ranks(), key).items()
        else:
            yield name, key


@lru_cache(maxsize=1 << 16)
def partition_of(key: bytes, kafka_partitions: int) -> int:
    """Return Kafka's default partition of a key (murmur2), the same in both backends."""
    return int((murmur2(key) & 0x7FFFFFFF) % kafka_partitions)


class Topics:
    """The topics as one deployment has them: `kafka_partitions` replaces the count of every topic
    that is not declared to have exactly 1."""

    def __init__(
        self, specs: Mapping[str, TopicSpec] | None = None, kafka_partitions: int | None = None
    ) -> None:
        self.specs = dict(load_topics() if specs is None else specs)
        self._kafka_partitions = kafka_partitions

    def spec(self, topic: str) -> TopicSpec:
        """Return what is declared of a topic; dead-letter queues are derived. Raises
        UnusableError."""
        if topic.startswith(DLQ_PREFIX):
            return dead_letter_spec(self.spec(topic.removeprefix(DLQ_PREFIX)))
        if topic not in self.specs:
            raise UnusableError(
                f"unknown topic {topic}: `coplace topics list` prints those there are; a new one "
                f"needs proto/topics/{topic}.yaml"
            )
        return self.specs[topic]

    def kafka_partitions(self, topic: str) -> int:
        """Return how many Kafka partitions a topic has here."""
        declared = self.spec(topic).kafka_partitions
        return declared if declared == 1 else self._kafka_partitions or declared

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return every partition of a topic."""
        return tuple(
            TopicPartition(topic, number) for number in range(self.kafka_partitions(topic))
        )

    def partition_of(self, topic: str, key: str) -> TopicPartition:
        """Return the partition where a topic keeps a key."""
        return TopicPartition(topic, partition_of(key.encode(), self.kafka_partitions(topic)))


_DEAD_LETTERS = {"coplace.v1.DeadLetter": KeyTemplate.parse("{topic}/{kafka_partition}/{offset}")}


def dead_letter_spec(source: TopicSpec) -> TopicSpec:
    """Return the dead-letter queue of a topic: kept for ever, until an operator deals with it."""
    return TopicSpec(
        name=DLQ_PREFIX + source.name,
        description=f"Records of {source.name} that could not be used, with the reason.",
        messages=_DEAD_LETTERS,
        kafka_partitions=source.kafka_partitions,
        cleanup=Cleanup.DELETE,
        retention_s=None,
        producers=source.consumers,
        consumers=("console",),
    )
