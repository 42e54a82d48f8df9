"""Repairs states that a wrong clock dragged into the future."""

import asyncio
from collections.abc import Iterable

from shared.catalogue.record import TopicPartition
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.on_kafka.transactions import Transactions, read_changelog
from shared.streams.restoring.unit_repair import repaired_clock_state
from shared.streams.stages.consistency import UnitPartitions, ahead_of_clock, open_unit
from shared.streams.stages.provenance import split_state
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import unit_count
from shared.streams.stages.unit_state import closed_at_us


async def repair_clock(deployment: Deployment, stages: Iterable[Stage], now_us: int) -> list[str]:
    """Have no round have ended after `now_us`, and nothing be put off beyond what follows from it.

    Owners that are at work are fenced: they end, and begin again with the repaired state. Returns
    the units that were repaired, by name; the others are not touched.

    Raises InconsistentError for a state that does not belong to what Kafka holds.
    """
    facts = KafkaFacts(deployment)
    try:
        return [
            f"{stage.name}/{number}"
            for stage in stages
            for number in range(unit_count(stage, deployment.topics))
            if await _mend_unit(deployment, stage, number, facts, now_us)
        ]
    finally:
        await asyncio.to_thread(facts.close)


async def _mend_unit(
    deployment: Deployment, stage: Stage, number: int, facts: KafkaFacts, now_us: int
) -> bool:
    changelog = TopicPartition(stage.changelog, number)
    tolerance_us = deployment.limit.round_ahead_us
    state = await read_changelog(deployment, changelog)
    if not ahead_of_clock(closed_at_us(state), now_us, tolerance_us):
        return False
    transactions = Transactions(deployment, stage, number)
    await transactions.open()
    try:
        provenance, state = split_state(await read_changelog(deployment, changelog))
        partitions = UnitPartitions.from_stage(stage, number, deployment.topics)
        found = await asyncio.to_thread(facts.of, partitions, provenance)
        _, transactions.provenance = open_unit(partitions, provenance, bool(state), found)
        await transactions.commit(repaired_clock_state(stage, state, now_us))
    finally:
        await transactions.close()
    return True
