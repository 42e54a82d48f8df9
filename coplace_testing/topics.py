"""Topics of a log in memory, read from their beginning or on."""

from collections.abc import Iterator, Sequence
from typing import Final

from shared.catalogue.codec import Codec
from shared.catalogue.event import Event
from shared.catalogue.record import Record, TopicPartition
from shared.streams.in_memory.log import InMemoryLog

_WHOLE: Final = 1 << 60


def events_of(log: InMemoryLog, codec: Codec, topic: str) -> Iterator[Event]:
    """Return all events of a topic, ends of rounds among them; raise as `TopicReader.read`."""
    return TopicReader(log, codec, [topic]).read()


class TopicReader:
    """Reads topics on from where it stopped, one Kafka partition after the other."""

    def __init__(self, log: InMemoryLog, codec: Codec, topics: Sequence[str]) -> None:
        self.codec = codec
        self._log, self._topics = log, topics
        self._next: dict[TopicPartition, int] = {}

    def read(self) -> Iterator[Event]:
        """Return the events since the last call; raise RejectedError for a record of no event."""
        return (self.codec.decode(record, of_any_count=True) for record in self.records())

    def records(self) -> Iterator[Record]:
        """Return the records since the last call."""
        for topic in self._topics:
            for partition in self.codec.topics.partitions(topic):
                for record in self._log.read(partition, self._next.get(partition, 0), _WHOLE):
                    self._next[partition] = record.offset + 1
                    yield record

    def rewind(self, partition: TopicPartition, by: int) -> None:
        """Read the last records of a partition again at the next call."""
        self._next[partition] = max(0, self._next.get(partition, 0) - by)
