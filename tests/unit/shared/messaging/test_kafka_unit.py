"""A unit on Kafka without Kafka: what it holds back, when it commits, how it closes rounds."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count, islice

from shared.messaging.deployment import Deployment, now_us
from shared.messaging.kafka_unit import BATCH_RECORDS, INBOX_RECORDS, KafkaUnit
from shared.messaging.record import Place, Record
from shared.messaging.stage import RoundSource, Stage
from shared.messaging.unit import Commit, EventTimeLimit, Unit
from shared.runtime.settings import Settings
from tests.support.messaging import (
    CODEC,
    START_US,
    TOPICS,
    at_offset,
    counting,
    encoded,
    mark,
    submission,
)

PLACES = TOPICS.places("jobs.events")


class Committed:
    """Takes the place of the transactions."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.is_closed = False
        self.some = asyncio.Event()

    async def commit(self, commit: Commit) -> None:
        """Remember."""
        await asyncio.sleep(0)
        self.commits.append(commit)
        self.some.set()

    async def close(self) -> None:
        """Remember."""
        self.is_closed = True


def a_unit(stage: Stage, committed: Committed) -> KafkaUnit:
    """Unit 0 of a stage, whose rounds last a hundredth of a second."""
    settings = Settings(kafka_partitions=4, rounds=stage.rounds, round_period_s=0.01)
    unit = Unit(stage, 0, {}, CODEC)
    return KafkaUnit(Deployment.of(settings), unit, committed)


@asynccontextmanager
async def running(unit: KafkaUnit) -> AsyncIterator[None]:
    """The unit at work."""
    task = asyncio.create_task(unit.run())
    yield
    await unit.close(task)


def submissions(place: Place, number: int, time_us: int = START_US) -> list[Record]:
    """Records of one place."""
    jobs = range(number * 8)
    found = encoded(*[submission(f"j{i}", user=f"u{i}", time_us=time_us) for i in jobs])
    own = [new for new in found if new.place == place][:number]
    return [at_offset(new, offset) for offset, new in enumerate(own)]


async def test_a_full_inbox_holds_every_place_back() -> None:
    unit = a_unit(counting(single=True), Committed())
    some = submissions(PLACES[0], 10)
    unit.receive(some)
    assert unit.full == frozenset()
    unit.receive(some * (INBOX_RECORDS // 10))
    assert unit.full == set(PLACES)


async def test_a_place_that_waits_for_its_round_is_held_back() -> None:
    committed = Committed()
    unit = a_unit(counting(single=True), committed)
    ahead = submissions(PLACES[0], BATCH_RECORDS + 1)
    async with running(unit):
        unit.receive([at_offset(mark(PLACES[0], 0), 0), *ahead])
        await committed.some.wait()
        assert unit.full == {PLACES[0]}
        committed.some.clear()
        unit.receive([at_offset(mark(place, 0), 0) for place in PLACES[1:]])
        await committed.some.wait()
        assert unit.full == frozenset()


async def test_units_commit_what_runs_and_end() -> None:
    committed = Committed()
    unit = a_unit(counting(), committed)
    async with running(unit):
        unit.receive(submissions(PLACES[0], 3))
        await committed.some.wait()
    assert committed.is_closed
    assert committed.commits[0].positions == {PLACES[0]: 3}


async def test_work_without_outputs_is_committed_when_nothing_follows() -> None:
    committed = Committed()
    unit = a_unit(counting(), committed)
    [record] = submissions(PLACES[0], 1)
    async with running(unit):
        unit.receive([record])
        await committed.some.wait()
        committed.some.clear()
        unit.receive([Record(record.place, 1, record.key, record.value, record.headers)])
        await committed.some.wait()
    assert committed.commits[1].outputs == []
    assert committed.commits[1].positions == {PLACES[0]: 2}


async def test_a_saturated_unit_still_closes_its_rounds() -> None:
    committed = Committed()
    unit = a_unit(counting(rounds=RoundSource.CLOCK), committed)
    fresh = endless_submissions(PLACES[0])
    async with running(unit), asyncio.timeout(30):
        while sum(commit.tally.rounds_closed for commit in committed.commits) < 3:
            if not unit.full:
                unit.receive(islice(fresh, INBOX_RECORDS))
            await asyncio.sleep(0)


async def test_after_idle_days_a_stage_that_goes_by_marks_still_takes_events_of_today() -> None:
    committed = Committed()
    stage = counting()
    deployment = Deployment.of(Settings(kafka_partitions=4))
    started_days_ago = EventTimeLimit.of_wall_clock(START_US)
    unit = KafkaUnit(deployment, Unit(stage, 0, {}, CODEC, started_days_ago), committed)
    [today] = submissions(PLACES[0], 1, now_us())
    async with running(unit):
        unit.receive([today])
        await committed.some.wait()
    assert committed.commits[0].tally.dead_letters == 0


def endless_submissions(place: Place) -> Iterator[Record]:
    """Ever more attempts of one job."""
    [record] = submissions(place, 1)
    job = record.key.decode()
    for sequence in count():
        [new] = encoded(submission(job, user=f"u{sequence}", sequence=sequence))
        yield at_offset(new, sequence)
