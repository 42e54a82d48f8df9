"""Whether an archive follows from what Kafka holds."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Protocol

from shared.archive.index import Index
from shared.catalogue.record import TopicPartition
from shared.streams.stages.consistency import Inconsistency, LogFacts, read_model_differences
from shared.streams.stages.provenance import LastRead, Provenance, TopicIdentity

_HOW_TO: Final = "docs/how-to/archive.md, 'A topic was replaced'"


class ArchivedPartition(Protocol):
    """What is archived of a Kafka partition."""

    @property
    def index(self) -> Index:
        """Return the index of its files."""
        ...

    @property
    def position(self) -> int:
        """Return the offset behind the last record."""
        ...

    @property
    def last_read(self) -> LastRead | None:
        """Return what identifies the last record; None where no file holds one."""
        ...


def differences(
    archives: Iterable[ArchivedPartition],
    found: LogFacts,
    compacted: frozenset[str],
    *,
    by_record: bool = True,
) -> list[Inconsistency]:
    """Return what an archive was made from and Kafka does not have; `by_record` compares the last
    record of each Kafka partition too, whose hashes `found` then has."""
    wrong: list[Inconsistency] = []
    for archive in archives:
        index = archive.index
        place = TopicPartition(index.topic, index.kafka_partition)
        identity = TopicIdentity(bytes.fromhex(index.topic_id), 0)
        known = Provenance(topics={index.topic: identity}, positions={place: archive.position})
        if by_record and archive.last_read is not None:
            known = replace(known, last_read={place: archive.last_read})
        advice = (
            f"move the folder {index.topic} of the archive away, which stays readable there; then "
            f"it begins anew ({_HOW_TO})"
        )
        wrong += [
            Inconsistency(one.what, advice)
            for one in read_model_differences(known, found, compacted)
        ]
    return list(dict.fromkeys(wrong))
