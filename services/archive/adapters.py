"""The log on Kafka."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.archive.record import ArchivedRecord
from shared.catalogue.record import TopicPartition
from shared.streams.on_kafka.committed_topics import CommittedTopics


class KafkaLog(CommittedTopics):
    """The topics that are archived."""

    async def read(self) -> Mapping[TopicPartition, Sequence[ArchivedRecord]]:
        """Return what has come."""
        found = await self._polled()
        return {each: [self._record(one) for one in records] for each, records in found.items()}

    def _record(self, found: Any) -> ArchivedRecord:
        """A key that is missing is another than an empty one."""
        record = self._deployment.record(found)
        return ArchivedRecord(
            *record.partition,
            record.offset,
            found.timestamp,
            found.key,
            found.value,
            record.headers,
        )
