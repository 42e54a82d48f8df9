"""A unit on Kafka without Kafka: what it holds back, when it commits, how it closes rounds."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import count, islice
from unittest.mock import patch

import pytest
from aiokafka.errors import KafkaError

from coplace_client.clock import GuardedClock
from shared.catalogue.record import Record, TopicPartition
from shared.domain.rounds import RoundSource
from shared.process.clock import now_us
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.unit import BATCH_RECORDS, INBOX_RECORDS, KafkaUnit
from shared.streams.stages.failures import DEFAULT_AFTER
from shared.streams.stages.guarded_unit import GuardedUnit, guarded
from shared.streams.stages.provenance import Provenance
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import Commit, EventTimeLimit
from shared.streams.stages.unit_state import BEGINNINGS_KEY, FAILURES_KEY
from tests.support.deaths import SIMULATED, KilledError
from tests.support.fragile import fragile
from tests.support.messaging import (
    CODEC,
    START_US,
    TOPICS,
    at_offset,
    barrier,
    counting,
    encoded,
    submission,
)
from tests.unit.services.changelog import fold

PARTITIONS = TOPICS.partitions("jobs.events")


class Committed:
    """Replaces the transactions, and remembers; `notes` are where lives begin."""

    def __init__(self) -> None:
        self.provenance = Provenance()
        self.commits: list[Commit] = []
        self.notes: list[Commit] = []
        self.is_closed = False
        self.some = asyncio.Event()

    async def commit(self, commit: Commit) -> None:
        await asyncio.sleep(0)
        if commit.changelog.keys() == {BEGINNINGS_KEY} and not commit.positions:
            self.notes.append(commit)
            return
        self.commits.append(commit)
        self.some.set()

    async def close(self) -> None:
        self.is_closed = True


def a_unit(
    stage: Stage, committed: Committed, restored: Mapping[str, bytes] | None = None
) -> KafkaUnit:
    """Unit 0 of a stage, whose rounds last a hundredth of a second."""
    settings = Settings(kafka_partitions=4, rounds=stage.rounds, round_period_s=0.01)
    deployment = Deployment.from_settings(settings)
    return KafkaUnit(deployment, a_guard(stage, deployment, restored), committed)


def a_guard(
    stage: Stage, deployment: Deployment, restored: Mapping[str, bytes] | None = None
) -> GuardedUnit:
    """What a KafkaUnit runs."""
    known = deployment.codec, deployment.limit, deployment.hooks
    return guarded(stage, 0, restored or {}, *known)


@asynccontextmanager
async def running(unit: KafkaUnit) -> AsyncIterator[None]:
    """The unit at work."""
    task = asyncio.create_task(unit.run())
    yield
    await unit.close(task)


async def takes(unit: KafkaUnit, committed: Committed, *records: Record) -> None:
    """The unit receives records, and commits."""
    committed.some.clear()
    unit.receive(records)
    await committed.some.wait()


def submissions(partition: TopicPartition, number: int, time_us: int = START_US) -> list[Record]:
    """Records of one partition."""
    jobs = range(number * 8)
    found = encoded(*[submission(f"j{i}", user=f"u{i}", time_us=time_us) for i in jobs])
    own = [new for new in found if new.partition == partition][:number]
    return [at_offset(new, offset) for offset, new in enumerate(own)]


async def test_a_full_inbox_holds_every_partition_back() -> None:
    unit = a_unit(counting(single=True), Committed())
    some = submissions(PARTITIONS[0], 10)
    unit.receive(some)
    assert unit.full == frozenset()
    unit.receive(some * (INBOX_RECORDS // 10))
    assert unit.full == set(PARTITIONS)


async def test_a_partition_that_waits_for_its_round_is_held_back() -> None:
    committed = Committed()
    unit = a_unit(counting(single=True), committed)
    ahead = submissions(PARTITIONS[0], BATCH_RECORDS + 1)
    async with running(unit):
        await takes(unit, committed, at_offset(barrier(PARTITIONS[0], 0), 0), *ahead)
        assert unit.full == {PARTITIONS[0]}
        others = [at_offset(barrier(partition, 0), 0) for partition in PARTITIONS[1:]]
        await takes(unit, committed, *others)
        assert unit.full == frozenset()


async def test_units_commit_what_runs_and_what_has_no_outputs_and_end() -> None:
    committed = Committed()
    unit = a_unit(counting(), committed)
    records = submissions(PARTITIONS[0], 3)
    async with running(unit):
        await takes(unit, committed, *records)
        await takes(unit, committed, replace(records[-1], offset=3))
    assert committed.is_closed
    assert [commit.positions for commit in committed.commits] == [
        {PARTITIONS[0]: 3},
        {PARTITIONS[0]: 4},
    ]
    assert committed.commits[1].outputs == []


async def test_a_saturated_unit_still_closes_its_rounds() -> None:
    committed = Committed()
    unit = a_unit(counting(rounds=RoundSource.CLOCK), committed)
    fresh = endless_submissions(PARTITIONS[0])
    async with running(unit), asyncio.timeout(30):
        while sum(commit.tally.rounds_closed for commit in committed.commits) < 3:
            if not unit.full:
                unit.receive(islice(fresh, INBOX_RECORDS))
            await asyncio.sleep(0)


async def test_rounds_of_a_clock_rest_while_nothing_comes_and_end_at_once_when_something_does() -> (
    None
):
    committed = Committed()
    unit = a_unit(counting(rounds=RoundSource.CLOCK), committed)
    with patch.object(unit.unit, "close_round", wraps=unit.unit.close_round) as closed:
        async with running(unit):
            await asyncio.sleep(0.9)  # ninety rounds
            assert closed.call_count <= 2
            began_s = time.monotonic()
            await takes(unit, committed, *submissions(PARTITIONS[0], 1))
            assert time.monotonic() - began_s < 0.5
    assert sum(commit.tally.rounds_closed for commit in committed.commits) > 0


async def test_a_relaxed_stage_commits_once_a_round_however_often_something_comes() -> None:
    committed = Committed()
    stage = replace(counting(rounds=RoundSource.CLOCK), relaxed_s=0.5)
    unit = a_unit(stage, committed)
    records = submissions(PARTITIONS[0], 20)
    async with running(unit):
        await takes(unit, committed, records[0])
        before = len(committed.commits)
        for record in records[1:]:
            unit.receive([record])
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.7)
        assert unit.committed == {PARTITIONS[0]: 20}
        assert len(committed.commits) - before <= 3
    outputs = sum(len(commit.outputs) for commit in committed.commits)
    assert outputs >= 20


async def test_a_relaxed_stage_that_goes_by_barriers_commits_at_once() -> None:
    committed = Committed()
    unit = a_unit(replace(counting(), relaxed_s=60.0), committed)
    async with running(unit), asyncio.timeout(30):
        await takes(unit, committed, *submissions(PARTITIONS[0], 3))
    assert committed.commits[0].outputs


async def test_a_round_that_is_due_ends_though_nothing_comes() -> None:
    committed = Committed()
    stage = counting(rounds=RoundSource.CLOCK)
    unit = a_unit(stage, committed)
    due_us = now_us() + 300_000
    with (
        patch.object(type(unit.unit), "due_us", due_us),
        patch.object(unit.unit, "close_round", wraps=unit.unit.close_round) as closed,
    ):
        async with running(unit):
            await asyncio.sleep(0.2)
            before = closed.call_count
            await asyncio.sleep(0.3)
            assert closed.call_count > before


async def test_after_idle_days_a_stage_that_goes_by_barriers_still_takes_events_of_today() -> None:
    committed = Committed()
    stage = counting()
    started_days_ago = EventTimeLimit.from_wall_clock(START_US)
    deployment = Deployment(Settings(kafka_partitions=4), CODEC, started_days_ago)
    unit = KafkaUnit(deployment, a_guard(stage, deployment), committed)
    [today] = submissions(PARTITIONS[0], 1, now_us())
    async with running(unit):
        await takes(unit, committed, today)
    assert committed.commits[0].tally.dead_letters == 0


async def test_a_failure_is_counted_before_the_process_ends_and_isolated_in_a_later_life() -> None:
    restored: dict[str, bytes] = {}
    [good, poison] = submissions(PARTITIONS[0], 2)
    stage = counting(bug_at=poison.key.decode())
    for _life in range(DEFAULT_AFTER):
        committed = Committed()
        unit = a_unit(stage, committed, restored)
        unit.receive([good, poison])
        with pytest.raises(KeyError, match="a bug"):
            await unit.run()
        [counted] = committed.commits
        assert (counted.outputs, counted.positions) == ([], {})
        restored[FAILURES_KEY] = counted.changelog[FAILURES_KEY] or b""
    committed = Committed()
    unit = a_unit(stage, committed, restored)
    async with running(unit):
        await takes(unit, committed, good, poison)
    [commit] = committed.commits
    assert commit.positions == {PARTITIONS[0]: 2}
    assert (commit.tally.quarantined, commit.tally.dead_letters) == (1, 1)
    assert commit.changelog[FAILURES_KEY] is None


async def test_where_a_life_begins_is_kept_before_it_does_and_goes_when_it_is_passed() -> None:
    committed = Committed()
    unit = a_unit(counting(), committed)
    [record] = submissions(PARTITIONS[0], 1)
    async with running(unit):
        for offset in range(2):
            await takes(unit, committed, replace(record, offset=offset))
    [note] = committed.notes
    assert note.changelog == {BEGINNINGS_KEY: b'{"jobs.events/0":[1,"jobs.events",0,0]}'}
    assert committed.commits[0].changelog[BEGINNINGS_KEY] is None
    assert BEGINNINGS_KEY not in committed.commits[1].changelog


async def test_a_life_where_others_ended_isolates_what_kills_and_commits_at_once() -> None:
    [good] = submissions(PARTITIONS[0], 1)
    named = encoded(*[submission(f"deadly-{number}") for number in range(40)])
    deadly = next(new for new in named if new.partition == PARTITIONS[0])
    committed = Committed()
    begun = {BEGINNINGS_KEY: b'{"jobs.events/0":[3,"jobs.events",0,0]}'}
    unit = a_unit(fragile(), committed, begun)
    async with running(unit):
        await takes(unit, committed, good, at_offset(deadly, 1))
    [commit] = committed.commits
    assert commit.positions == {PARTITIONS[0]: 2}
    assert (commit.tally.quarantined, commit.tally.dead_letters) == (1, 1)
    assert commit.changelog[BEGINNINGS_KEY] is None


async def test_what_kills_soon_behind_something_without_outputs_is_isolated_too() -> None:
    """A record a batch, as where records are large: each life begins at the good one until it is
    committed."""
    SIMULATED.add(os.getpid())
    [good] = submissions(PARTITIONS[0], 1)
    named = encoded(*[submission(f"deadly-{number}") for number in range(40)])
    deadly = next(new for new in named if new.partition == PARTITIONS[0])
    records, kept, position = [good, at_offset(deadly, 1)], dict[str, bytes](), 0
    lives = 0
    while position < len(records):
        lives += 1
        assert lives < 3 * DEFAULT_AFTER, "it is killed for ever"
        committed = Committed()
        unit = a_unit(fragile(), committed, kept)
        task = asyncio.create_task(unit.run())
        for record in records[position:]:
            unit.receive([record])
            await asyncio.wait([task], timeout=0.02)
        with suppress(KilledError):
            await unit.close(task)
        for commit in [*committed.notes, *committed.commits]:
            fold(kept, commit.changelog)
            position = max([position, *commit.positions.values()])
    assert commit.tally.quarantined == 1


async def test_what_kafka_did_not_take_is_no_fault_of_the_input() -> None:
    class Refused(Committed):
        async def commit(self, commit: Commit) -> None:
            await super().commit(commit)
            if self.commits:
                raise KafkaError("the broker is down")

    committed = Refused()
    unit = a_unit(counting(), committed)
    unit.receive(submissions(PARTITIONS[0], 1))
    with pytest.raises(KafkaError):
        await unit.run()
    [commit] = committed.commits
    assert FAILURES_KEY not in commit.changelog


def endless_submissions(partition: TopicPartition) -> Iterator[Record]:
    """Ever more attempts of one job."""
    [record] = submissions(partition, 1)
    job = record.key.decode()
    for sequence in count():
        [new] = encoded(submission(job, user=f"u{sequence}", sequence=sequence))
        yield at_offset(new, sequence)


async def test_a_clock_that_jumps_drags_no_round_along() -> None:
    """An hour ahead for a while, and back."""
    committed, jump_us = Committed(), [0]
    stage = counting(rounds=RoundSource.CLOCK)
    settings = Settings(kafka_partitions=4, round_period_s=0.01)
    clock = GuardedClock(lambda: (now_us() + jump_us[0], now_us()))
    deployment = Deployment(settings, CODEC, EventTimeLimit.from_wall_clock(), clock=clock)
    unit = KafkaUnit(deployment, a_guard(stage, deployment), committed)
    fresh = endless_submissions(PARTITIONS[0])
    async with running(unit), asyncio.timeout(30):
        for jump_s in (0, 3_600, 0):
            jump_us[0] = jump_s * 1_000_000
            closed = sum(commit.tally.rounds_closed for commit in committed.commits)
            while sum(commit.tally.rounds_closed for commit in committed.commits) < closed + 2:
                unit.receive(islice(fresh, 1))
                await asyncio.sleep(0.005)
            assert unit.unit.closed_us <= now_us()


async def test_what_was_received_waits_until_it_is_processed_and_committed() -> None:
    committed = Committed()
    unit = a_unit(counting(single=True), committed)
    assert (unit.oldest, unit.is_at_rest) == (None, True)
    records = submissions(PARTITIONS[0], 3)
    written = [replace(record, written_ms=900 + n) for n, record in enumerate(records)]
    unit.receive(written)
    assert unit.oldest == records[0]
    assert unit.oldest.written_ms == 900
    assert not unit.is_at_rest
    async with running(unit), asyncio.timeout(5):
        await committed.some.wait()
    at_rest: tuple[Record | None, bool] = (unit.oldest, unit.is_at_rest)
    assert at_rest == (None, True)
