"""Topics on Kafka as those read them that apply them to a database."""

from collections.abc import Mapping

from shared.catalogue.record import TopicPartition
from shared.streams.following import ReadBatch
from shared.streams.on_kafka.committed_topics import CommittedTopics


class FollowedTopics(CommittedTopics):
    """The topics of one deployment, whose records are applied within a second."""

    POLL_MS = 200
    FETCH_WAIT_MS = 100

    async def read(self) -> Mapping[TopicPartition, ReadBatch]:
        """Return what has come; wait a moment where nothing has."""
        found = await self._polled()
        return {
            each: ReadBatch(
                [self._deployment.record(one) for one in records], records[-1].offset + 1
            )
            for each, records in found.items()
            if records
        }
