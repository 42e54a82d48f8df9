"""What the log in memory says of a unit's topics and partitions."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from shared.catalogue.record import TopicPartition
from shared.streams.in_memory.log import InMemoryLog
from shared.streams.stages.consistency import LogFacts, UnitPartitions
from shared.streams.stages.provenance import Provenance, content_sha256

_WHOLE: Final = 1 << 60


def facts_in_memory(
    log: InMemoryLog, unit: UnitPartitions, provenance: Provenance | None
) -> LogFacts:
    """Return all that `shared.streams.stages.consistency` compares."""
    known = provenance or Provenance()
    committed = {partition: log.committed(unit.stage, partition) for partition in unit.inputs}
    partitions = {*unit.inputs, *known.written_to}
    positions = {partition: at for partition, at in committed.items() if at is not None}
    return replace(
        facts_of_partitions(log, unit.kafka_partitions, known, partitions),
        committed=positions,
        told=None if provenance or positions else _told(log, unit),
        commits=_latest(log.commits(unit.stage, partition) for partition in unit.inputs),
    )


def facts_of_partitions(
    log: InMemoryLog,
    declared: Mapping[str, int],
    known: Provenance,
    partitions: Iterable[TopicPartition],
) -> LogFacts:
    """Return what a read model compares, which has no group. `declared` are counts of Kafka
    partitions by topic."""
    there = {*partitions}
    return LogFacts(
        topics={name: log.identity(name, count) for name, count in declared.items()},
        begins={partition: log.begin_offset(partition) for partition in there},
        ends={partition: log.end_offset(partition) for partition in there},
        sha256={
            partition: _sha256(log, partition, last.offset)
            for partition, last in known.last_read.items()
        },
    )


def _told(log: InMemoryLog, unit: UnitPartitions) -> TopicPartition | None:
    there = (p for p in log.partitions() if p in unit.outputs)
    return next((p for p in there if any(map(unit.wrote, log.read(p, 0, _WHOLE)))), None)


def _sha256(log: InMemoryLog, partition: TopicPartition, offset: int) -> bytes | None:
    found = log.read(partition, offset, 1)
    return content_sha256(found[0]) if found and found[0].offset == offset else None


def _latest(commits: Iterable[int | None]) -> int | None:
    return max((number for number in commits if number is not None), default=None)
