"""Dead letters, as an operator deals with them."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from coplace.v1.control_pb2 import DeadLetter

from cli.kafka_topics import KafkaTopics
from coplace_client.errors import UnusableError
from shared.catalogue.record import NewRecord, TopicPartition
from shared.catalogue.topics import DLQ_PREFIX
from shared.streams.on_kafka.clients import Publisher
from shared.streams.on_kafka.deployment import Deployment

SEQUENCED: Final = "placement.inputs"


class LetterKind(StrEnum):
    """Why a record is a dead letter."""

    REFUSED = "refused"
    QUARANTINED = "quarantined"


def kind_of(letter: DeadLetter) -> LetterKind:
    """Return the kind of a letter; letters of records that a stage refused name none."""
    return LetterKind(letter.kind) if letter.kind else LetterKind.REFUSED


class CannotReplayError(UnusableError):
    """A dead letter whose record cannot or must not be appended again."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead-letter queues of a deployment."""

    deployment: Deployment

    def of(self, topic: str) -> Iterator[DeadLetter]:
        """Yield the dead letters of one topic; a letter that was written twice comes once."""
        found: dict[str, DeadLetter] = {}
        for event in KafkaTopics(self.deployment).topic(DLQ_PREFIX + topic):
            if isinstance(event.payload, DeadLetter):
                found.setdefault(event.id, event.payload)
        yield from found.values()

    def one(self, topic: str, kafka_partition: int, offset: int) -> DeadLetter:
        """Return the dead letter of a partition and offset. Raises UnusableError where there is
        none."""
        for letter in self.of(topic):
            if (letter.kafka_partition, letter.offset) == (kafka_partition, offset):
                return letter
        partition = f"{topic}/{kafka_partition}/{offset}"
        raise UnusableError(
            f"there is no dead letter of {partition}: `coplace dlq list` prints them"
        )

    def replay(self, letter: DeadLetter) -> None:
        """Append the original record to its topic again.

        Raises CannotReplayError when it was longer than what a dead letter keeps, or when only
        the sequencer may write its topic.
        """
        if letter.topic == SEQUENCED:
            raise CannotReplayError(
                f"only the sequencer writes {SEQUENCED}: find the record in the topic that it came "
                "from by its ce_id, and send it to ingest anew"
            )
        if letter.value_size_bytes != len(letter.value):
            raise CannotReplayError(
                f"{letter.topic}/{letter.kafka_partition}/{letter.offset} had "
                f"{letter.value_size_bytes} bytes, {len(letter.value)} are kept: send it anew"
            )
        partition = TopicPartition(letter.topic, letter.kafka_partition)
        headers = tuple(letter.headers.items())
        with Publisher(self.deployment) as publisher:
            publisher.append([NewRecord(partition, letter.key, letter.value, headers)])
