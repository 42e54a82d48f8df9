"""Topics followed into the database: on from where it is, and refused where it does not fit."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.webhooks.facts import TOPICS
from services.webhooks.writing import read_anew
from shared.catalogue.record import NewRecord, TopicPartition
from shared.streams.following import ReadBatch, TopicFollower
from shared.streams.in_memory.facts import facts_of_partitions
from shared.streams.stages.consistency import InconsistentError, LogFacts
from shared.streams.stages.provenance import LastRead, Provenance
from tests.support.operated_log import OperatedLog
from tests.unit.services.history.made import CODEC, FactLog, started, submitted
from tests.unit.services.webhooks.made import World

JOBS = "jobs.events"


class FollowedMemory:
    """Topics in memory, as Kafka has them."""

    def __init__(self, world: World) -> None:
        self.log, self.world = OperatedLog(), world
        self.declared = dict.fromkeys(TOPICS, 2)
        self.positions: dict[TopicPartition, int] = {}

    async def facts(
        self,
        topics: Iterable[str],
        last_read: Mapping[TopicPartition, LastRead],
        partitions: Iterable[TopicPartition],
    ) -> LogFacts:
        declared = {topic: self.declared[topic] for topic in topics}
        return facts_of_partitions(self.log, declared, Provenance(last_read=last_read), partitions)

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self.positions = dict(positions)

    async def read(self) -> Mapping[TopicPartition, ReadBatch]:
        await asyncio.sleep(0.001)
        found = dict[TopicPartition, ReadBatch]()
        for place, at in self.positions.items():
            if records := self.log.read(place, at):
                now_ms = self.world.now // 1_000
                dated = [replace(each, written_ms=now_ms) for each in records]
                found[place] = ReadBatch(dated, records[-1].offset + 1)
                self.positions[place] = records[-1].offset + 1
        return found

    def behind(self) -> int:
        return sum(self.log.end_offset(place) - at for place, at in self.positions.items())

    def send(self, *payloads: Any) -> None:
        """Write events of jobs."""
        made = FactLog()
        made.add(JOBS, *payloads)
        for records in made.records.values():
            self.log.append(
                NewRecord(each.partition, each.key, each.value, each.headers) for each in records
            )


class Followed:
    """A database of its own, and who follows."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        read_anew(self.world.database)
        self.world.add("own", user="ada")
        self.memory = FollowedMemory(self.world)
        self.applied = 0
        self.follower = self.new()

    def new(self) -> TopicFollower:
        """One that has just started."""
        self.world.open()
        parts = "webhooks", TOPICS, self.memory, self.world.writer, "read topics anew"
        return TopicFollower(*parts, self._on_applied)

    def _on_applied(self, records: int) -> None:
        self.applied += records

    async def step(self) -> None:
        await self.follower.step(await self.memory.read())


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path)


async def test_what_comes_is_applied_once_also_by_the_next_process(followed: Followed) -> None:
    assert await followed.follower.open() == []
    followed.memory.send(submitted("j1"), started("j1"))
    await followed.step()
    followed.follower = followed.new()
    assert await followed.follower.open() == []
    await followed.step()
    followed.memory.send(submitted("j2"), started("j2"))
    assert followed.follower.lag_s() == 0.0
    await followed.step()
    assert followed.world.types() == ["job.started"] * 2
    assert followed.applied == 4


async def test_a_topic_that_grew_is_read_as_a_whole(followed: Followed) -> None:
    assert await followed.follower.open() == []
    followed.memory.declared[JOBS] = 3
    followed.memory.log.grow(JOBS, 3)
    stop = asyncio.Event()
    await followed.follower._check()
    stop.set()
    await followed.follower.run(stop)
    assert TopicPartition(JOBS, 2) in followed.memory.positions


@pytest.mark.parametrize("damage", ["recreated", "older", "unread", "missing"])
async def test_topics_that_do_not_fit_are_refused_with_what_to_do(
    followed: Followed, damage: str
) -> None:
    log = followed.memory.log
    assert await followed.follower.open() == []
    empty = log.backup(JOBS)
    followed.memory.send(*(submitted(f"j{number}") for number in range(20)))
    await followed.step()
    if damage == "recreated":
        log.recreate(JOBS)
    elif damage == "older":
        log.put_back(JOBS, empty)
    elif damage == "unread":
        followed.memory.send(*(submitted(f"k{number}") for number in range(20)))
        for place in CODEC.topics.partitions(JOBS):
            log.delete_before(place, log.end_offset(place))
    else:

        async def facts(*_: object) -> LogFacts:
            return LogFacts()

        followed.memory.facts = facts  # type: ignore[method-assign,assignment]
    wrong = await followed.new().open()
    assert wrong
    assert all(JOBS in str(each) or damage == "missing" for each in wrong)
    if damage != "missing":
        assert all("read topics anew" in str(each) for each in wrong)
        with pytest.raises(InconsistentError):
            await followed.follower._check()


async def test_after_topics_are_read_anew_nothing_is_posted_twice(followed: Followed) -> None:
    assert await followed.follower.open() == []
    followed.memory.send(submitted("j1"), started("j1"))
    await followed.step()
    before = followed.world.rows()
    followed.memory.log.recreate(JOBS)
    followed.memory.send(submitted("j1"), started("j1"), submitted("j2"), started("j2"))
    read_anew(followed.world.database)
    followed.follower = followed.new()
    assert await followed.follower.open() == []
    await followed.step()
    after = followed.world.rows()
    assert len(after) == 2
    assert set(before) <= set(after)
