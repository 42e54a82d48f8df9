"""More Kafka partitions for a system that has read everything and does not run."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from aiokafka import AIOKafkaProducer
from kafka import KafkaAdminClient

from cli.restore.restore import require_stopped
from shared.catalogue.topics import DLQ_PREFIX
from shared.streams.on_kafka.admin import admin_client
from shared.streams.on_kafka.clients import Reader
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.on_kafka.transactions import Transactions, read_changelog, topic_partition
from shared.streams.restoring.repartition import (
    UnitState,
    as_before,
    commits_of,
    has_moved,
    planned,
)
from shared.streams.stages.consistency import InconsistentError, UnitPartitions, check_at_start
from shared.streams.stages.provenance import split_state
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import unit_count

# All of a stage's state goes in one transaction; Kafka's default bound is a quarter of an hour.
_TRANSACTION_MS: Final = 900_000
_SHOWN_WITHIN_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.1


def repartition(
    deployment: Deployment, kafka_partitions: int, stages: Sequence[Stage]
) -> Iterator[str]:
    """Give keyed topics more Kafka partitions and move the state with the keys; reports each
    step."""
    grown = _with(deployment, kafka_partitions)
    _require_more(deployment, grown)
    for stage in stages:
        _require_movable(stage)
        require_stopped(deployment, stage)
    facts = KafkaFacts(deployment)
    try:
        states = {stage.name: _states(deployment, grown, facts, stage) for stage in stages}
        _require_read(deployment, states)
        yield from _grow(deployment, grown, stages)
        for stage in stages:
            yield asyncio.run(_move(grown, facts, stage, states[stage.name]))
    finally:
        facts.close()


def _with(deployment: Deployment, kafka_partitions: int) -> Deployment:
    settings = deployment.settings.model_copy(update={"kafka_partitions": kafka_partitions})
    return Deployment.from_settings(settings)


def _require_more(deployment: Deployment, grown: Deployment) -> None:
    for name in deployment.topics.specs:
        before, after = (each.topics.kafka_partitions(name) for each in (deployment, grown))
        if before > 1 and after <= before:
            raise ValueError(
                f"{name} has {before} Kafka partitions now, as COPLACE_KAFKA_PARTITIONS says, "
                f"{after} are not more: topics cannot shrink"
            )


def _require_movable(stage: Stage) -> None:
    if not stage.single and stage.keyed_by is None:
        raise ValueError(f"{stage.name} has no keys of its state: see Stage.keyed_by")


def _states(
    deployment: Deployment, grown: Deployment, facts: KafkaFacts, stage: Stage
) -> dict[int, UnitState]:
    """Of the units as they are before; raises InconsistentError for one that does not fit."""
    found = {}
    for number in range(unit_count(stage, deployment.topics)):
        partitions = UnitPartitions.from_stage(stage, number, deployment.topics)
        restored = asyncio.run(_settled(deployment, stage, partitions))
        provenance, state = split_state(restored)
        found[number] = UnitState(state, provenance)
        there = facts.of(partitions, provenance)
        if not has_moved(UnitPartitions.from_stage(stage, number, grown.topics), provenance):
            before = as_before(partitions, there)
            if wrong := check_at_start(partitions, provenance, bool(state), before):
                raise InconsistentError(partitions.name, wrong)
    return found


async def _settled(
    deployment: Deployment, stage: Stage, partitions: UnitPartitions
) -> Mapping[str, bytes]:
    """The state of a unit, after whoever may still hold its transactional id was fenced."""
    transactions = Transactions(deployment, stage, partitions.changelog.kafka_partition)
    await transactions.open()
    await transactions.close()
    return await read_changelog(deployment, partitions.changelog)


def _require_read(deployment: Deployment, states: Mapping[str, Mapping[int, UnitState]]) -> None:
    """Raise ValueError while a stage has records to read; ends of transactions are none."""
    for name, units in states.items():
        for unit in units.values():
            positions = unit.provenance.positions if unit.provenance else {}
            if not positions:
                continue
            with Reader(deployment, list(positions)) as reader:
                for partition, position in positions.items():
                    reader.seek(partition, position)
                if unread := next(iter(reader.to_end()), None):
                    raise ValueError(
                        f"{name} has not read all of {unread.partition.topic}: stop ingest alone, "
                        "start the stages, and wait until they have"
                    )


def _grow(deployment: Deployment, grown: Deployment, stages: Sequence[Stage]) -> Iterator[str]:
    with admin_client(deployment) as client:
        for topic, count in _wanted(grown, stages):
            name = deployment.name(topic)
            if _count(client, name) < count:
                client.create_partitions({name: count})
                _await_count(client, name, count)
                yield f"{topic} has {count} Kafka partitions"


def _wanted(grown: Deployment, stages: Sequence[Stage]) -> Iterable[tuple[str, int]]:
    for name in grown.topics.specs:
        for each in (name, DLQ_PREFIX + name):
            yield each, grown.topics.kafka_partitions(each)
    for stage in stages:
        yield stage.changelog, unit_count(stage, grown.topics)


def _await_count(client: KafkaAdminClient, name: str, count: int) -> None:
    """Return when Kafka shows so many partitions, which it takes a moment for. Raises
    TimeoutError."""
    deadline_s = time.monotonic() + _SHOWN_WITHIN_S
    while _count(client, name) < count:
        if time.monotonic() > deadline_s:
            raise TimeoutError(
                f"Kafka does not show {count} partitions of {name} after {_SHOWN_WITHIN_S:g} s: "
                "repeat the command"
            )
        time.sleep(_LOOK_EVERY_S)
    client.wait_for_topics([name])


def _count(client: KafkaAdminClient, name: str) -> int:
    return len(client.describe_topics([name])[0]["partitions"])


async def _move(
    grown: Deployment, facts: KafkaFacts, stage: Stage, units: Mapping[int, UnitState]
) -> str:
    """Write the state of all units where it belongs now, with the positions, in one transaction."""
    if all(unit.provenance is None for unit in units.values()):
        return f"{stage.name} has never worked"
    if has_moved(UnitPartitions.from_stage(stage, 0, grown.topics), units[0].provenance):
        return f"{stage.name} was moved before"
    count = unit_count(stage, grown.topics)
    partitions = {
        number: UnitPartitions.from_stage(stage, number, grown.topics) for number in range(count)
    }
    found = {n: await asyncio.to_thread(facts.of, partitions[n], None) for n in partitions}
    changes, positions = planned(stage, units, partitions, found)
    commits = str(commits_of(units))
    producer = AIOKafkaProducer(
        **grown.connection,
        transactional_id=grown.name(f"{stage.name}.repartition"),
        transaction_timeout_ms=_TRANSACTION_MS,
        max_request_size=grown.max_record_bytes,
    )
    async with producer, producer.transaction():
        sent = [
            await producer.send(grown.name(stage.changelog), value, key.encode(), partition=number)
            for number, records in changes.items()
            for key, value in records.items()
        ]
        await asyncio.gather(*sent)
        offsets = {
            topic_partition(grown, partition): (at, commits) for partition, at in positions.items()
        }
        await producer.send_offsets_to_transaction(offsets, grown.name(stage.name))
    return f"{stage.name} has {len(sent)} records of its state in {len(changes)} units"
