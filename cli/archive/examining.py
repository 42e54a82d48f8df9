"""Whether the archive fits Kafka, and its place can be opened at all."""

from collections.abc import Iterator
from dataclasses import dataclass

from shared.archive.consistency import differences
from shared.archive.errors import ArchiveError
from shared.archive.index import Index
from shared.archive.reading import require_index
from shared.archive.storage import open_storage
from shared.archive.verifying import archived_partitions
from shared.catalogue.record import TopicPartition
from shared.catalogue.topics import Cleanup
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.stages.consistency import Inconsistency
from shared.streams.stages.provenance import LastRead


@dataclass(frozen=True, slots=True)
class _Listed:
    """A Kafka partition as its index says; `coplace archive verify` reads its files."""

    index: Index
    last_read: LastRead | None = None

    @property
    def position(self) -> int:
        return self.index.complete_to


def examine_archive(deployment: Deployment, where: str) -> list[Inconsistency]:
    """Return what does not fit. Raises KafkaError."""
    try:
        storage = open_storage(where)
        if not list(storage.names()):
            return []
        listed = [_Listed(require_index(storage, *each)) for each in archived_partitions(storage)]
    except ArchiveError as error:
        return [Inconsistency(str(error), "see docs/how-to/archive.md, 'A file is damaged'")]
    spec = deployment.topics.spec
    topics = {each.index.topic for each in listed}
    compacted = frozenset(name for name in topics if spec(name).cleanup is Cleanup.COMPACT)
    places = [TopicPartition(each.index.topic, each.index.kafka_partition) for each in listed]
    facts = KafkaFacts(deployment)
    try:
        found = facts.of_partitions(topics, {}, places)
    finally:
        facts.close()
    return differences(listed, found, compacted, by_record=False)


def archive_problems(where: str) -> Iterator[str]:
    """Yield, in words, what keeps the archive from opening its place."""
    try:
        list(open_storage(where).names())
    except (ArchiveError, OSError) as error:
        yield f"{where} cannot be opened (COPLACE_ARCHIVE_WHERE): {error}"
