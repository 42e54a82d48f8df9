"""Topics on Kafka as those read them that apply them to a database."""

from collections.abc import Mapping

from aiokafka import AIOKafkaConsumer

from shared.catalogue.record import TopicPartition
from shared.streams.following import ReadBatch
from shared.streams.on_kafka.committed_topics import CommittedTopics
from shared.streams.on_kafka.deployment import Deployment


class FollowedTopics(CommittedTopics):
    """The topics of one deployment, whose records are applied within a second."""

    def __init__(self, deployment: Deployment, consumer: AIOKafkaConsumer) -> None:
        super().__init__(deployment, consumer)
        self._positions: dict[TopicPartition, int] = {}

    async def read(self) -> Mapping[TopicPartition, ReadBatch]:
        """Return what has come; wait a moment where nothing has."""
        found = await self._polled()
        batches = {}
        for named in self._consumer.assignment():
            place = TopicPartition(self._deployment.topic_of(named.topic), named.partition)
            records = [self._deployment.record(one) for one in found.get(place, ())]
            # Behind ends of transactions too: Kafka may begin there once all records are removed.
            position = await self.position(place)
            if position != self._positions.get(place):
                batches[place] = ReadBatch(records, position)
                self._positions[place] = position
        return batches

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, each from a position on."""
        await super().assign(positions)
        self._positions = dict(positions)
