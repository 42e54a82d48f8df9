"""More Kafka partitions for a system that has read everything and stands still."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aiokafka import AIOKafkaProducer
from kafka import KafkaAdminClient

from cli.restore.restore import require_stopped
from shared.messaging.admin import admin_client
from shared.messaging.clients import Reader
from shared.messaging.consistency import InconsistentError, LogFacts, UnitPlaces, at_start
from shared.messaging.deployment import Deployment
from shared.messaging.kafka_facts import KafkaFacts
from shared.messaging.provenance import Provenance, split_state
from shared.messaging.record import Place
from shared.messaging.repartition import moved
from shared.messaging.stage import Stage
from shared.messaging.topics import DLQ_PREFIX
from shared.messaging.transactions import Transactions, read_changelog, topic_partition
from shared.messaging.unit import unit_count

# All of a stage's state goes in one transaction; Kafka's default bound is a quarter of an hour.
_TRANSACTION_MS: Final = 900_000


@dataclass(frozen=True, slots=True)
class UnitState:
    """What a unit has and what it was made from; None for one that never worked."""

    state: Mapping[str, bytes]
    provenance: Provenance | None


def repartition(
    deployment: Deployment, kafka_partitions: int, stages: Sequence[Stage]
) -> Iterator[str]:
    """Give keyed topics more Kafka partitions and move the state with the keys; tells each step.

    May be run again wherever it ended. Raises ValueError while a stage runs or has something to
    read, InconsistentError when something does not fit before, and KafkaError.
    """
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
    return Deployment.of(settings)


def _require_more(deployment: Deployment, grown: Deployment) -> None:
    for name in deployment.topics.specs:
        before, after = (each.topics.kafka_partitions(name) for each in (deployment, grown))
        if before > 1 and after <= before:
            raise ValueError(
                f"{name} has {before} Kafka partitions as COPLACE_KAFKA_PARTITIONS says, "
                f"{after} are not more: topics cannot shrink"
            )


def _require_movable(stage: Stage) -> None:
    if not stage.single and stage.keyed_by is None:
        raise ValueError(f"{stage.name} does not tell the keys of its state: see Stage.keyed_by")


def _states(
    deployment: Deployment, grown: Deployment, facts: KafkaFacts, stage: Stage
) -> dict[int, UnitState]:
    """Of the units as they are before; raises InconsistentError for one that does not fit."""
    found = {}
    for number in range(unit_count(stage, deployment.topics)):
        places = UnitPlaces.of(stage, number, deployment.topics)
        restored = asyncio.run(_settled(deployment, stage, places))
        provenance, state = split_state(restored)
        found[number] = UnitState(state, provenance)
        there = facts.of(places, provenance)
        if not _has_moved(UnitPlaces.of(stage, number, grown.topics), provenance):
            before = _as_before(places, there)
            if wrong := at_start(places, provenance, bool(state), before):
                raise InconsistentError(places.name, wrong)
    return found


async def _settled(deployment: Deployment, stage: Stage, places: UnitPlaces) -> Mapping[str, bytes]:
    """The state of a unit, after whoever may still hold its transactional id was fenced."""
    transactions = Transactions(deployment, stage, places.changelog.kafka_partition)
    await transactions.open()
    await transactions.close()
    return await read_changelog(deployment, places.changelog)


def _has_moved(grown: UnitPlaces, provenance: Provenance | None) -> bool:
    """Whether the state is that of the grown topics already."""
    return provenance is not None and all(
        provenance.topics[name].kafka_partitions == count
        for name, count in grown.kafka_partitions.items()
        if name != grown.changelog.topic
    )


def _as_before(places: UnitPlaces, found: LogFacts) -> LogFacts:
    """Facts in which topics that have grown have not."""
    topics = {
        name: replace(topic, kafka_partitions=places.kafka_partitions[name])
        for name, topic in found.topics.items()
    }
    return replace(found, topics=topics)


def _require_read(deployment: Deployment, states: Mapping[str, Mapping[int, UnitState]]) -> None:
    """Raise ValueError while a stage has records to read; ends of transactions are none."""
    for name, units in states.items():
        for unit in units.values():
            positions = unit.provenance.positions if unit.provenance else {}
            if not positions:
                continue
            with Reader(deployment, list(positions)) as reader:
                for place, position in positions.items():
                    reader.seek(place, position)
                if unread := next(iter(reader.to_end()), None):
                    raise ValueError(
                        f"{name} has not read all of {unread.place.topic}: stop ingest alone, "
                        "start the stages, and wait until they have"
                    )


def _grow(deployment: Deployment, grown: Deployment, stages: Sequence[Stage]) -> Iterator[str]:
    with admin_client(deployment) as client:
        for topic, count in _wanted(grown, stages):
            name = deployment.name(topic)
            if _count(client, name) < count:
                client.create_partitions({name: count})
                client.wait_for_topics([name])
                yield f"{topic} has {count} Kafka partitions"


def _wanted(grown: Deployment, stages: Sequence[Stage]) -> Iterable[tuple[str, int]]:
    for name in grown.topics.specs:
        for each in (name, DLQ_PREFIX + name):
            yield each, grown.topics.kafka_partitions(each)
    for stage in stages:
        yield stage.changelog, unit_count(stage, grown.topics)


def _count(client: KafkaAdminClient, name: str) -> int:
    return len(client.describe_topics([name])[0]["partitions"])


async def _move(
    grown: Deployment, facts: KafkaFacts, stage: Stage, units: Mapping[int, UnitState]
) -> str:
    """Write the state of all units where it belongs now, with the positions, in one transaction."""
    if all(unit.provenance is None for unit in units.values()):
        return f"{stage.name} has never worked"
    if _has_moved(UnitPlaces.of(stage, 0, grown.topics), units[0].provenance):
        return f"{stage.name} was moved before"
    changes, positions = await _planned(grown, facts, stage, units)
    commits = str(_commits(units))
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
        offsets = {topic_partition(grown, place): (at, commits) for place, at in positions.items()}
        await producer.send_offsets_to_transaction(offsets, grown.name(stage.name))
    return f"{stage.name} has {len(sent)} records of its state in {len(changes)} units"


async def _planned(
    grown: Deployment, facts: KafkaFacts, stage: Stage, units: Mapping[int, UnitState]
) -> tuple[dict[int, dict[str, bytes | None]], dict[Place, int]]:
    """What goes into each unit's changelog, provenance included, and the group's positions."""
    count = unit_count(stage, grown.topics)
    changes: dict[int, dict[str, bytes | None]] = {number: {} for number in range(count)}
    if stage.keyed_by is not None and not stage.single:
        changes = moved({n: unit.state for n, unit in units.items()}, stage.keyed_by, count)
    positions: dict[Place, int] = {}
    for number in range(count):
        places = UnitPlaces.of(stage, number, grown.topics)
        found = await asyncio.to_thread(facts.of, places, None)
        known = units[number].provenance if number in units else None
        before = known or Provenance()
        after = replace(
            before,
            commits=_commits(units),
            topics={name: found.topics[name] for name in places.kafka_partitions},
            positions={p: before.positions.get(p, found.begins[p]) for p in places.inputs},
        )
        changes[number] |= after.change()
        positions |= after.positions
    return changes, positions


def _commits(units: Mapping[int, UnitState]) -> int:
    return 1 + max(unit.provenance.commits for unit in units.values() if unit.provenance)
