"""When a read model counts as lost, and what it makes of a batch, on a Redis in memory."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import cast

import fakeredis
import pytest
from coplace.v1.jobs_pb2 import JobSubmitted

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import Record, TopicPartition
from shared.catalogue.topics import Topics
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.publisher import KafkaPublisher
from shared.streams.read_models.read_model import LostPositionError, ReadModel
from shared.streams.read_models.service import Applier
from shared.streams.stages.consistency import Inconsistency, InconsistentError
from shared.streams.stages.provenance import LastRead, TopicIdentity
from tests.support.messaging import TOPICS, at_offset, encoded, submission

JOB = "north/alpha/1/1"
PARTITION = TOPICS.partition_of("jobs.events", JOB)
SCRIPT = "local fields = 1 local function apply(i) redis.call('RPUSH', KEYS[2], ARGV[i]) end "


class Letters:
    """Keeps dead letters."""

    def __init__(self) -> None:
        self.sent: list[Publish] = []

    async def send_all(self, publishes: Iterable[Publish]) -> None:
        """Keep them."""
        self.sent += publishes


class Model(ReadModel[str]):
    """Users of jobs in the order in which they were applied; notes when it is asked how far."""

    def __init__(self, redis: fakeredis.FakeAsyncRedis) -> None:
        keys = {PARTITION.topic: ("users",)}
        super().__init__(redis, str, script=SCRIPT, keys=keys, fields=lambda user: (user,))
        self.asked: Callable[[], Awaitable[object]] | None = None

    async def position(self, partition: TopicPartition) -> int:
        """The position of before whatever happens while it travels."""
        found = await super().position(partition)
        if self.asked:
            await self.asked()
        return found


def user_of(event: Event) -> str:
    """The entry of a submission."""
    assert isinstance(event.payload, JobSubmitted)
    if not event.payload.nodes:
        raise RejectedError("nodes", "must be at least 1")
    return event.payload.user


def records(*users: str, first: int = 0, nodes: int = 1) -> list[Record]:
    """Submissions at consecutive offsets of one partition."""
    new = encoded(*(submission(JOB, user=user, nodes=nodes) for user in users))
    return [at_offset(record, first + index) for index, record in enumerate(new)]


class Rig:
    """An applier and what it writes to."""

    def __init__(self, redis: fakeredis.FakeAsyncRedis, kafka_partitions: int = 4) -> None:
        self.redis = redis
        self.model = Model(self.redis)
        self.letters = Letters()
        deployment = Deployment.from_settings(Settings(kafka_partitions=kafka_partitions))
        letters = cast(KafkaPublisher, self.letters)
        self.inconsistent = False
        self.applier = Applier(
            deployment,
            "users",
            self.model,
            user_of,
            letters,
            self.check_kafka,
            lambda topic: topic.encode(),
        )

    async def check_kafka(self) -> None:
        """The result of a comparison with Kafka."""
        if self.inconsistent:
            raise InconsistentError("users", [Inconsistency("jobs.events is older", "rebuild")])

    async def users(self) -> list[bytes]:
        """All that were applied."""
        return cast(list[bytes], await self.redis.lrange("users", 0, -1))


@pytest.fixture
def rig() -> Rig:
    """An empty Redis."""
    return Rig(fakeredis.FakeAsyncRedis())


async def test_what_cannot_be_used_is_a_dead_letter_and_the_position_passes_it(rig: Rig) -> None:
    await rig.applier.apply([*records("ada"), *records("bob", first=1, nodes=0)])
    assert await rig.users() == [b"ada"]
    assert [each.topic for each in rig.letters.sent] == ["dlq.jobs.events"]
    assert await rig.applier.positions([PARTITION]) == {PARTITION: 2}


async def test_what_a_later_release_sends_is_skipped(rig: Rig) -> None:
    [good, later] = records("ada", "bob")
    headers = dict(later.headers) | {"ce_type": b"coplace.v1.JobPraisedInTenYears"}
    await rig.applier.apply([good, replace(later, headers=tuple(headers.items()))])
    assert (await rig.users(), rig.letters.sent) == ([b"ada"], [])
    assert await rig.applier.positions([PARTITION]) == {PARTITION: 2}


async def test_what_was_written_to_fewer_kafka_partitions_is_applied(rig: Rig) -> None:
    elsewhere = TopicPartition(PARTITION.topic, (PARTITION.kafka_partition + 1) % 4)
    await rig.applier.apply([replace(record, partition=elsewhere) for record in records("ada")])
    assert (await rig.users(), rig.letters.sent) == ([b"ada"], [])


async def test_a_new_process_reads_on_where_redis_is(rig: Rig) -> None:
    await rig.applier.apply(records("ada", "bob"))
    later = Rig(rig.redis)
    assert await later.applier.positions([PARTITION]) == {PARTITION: 2}
    await later.applier.apply(records("ada", "bob", "eve"))
    assert await rig.users() == [b"ada", b"bob", b"eve"]


async def test_a_redis_that_forgot_is_noticed_without_a_new_record(rig: Rig) -> None:
    await rig.applier.apply(records("ada"))
    await rig.applier.check()
    await rig.redis.flushall()
    with pytest.raises(LostPositionError):
        await rig.applier.check()
    with pytest.raises(LostPositionError):
        await rig.applier.positions([PARTITION])


async def test_a_batch_that_is_applied_while_redis_is_asked_is_no_loss(rig: Rig) -> None:
    await rig.applier.apply(records("ada"))

    async def apply_more() -> None:
        rig.model.asked = None
        await rig.applier.apply(records("bob", first=1))

    rig.model.asked = apply_more
    await rig.applier.check()
    assert await rig.users() == [b"ada", b"bob"]


async def test_another_workers_progress_is_no_loss(rig: Rig) -> None:
    await rig.applier.apply(records("ada"))
    await rig.model.apply(PARTITION, 1, 5, [])
    await rig.applier.check()


async def test_redis_says_which_record_of_which_topic_it_applied_last(rig: Rig) -> None:
    applied = records("ada", "bob")
    await rig.applier.apply(applied)
    await rig.applier.apply(records("old"))
    found = await rig.model.provenance([PARTITION, TopicPartition("jobs.events", 99)])
    assert found.positions == {PARTITION: 2}
    assert found.last_read == {PARTITION: LastRead.from_record(applied[1])}
    assert found.topics == {"jobs.events": TopicIdentity(b"jobs.events", 0)}


async def test_nothing_is_read_on_when_redis_does_not_follow_from_kafka(rig: Rig) -> None:
    rig.inconsistent = True
    with pytest.raises(InconsistentError, match="users is refused"):
        await rig.applier.positions([PARTITION])


async def test_a_cleared_read_model_begins_anew(rig: Rig) -> None:
    await rig.applier.apply(records("ada"))
    await rig.model.clear([PARTITION])
    assert await rig.redis.keys("*") == []
    later = Rig(rig.redis)
    await later.applier.apply(records("ada"))
    assert await rig.users() == [b"ada"]


async def test_a_topic_that_has_grown_is_applied_from_its_start(rig: Rig) -> None:
    """What came before lies where the old count of Kafka partitions put it."""
    grown = Rig(rig.redis, kafka_partitions=5)
    assert Topics(kafka_partitions=5).partition_of("jobs.events", JOB) != PARTITION
    await grown.applier.apply(records("ada"))
    assert await grown.users() == [b"ada"]
    assert grown.letters.sent == []
