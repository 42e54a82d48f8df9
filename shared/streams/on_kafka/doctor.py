"""Whether the stages of a deployment fit what Kafka holds, without starting them."""

import asyncio
from collections.abc import Iterable, Mapping

from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.on_kafka.transactions import read_changelog
from shared.streams.stages.consistency import (
    Inconsistency,
    UnitPartitions,
    check_at_start,
    check_at_work,
    committed_meanwhile,
    missing,
)
from shared.streams.stages.provenance import split_state
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import unit_count


def examine_stages(
    deployment: Deployment, stages: Iterable[Stage]
) -> Mapping[str, list[Inconsistency]]:
    """Return what does not fit, by unit: the empty list where all does. Raises KafkaError.

    A stage may run: what it commits between two questions is no mismatch.
    """
    facts = KafkaFacts(deployment)
    try:
        return {
            partitions.name: examine_unit(deployment, facts, partitions)
            for stage in stages
            for number in range(unit_count(stage, deployment.topics))
            for partitions in [UnitPartitions.from_stage(stage, number, deployment.topics)]
        }
    finally:
        facts.close()


def examine_unit(
    deployment: Deployment, facts: KafkaFacts, unit: UnitPartitions
) -> list[Inconsistency]:
    """Return what does not fit at one unit. Raises KafkaError."""
    topics = facts.of(unit, None).topics
    changelog = topics.get(unit.changelog.topic)
    if changelog is None:
        return [missing(unit.changelog.topic)]
    if changelog.kafka_partitions <= unit.changelog.kafka_partition:
        return check_at_start(unit, None, False, facts.of(unit, None))
    provenance, state = split_state(asyncio.run(read_changelog(deployment, unit.changelog)))
    found = facts.of(unit, provenance)
    wrong = check_at_start(unit, provenance, bool(state), found)
    if not wrong:
        return []
    later, _ = split_state(asyncio.run(read_changelog(deployment, unit.changelog)))
    if later is not None and committed_meanwhile(unit, provenance, later, found):
        return check_at_work(unit, later, facts.of(unit, later))
    return wrong
