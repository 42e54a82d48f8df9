"""What operators do after data were replaced, on real Kafka."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from coplace.v1.jobs_pb2 import JobFinished, JobOutcome, JobStarted, JobSubmitted
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.message import Message

from cli.restore import restore
from cli.restore.repartition import repartition
from cli.stages import every_stage
from services.placement.app import stages as placement_stages
from services.pricing.app import stages as pricing_stages
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord, TopicPartition
from shared.domain.rounds import RoundSource
from shared.streams.on_kafka.admin import admin_client, ensure_topics
from shared.streams.on_kafka.clients import Publisher, Reader
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.doctor import examine_stages
from shared.streams.stages.consistency import InconsistentError
from shared.streams.stages.stage import Stage
from tests.contract.backends import Plan
from tests.contract.on_kafka import KafkaBackend
from tests.contract.test_clocks import clocked, opened
from tests.contract.test_delivery import ROUNDS, outputs, rounds_closed, state, undisturbed, work
from tests.contract.test_replaced_data import (
    CHANGELOG,
    INPUT,
    again,
    everything,
    worked,
)
from tests.support.messaging import START_US, at_offset, counting, encoded, submission


def test_a_lost_state_is_made_anew_from_the_inputs_and_each_round_as_it_was(
    on_kafka: KafkaBackend,
) -> None:
    rest = worked(on_kafka)
    once = outputs(on_kafka)
    on_kafka.recreate(CHANGELOG)
    with pytest.raises(InconsistentError, match="holds no state"):
        list(restore.accept(on_kafka.deployment, counting()))
    told = list(restore.replay(on_kafka.deployment, counting()))
    assert told[2] == "counting/2 reads on at jobs.events/2 0"
    assert on_kafka.inconsistencies() == []
    on_kafka.append(rest)
    on_kafka.start(Plan())
    on_kafka.until(rounds_closed(on_kafka, ROUNDS - 1 + ROUNDS))
    found, expected = state(on_kafka), undisturbed(work())[1]
    assert found == expected
    for first, both in zip(once, outputs(on_kafka), strict=True):
        assert both[: len(first)] == first
        assert both[len(first) : 2 * len(first)] == first, "copies, by id and content"


@pytest.mark.rest
def test_positions_that_were_moved_go_back_to_those_of_the_state(on_kafka: KafkaBackend) -> None:
    rest = worked(on_kafka)
    on_kafka.set_position("counting", TopicPartition(INPUT, 0), 1)
    on_kafka.append(rest)
    assert len(list(restore.accept(on_kafka.deployment, counting()))) == 4
    assert on_kafka.inconsistencies() == []
    on_kafka.start(Plan())
    on_kafka.until(rounds_closed(on_kafka, ROUNDS))
    assert (outputs(on_kafka), state(on_kafka)) == undisturbed(work())


def test_a_stage_that_runs_is_not_repaired(on_kafka: KafkaBackend) -> None:
    on_kafka.append(work()[: len(work()) // ROUNDS])
    on_kafka.start(Plan())
    on_kafka.until(rounds_closed(on_kafka, 1))
    with pytest.raises(ValueError, match="stop its processes"):
        restore.require_stopped(on_kafka.deployment, counting())


JOBS = [f"north/alpha/{number}/0" for number in range(30)]


def facts(deployment: Deployment, *kinds: type[Message]) -> list[NewRecord]:
    """Of every job, on as many Kafka partitions as the deployment has."""
    return [
        deployment.codec.encode(Publish(INPUT, Event(f"{kind.__name__}/{job}", "rm", 1, job, fact)))
        for job in JOBS
        for kind in kinds
        for fact in [fact_of(kind, job)]
    ]


def fact_of(kind: type[Message], job: str) -> Message:
    """One fact of a job that ran an hour."""
    whole = {
        "job_id": job,
        "attempt": 1,
        "cluster": "alpha",
        "user": "ada",
        "account": "physics",
        "nodes": 2,
        "cores_per_node": 48,
        "submitted_at_us": START_US,
        "started_at_us": START_US,
        "ended_at_us": START_US + 3_600_000_000,
        "outcome": JobOutcome.JOB_OUTCOME_COMPLETED,
        "walltime_s": 3_600,
        "freq_ghz": 2.4,
        "app_id": "hpcg",
        "reference_cluster": "alpha",
    }
    names = set(kind.DESCRIPTOR.fields_by_name) & set(whole)
    if kind is JobStarted:
        whole["nodes"] = ["n1", "n2"]
    return kind(**{name: whole[name] for name in names})


def charged(deployment: Deployment) -> Counter[str]:
    """How often each job was."""
    partitions = deployment.topics.partitions("prices.charges")
    with Reader(deployment, partitions) as reader:
        events = [deployment.codec.decode(record).payload for record in reader.to_end()]
    return Counter(event.job_id for event in events if isinstance(event, ChargeMade))


@pytest.mark.rest
def test_jobs_that_run_while_topics_get_more_kafka_partitions_are_charged(
    on_kafka: KafkaBackend,
) -> None:
    four = on_kafka.deployment
    six = Deployment.from_settings(four.settings.model_copy(update={"kafka_partitions": 6}))
    pricing = pricing_stages(four.settings)
    [stage] = pricing
    with admin_client(four) as client:
        ensure_topics(client, four, pricing)
    environment = {"COPLACE_ROUNDS": "clock", "COPLACE_PRICING_GRACE_S": "0"}
    on_kafka.append(
        [*facts(four, JobSubmitted, JobStarted), *elsewhere(facts(four, JobStarted)[:1])]
    )
    worker = on_kafka.start_process("services.pricing", environment)
    on_kafka.until(lambda: _read(on_kafka) == 2 * len(JOBS) + 1)
    worker.stop()
    restore.require_readable_again(four, stage)
    on_kafka.append(facts(four, JobStarted)[:1])
    with pytest.raises(ValueError, match="pricing has not read all of"):
        list(repartition(four, 6, pricing))
    worker = on_kafka.start_process("services.pricing", environment)
    on_kafka.until(lambda: _read(on_kafka) == 2 * len(JOBS) + 2)
    worker.stop()
    told = list(repartition(four, 6, pricing))
    assert "jobs.events has 6 Kafka partitions" in told
    assert list(repartition(four, 6, pricing)) == ["pricing was moved before"]
    assert set(map(len, examine_stages(six, pricing_stages(six.settings)).values())) == {0}
    with pytest.raises(ValueError, match="cannot read again what was written before"):
        restore.replay(six, *pricing_stages(six.settings))
    with Publisher(six) as publisher:
        publisher.append(facts(six, JobFinished))
    on_kafka.start_process("services.pricing", {**environment, "COPLACE_KAFKA_PARTITIONS": "6"})
    on_kafka.until(lambda: len(charged(six)) == len(JOBS))
    assert charged(six) == Counter(JOBS)


def elsewhere(records: list[NewRecord]) -> list[NewRecord]:
    """The same on other Kafka partitions, as a producer with another partitioner puts them."""
    return [
        replace(new, partition=TopicPartition(INPUT, (new.partition.kafka_partition + 1) % 4))
        for new in records
    ]


def _read(on_kafka: KafkaBackend) -> int:
    """How many records of jobs.events pricing has read."""
    return sum(on_kafka.position("pricing", TopicPartition(INPUT, number)) for number in range(4))


async def rounds_closed_by_clock(on_kafka: KafkaBackend, stage: Stage, offsets: range) -> int:
    """Let unit 0 close a round over the record at each offset; the number of the next one."""
    unit = await opened(clocked(on_kafka), stage)
    task = asyncio.create_task(unit.run())
    async with asyncio.timeout(30):
        for offset in offsets:
            number = unit.unit.next_round
            [new] = encoded(submission("j", sequence=offset))
            await asyncio.to_thread(on_kafka.append, [new])
            unit.receive([at_offset(new, offset)])
            while unit.unit.next_round == number:  # noqa: ASYNC110 a unit notifies nobody
                await asyncio.sleep(0.02)
    await unit.close(task)
    return unit.unit.next_round


async def test_a_stage_with_an_older_state_gives_no_number_of_a_round_a_second_time(
    on_kafka: KafkaBackend,
) -> None:
    """Who follows its barriers has seen these, and would hear of no round until they are used
    up."""
    by_clock = clocked(on_kafka)
    stage = counting(rounds=RoundSource.CLOCK, single=True)
    await rounds_closed_by_clock(on_kafka, stage, range(1))
    on_kafka.until(lambda: bool(everything(on_kafka, CHANGELOG)))
    backup = again(everything(on_kafka, CHANGELOG))
    following = await rounds_closed_by_clock(on_kafka, stage, range(1, 4))
    await asyncio.to_thread(on_kafka.recreate, CHANGELOG)
    on_kafka.append(backup)
    await asyncio.to_thread(lambda: list(restore.accept(by_clock, stage)))
    unit = await opened(by_clock, stage)
    assert unit.unit.next_round == following
    await unit.discard()


async def test_a_sequencer_without_state_or_outputs_goes_on_behind_the_rounds_that_placement_closed(
    on_kafka: KafkaBackend,
) -> None:
    by_clock = clocked(on_kafka)
    sequencer, placement = placement_stages(by_clock.settings)
    [inputs] = placement.inputs
    with admin_client(by_clock) as client:
        await asyncio.to_thread(ensure_topics, client, by_clock, every_stage(by_clock.settings))
    following = await rounds_closed_by_clock(on_kafka, sequencer, range(3))
    with Reader(by_clock, by_clock.topics.partitions(inputs)) as reader:
        records = await asyncio.to_thread(lambda: list(reader.to_end()))
    unit = await opened(by_clock, placement)
    task = asyncio.create_task(unit.run())
    async with asyncio.timeout(30):
        unit.receive(records)
        while unit.unit.next_round < following:  # noqa: ASYNC110 a unit notifies nobody
            await asyncio.sleep(0.02)
    await unit.close(task)
    for topic in (sequencer.changelog, inputs):
        await asyncio.to_thread(on_kafka.recreate, topic)
    with pytest.raises(InconsistentError, match="repair placement first"):
        await asyncio.to_thread(lambda: list(restore.replay(by_clock, sequencer)))
    await asyncio.to_thread(lambda: list(restore.accept(by_clock, placement)))
    await asyncio.to_thread(lambda: list(restore.replay(by_clock, sequencer)))
    unit = await opened(by_clock, sequencer)
    assert unit.unit.next_round == following
    await unit.discard()
