"""What the commands of `coplace restore` and `coplace clock` do on Kafka, on the log in memory: the
same decisions, other I/O."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from shared.catalogue.codec import Codec
from shared.catalogue.event import Event
from shared.catalogue.record import NewRecord, TopicPartition
from shared.catalogue.topics import DLQ_PREFIX, Topics
from shared.streams.in_memory.facts import facts_in_memory
from shared.streams.in_memory.transactions import MemoryTransactions, restore
from shared.streams.restoring.repartition import (
    UnitState,
    as_before,
    commits_of,
    has_moved,
    planned,
)
from shared.streams.restoring.unit_repair import (
    RepairedState,
    UnitAtRest,
    followers_of,
    outputs_of,
    repaired_clock_state,
)
from shared.streams.stages.consistency import (
    InconsistentError,
    UnitPartitions,
    check_at_start,
    open_unit,
)
from shared.streams.stages.hooks import Hooks
from shared.streams.stages.provenance import split_state
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import unit_count
from tests.support.operated_log import OperatedLog

_WHOLE = 1 << 60


def mend(
    log: OperatedLog,
    codec: Codec,
    stages: Sequence[Stage],
    stage: Stage,
    how: Callable[[UnitAtRest], RepairedState],
) -> None:
    """`coplace restore accept` or `replay` of one of a region's stages. Raises
    InconsistentError."""
    for number in range(unit_count(stage, codec.topics)):
        transactions = MemoryTransactions(log, stage, number, Hooks().step)
        mended = how(_at_rest(log, codec, stages, stage, number))
        transactions.provenance = mended.provenance
        transactions.commit(mended.commit)


def _at_rest(
    log: OperatedLog, codec: Codec, stages: Sequence[Stage], stage: Stage, number: int
) -> UnitAtRest:
    partitions = UnitPartitions.from_stage(stage, number, codec.topics)
    restored = restore(log, partitions.changelog)
    found = facts_in_memory(log, partitions, split_state(restored)[0])
    followers = (
        _at_rest(log, codec, stages, follower, unit)
        for follower in followers_of(stage, stages)
        for unit in range(unit_count(follower, codec.topics))
    )
    outputs = partial(_outputs, log, codec, stage, number)
    return UnitAtRest(stage, partitions, restored, found, outputs, tuple(followers))


def _outputs(log: OperatedLog, codec: Codec, stage: Stage, number: int) -> Iterator[Event]:
    partitions = (
        partition for topic in stage.outputs for partition in codec.topics.partitions(topic)
    )
    records = (record for partition in partitions for record in log.read(partition, 0, _WHOLE))
    return outputs_of(stage, number, codec, records)


def mend_clock(
    log: OperatedLog,
    topics: Topics,
    stage: Stage,
    is_ahead: Callable[[Mapping[str, bytes]], bool],
    now_us: int,
) -> None:
    """`coplace clock mend`. Raises InconsistentError."""
    for number in range(unit_count(stage, topics)):
        partitions = UnitPartitions.from_stage(stage, number, topics)
        if not is_ahead(restore(log, partitions.changelog)):
            continue
        transactions = MemoryTransactions(log, stage, number, Hooks().step)
        provenance, state = split_state(restore(log, partitions.changelog))
        found = facts_in_memory(log, partitions, provenance)
        _, transactions.provenance = open_unit(partitions, provenance, bool(state), found)
        transactions.commit(repaired_clock_state(stage, state, now_us))


def repartition(log: OperatedLog, before: Topics, grown: Topics, stages: Sequence[Stage]) -> None:
    """`coplace restore repartition`. Raises InconsistentError, and ValueError while a stage has
    something to read."""
    units = {stage.name: _states(log, before, grown, stage) for stage in stages}
    for name in grown.specs:
        for topic in (name, DLQ_PREFIX + name):
            log.grow(topic, grown.kafka_partitions(topic))
    for stage in stages:
        log.grow(stage.changelog, unit_count(stage, grown))
        if any(unit.provenance for unit in units[stage.name].values()):
            _move(log, grown, stage, units[stage.name])


def _states(log: OperatedLog, before: Topics, grown: Topics, stage: Stage) -> dict[int, UnitState]:
    found = {}
    for number in range(unit_count(stage, before)):
        partitions = UnitPartitions.from_stage(stage, number, before)
        log.open_producer(f"{stage.name}.{number}")
        provenance, state = split_state(restore(log, partitions.changelog))
        there = facts_in_memory(log, partitions, provenance)
        if not has_moved(UnitPartitions.from_stage(stage, number, grown), provenance):
            wrong = check_at_start(
                partitions, provenance, bool(state), as_before(partitions, there)
            )
            if wrong:
                raise InconsistentError(partitions.name, wrong)
        for partition, position in provenance.positions.items() if provenance else ():
            if log.read(partition, position, 1):
                raise ValueError(f"{stage.name} has not read all of {partition.topic}")
        found[number] = UnitState(state, provenance)
    return found


def _move(log: OperatedLog, grown: Topics, stage: Stage, units: Mapping[int, UnitState]) -> None:
    partitions = {
        n: UnitPartitions.from_stage(stage, n, grown) for n in range(unit_count(stage, grown))
    }
    found = {number: facts_in_memory(log, at, None) for number, at in partitions.items()}
    changes, positions = planned(stage, units, partitions, found)
    producer = log.open_producer(f"{stage.name}.repartition")
    log.begin(producer)
    for number, records in changes.items():
        changelog = TopicPartition(stage.changelog, number)
        log.send(producer, [NewRecord(changelog, k.encode(), v) for k, v in records.items()])
    log.send_positions(producer, stage.name, positions, commits_of(units))
    log.end(producer)
