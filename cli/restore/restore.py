"""What operators do after data were replaced: each step ends with what `coplace doctor` finds
right."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from redis.asyncio import Redis

from cli.dlq.dead_letters import DeadLetters
from cli.locations import ARCHIVE, HISTORY
from cli.stages import every_stage
from services.energy.appdb_cache.adapters import RedisAppDB
from services.energy.appdb_cache.app import NAME as APPDB_CACHE
from services.pricing.accounts.adapters import RedisAccounts
from services.pricing.accounts.app import NAME as ACCOUNTS
from shared.catalogue.event import Event
from shared.catalogue.record import TopicPartition
from shared.process.redis_client import redis_client
from shared.streams.on_kafka.admin import admin_client, when_coordinated
from shared.streams.on_kafka.clients import Reader
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.doctor import examine_stages
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.on_kafka.transactions import Transactions, read_changelog
from shared.streams.read_models.check import ReadModelCheck
from shared.streams.read_models.read_model import Name, ReadModel
from shared.streams.restoring import unit_repair
from shared.streams.restoring.unit_repair import (
    RepairedState,
    UnitAtRest,
    followers_of,
    misplaced_records,
    outputs_of,
)
from shared.streams.stages.consistency import Inconsistency, UnitPartitions
from shared.streams.stages.provenance import split_state
from shared.streams.stages.quarantine import identify
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import unit_count

READ_MODELS: Final[Mapping[str, Callable[[Redis, Name], ReadModel[Any]]]] = {
    ACCOUNTS: RedisAccounts,
    APPDB_CACHE: RedisAppDB,
}
# What has a command of its own to build it anew.
_REBUILT: Final = ("archive", "history")
_IDLE: Final = ("Empty", "Dead")


def examine(deployment: Deployment) -> dict[str, list[Inconsistency]]:
    """Return what does not fit, by unit and read model; and of archive and history, where the
    environment says that there is one. Raises KafkaError and RedisError."""
    stages = examine_stages(deployment, every_stage(deployment.settings))
    found = {**stages, **asyncio.run(_examine_read_models(deployment))}
    if where := os.environ.get(ARCHIVE):
        from cli.archive.examining import examine_archive

        found["archive"] = examine_archive(deployment, where)
    if os.environ.get(HISTORY):
        from cli.history.examining import examine_history
        from services.history.settings import DatabaseSettings

        found["history"] = asyncio.run(examine_history(deployment, DatabaseSettings()))
    return found


async def _examine_read_models(deployment: Deployment) -> dict[str, list[Inconsistency]]:
    found = {}
    for name in READ_MODELS:
        async with _read_model(deployment, name) as (_, check):
            found[name] = await check.differences()
    return found


@asynccontextmanager
async def _read_model(
    deployment: Deployment, name: str
) -> AsyncIterator[tuple[ReadModel[Any], ReadModelCheck]]:
    if name in _REBUILT:
        raise ValueError(
            f"{name} is no read model in Redis: `coplace {name} rebuild` builds it anew"
        )
    if name not in READ_MODELS:
        raise ValueError(f"{name} is not a read model: give one of {', '.join(READ_MODELS)}")
    async with redis_client(deployment.settings) as redis:
        model = READ_MODELS[name](redis, deployment.name)
        check = ReadModelCheck(deployment, name, model)
        try:
            yield model, check
        finally:
            check.close()


def rebuild(deployment: Deployment, name: str) -> None:
    """Forget a read model: it is made anew from Kafka. Raises ValueError for an unknown name."""
    asyncio.run(_rebuild(deployment, name))


async def _rebuild(deployment: Deployment, name: str) -> None:
    async with _read_model(deployment, name) as (model, check):
        await model.clear(check.partitions)


def stage_named(deployment: Deployment, name: str) -> Stage:
    """Return a stage by its name. Raises ValueError when there is none, or when it runs."""
    stages = {stage.name: stage for stage in every_stage(deployment.settings)}
    if name not in stages:
        raise ValueError(f"{name} is not a stage: give one of {', '.join(stages)}")
    require_stopped(deployment, stages[name])
    return stages[name]


def require_stopped(deployment: Deployment, stage: Stage) -> None:
    """Raise ValueError while a worker of the stage is in its consumer group."""
    group = deployment.name(stage.name)
    with admin_client(deployment) as client:
        described = when_coordinated(lambda: client.describe_groups([group]))
    state = described[group]["group_state"]
    if state not in _IDLE:
        raise ValueError(
            f"{stage.name} runs (its group is {state}): stop its processes, and wait "
            f"COPLACE_SESSION_TIMEOUT_S ({deployment.settings.session_timeout_s:.0f} s)"
        )


def require_readable_again(deployment: Deployment, stage: Stage) -> None:
    """Raise ValueError where inputs lie as another count of Kafka partitions put them: these were
    read there, and would become dead letters now. What did so then is no matter."""
    letters = DeadLetters(deployment)
    refused = {
        (TopicPartition(letter.topic, letter.kafka_partition), letter.offset)
        for topic in stage.inputs
        for letter in letters.of(topic)
        if letter.stage == stage.name
    }
    partitions = [p for topic in stage.inputs for p in deployment.topics.partitions(topic)]
    with Reader(deployment, partitions) as reader:
        found = misplaced_records(deployment.codec, reader.to_end())
        last = {each.partition: each.offset for each in found if identify(each) not in refused}
    if last:
        places = ", ".join(f"{p.topic}/{p.kafka_partition} up to {last[p]}" for p in sorted(last))
        raise ValueError(
            f"{stage.name} cannot read again what was written before there were more Kafka "
            f"partitions ({places}): restore the changelog of a backup made since then and "
            f"`coplace restore accept {stage.name}`, or see docs/how-to/restore.md"
        )


def accept(deployment: Deployment, stage: Stage) -> Iterator[str]:
    """Accept the state of a stage as it is: reports where each unit reads on. Raises
    InconsistentError and KafkaError."""
    return _mend(deployment, stage, unit_repair.accept)


def replay(deployment: Deployment, stage: Stage) -> Iterator[str]:
    """Forget the state of a stage, but for the number of its last round, and read all of its inputs
    again: reports where each unit reads on. Raises InconsistentError and KafkaError, and ValueError
    where inputs cannot be read again."""
    require_readable_again(deployment, stage)
    return _mend(deployment, stage, unit_repair.replay)


Mend = Callable[[UnitAtRest], RepairedState]


def _mend(deployment: Deployment, stage: Stage, how: Mend) -> Iterator[str]:
    facts = KafkaFacts(deployment)
    try:
        for number in range(unit_count(stage, deployment.topics)):
            yield asyncio.run(_mend_unit(deployment, stage, number, facts, how))
    finally:
        facts.close()


async def _mend_unit(
    deployment: Deployment, stage: Stage, number: int, facts: KafkaFacts, how: Mend
) -> str:
    """Commit what `how` says as the next commit of the unit."""
    transactions = Transactions(deployment, stage, number)
    await transactions.open()
    try:
        at_rest = await _at_rest(deployment, stage, number, facts)
        commit, transactions.provenance = how(at_rest)
        await transactions.commit(commit)
    finally:
        await transactions.close()
    at = ", ".join(f"{p.topic}/{p.kafka_partition} {o}" for p, o in commit.positions.items())
    return f"{at_rest.partitions.name} reads on at {at or 'the beginning'}"


async def _at_rest(
    deployment: Deployment, stage: Stage, number: int, facts: KafkaFacts
) -> UnitAtRest:
    """A unit, and those that follow its barriers."""
    partitions = UnitPartitions.from_stage(stage, number, deployment.topics)
    restored = await read_changelog(deployment, partitions.changelog)
    provenance, _ = split_state(restored)
    found = await asyncio.to_thread(facts.of, partitions, provenance)
    outputs = partial(_outputs, deployment, stage, number)
    followers = [
        await _at_rest(deployment, follower, unit, facts)
        for follower in followers_of(stage, every_stage(deployment.settings))
        for unit in range(unit_count(follower, deployment.topics))
    ]
    return UnitAtRest(stage, partitions, restored, found, outputs, tuple(followers))


def _outputs(deployment: Deployment, stage: Stage, number: int) -> Iterator[Event]:
    """What a unit has written."""
    topics = deployment.topics
    partitions = [partition for topic in stage.outputs for partition in topics.partitions(topic)]
    with Reader(deployment, partitions) as reader:
        yield from outputs_of(stage, number, deployment.codec, reader.to_end())
