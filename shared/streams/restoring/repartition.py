"""More Kafka partitions for a keyed stage: its state moves with its keys. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from coplace.v1.control_pb2 import RoundEnded

from shared.catalogue.record import TopicPartition
from shared.catalogue.topics import ROUND_ENDED, partition_of
from shared.streams.stages import early
from shared.streams.stages.consistency import LogFacts, UnitPartitions
from shared.streams.stages.provenance import Provenance
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit_state import OWN_KEYS

StateBytes = Mapping[str, bytes]
KeyedBy = Callable[[str, bytes], str]


def moved(
    states: Mapping[int, StateBytes], keyed_by: KeyedBy, kafka_partitions: int
) -> dict[int, dict[str, bytes | None]]:
    """Return what to write to each unit's changelog: the rows that it gets, and the end of those
    that it loses.

    Every unit goes on with the latest round of all of them: none may close a round a second time.
    """
    changes: dict[int, dict[str, bytes | None]] = {n: {} for n in range(kafka_partitions)}
    for number, state in states.items():
        for key, value in state.items():
            if key in OWN_KEYS:
                changes[number][key] = None
                continue
            about = early.job_of(value) if key.startswith(early.PREFIX) else keyed_by(key, value)
            goes_to = partition_of(about.encode(), kafka_partitions)
            if goes_to != number:
                changes[number][key] = None
                changes[goes_to][key] = value
    if (latest := _latest_round(states)) is not None:
        for each in changes.values():
            each[ROUND_ENDED] = latest
    return changes


def _latest_round(states: Mapping[int, StateBytes]) -> bytes | None:
    barriers = [state[ROUND_ENDED] for state in states.values() if ROUND_ENDED in state]
    return max(barriers, key=lambda barrier: RoundEnded.FromString(barrier).round, default=None)


@dataclass(frozen=True, slots=True)
class UnitState:
    """What a unit has and what it was made from; None for one that never worked."""

    state: Mapping[str, bytes]
    provenance: Provenance | None


def has_moved(grown: UnitPartitions, provenance: Provenance | None) -> bool:
    """Return whether the state is that of the grown topics already."""
    return provenance is not None and all(
        provenance.topics[name].kafka_partitions == count
        for name, count in grown.kafka_partitions.items()
        if name != grown.changelog.topic
    )


def as_before(partitions: UnitPartitions, found: LogFacts) -> LogFacts:
    """Return facts in which topics that have grown have not."""
    topics = {
        name: replace(topic, kafka_partitions=partitions.kafka_partitions[name])
        for name, topic in found.topics.items()
    }
    return replace(found, topics=topics)


def planned(
    stage: Stage,
    units: Mapping[int, UnitState],
    partitions: Mapping[int, UnitPartitions],
    found: Mapping[int, LogFacts],
) -> tuple[dict[int, dict[str, bytes | None]], dict[TopicPartition, int]]:
    """Return what to write to each unit's changelog, provenance included, and the group's
    positions: of the `units` as they were, at the `partitions` of as many as there will be."""
    changes: dict[int, dict[str, bytes | None]] = {number: {} for number in partitions}
    if stage.keyed_by is not None and not stage.single:
        changes = moved(
            {n: unit.state for n, unit in units.items()}, stage.keyed_by, len(partitions)
        )
    positions: dict[TopicPartition, int] = {}
    for number, at in partitions.items():
        known = units[number].provenance if number in units else None
        before = known or Provenance()
        begins = found[number].begins
        after = replace(
            before,
            commits=commits_of(units),
            topics={name: found[number].topics[name] for name in at.kafka_partitions},
            positions={p: before.positions.get(p, begins.get(p, 0)) for p in at.inputs},
        )
        changes[number] |= after.change()
        positions |= after.positions
    return changes, positions


def commits_of(units: Mapping[int, UnitState]) -> int:
    """Return the number of the commit that moves some units."""
    return 1 + max(unit.provenance.commits for unit in units.values() if unit.provenance)
