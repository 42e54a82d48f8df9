"""Whoever reads a topic to its end stops there: at markers of transactions, at the end of what was
deleted, and where there is nothing; on real Kafka, with every reader that there is."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

import pytest
from kafka import KafkaProducer
from kafka import TopicPartition as KafkaPartition

from lab.emulator.adapters import RecordedAnswers
from shared.authority.following import Followed
from shared.catalogue.record import TopicPartition
from shared.streams.on_kafka.admin import admin_client
from shared.streams.on_kafka.clients import Reader
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.transactions import read_changelog
from tests.contract.on_kafka import KafkaBackend
from tests.support.messaging import TOPICS, encoded, submission
from tests.support.patience import PATIENCE_S

TOPIC: Final = "jobs.events"
PLACE: Final = TopicPartition(TOPIC, 0)
RECORDS: Final = 5
WRITTEN: Final = [
    record
    for record in encoded(*(submission(f"j{number}") for number in range(40)))
    if record.partition == PLACE
][:RECORDS]


class Written:
    """One partition of a topic, and how it ends."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.place = KafkaPartition(deployment.name(TOPIC), 0)
        self._producers = 0

    def plain(self) -> Self:
        """Records without a transaction."""
        self._send({})
        return self

    def committed(self, times: int = 1) -> Self:
        """Records of transactions that were committed."""
        self._in_transaction(times, lambda producer: producer.commit_transaction())
        return self

    def aborted(self, times: int = 1) -> Self:
        """Records of transactions that were given up."""
        self._in_transaction(times, lambda producer: producer.abort_transaction())
        return self

    def deleted(self, before: int = -1) -> Self:
        """Delete what lies before an offset; -1 is the end."""
        admin = admin_client(self.deployment)
        admin.delete_records({self.place: before})
        admin.close()
        return self

    def _in_transaction(self, times: int, end: Callable[[Any], None]) -> None:
        self._producers += 1
        settings = {"transactional_id": self.deployment.name(f"ends-{self._producers}")}
        producer = KafkaProducer(**self.deployment.connection, **settings)
        producer.init_transactions()
        for _ in range(times):
            producer.begin_transaction()
            self._append(producer)
            end(producer)
        producer.close()

    def _send(self, settings: dict[str, Any]) -> None:
        producer = KafkaProducer(**self.deployment.connection, **settings)
        self._append(producer)
        producer.close()

    def _append(self, producer: Any) -> None:
        for record in WRITTEN:
            sent = {"key": record.key, "value": record.value, "headers": list(record.headers)}
            producer.send(self.place.topic, partition=0, **sent)
        producer.flush()


ENDINGS: Final[dict[str, tuple[Callable[[Written], object], int]]] = {
    "nothing": (lambda _: None, 0),
    "a record": (lambda at: at.plain(), 5),
    "a commit": (lambda at: at.committed(), 5),
    "an abort": (lambda at: at.aborted(), 0),
    "several commits": (lambda at: at.committed(3), 15),
    "several aborts": (lambda at: at.aborted(3), 0),
    "a commit and aborts": (lambda at: at.committed().aborted(2), 5),
    "all deleted": (lambda at: at.plain().deleted(), 0),
    "all deleted with a commit": (lambda at: at.committed(2).deleted(), 0),
    "an abort, all deleted": (lambda at: at.aborted().deleted(), 0),
    "deleted to the marker": (lambda at: at.committed().deleted(RECORDS), 0),
    "half deleted": (lambda at: at.committed(2).deleted(RECORDS + 1), 5),
}


def by_reader(deployment: Deployment) -> int:
    """kafka-python, as the command line reads."""
    with Reader(deployment, TOPICS.partitions(TOPIC)) as reader:
        return len(list(reader.to_end()))


def by_reader_beyond(deployment: Deployment) -> int:
    """The same, from an offset on that may not be there any more."""
    with Reader(deployment, [PLACE]) as reader:
        reader.seek(PLACE, 0)
        return len(list(reader.to_end()))


def by_door(deployment: Deployment) -> int:
    """What ingest knows, which asks again while it reads on."""
    return asyncio.run(_followed(deployment, {}))


def by_door_since(deployment: Deployment) -> int:
    """The same, from a time on."""
    return asyncio.run(_followed(deployment, {TOPIC: 1_000}))


async def _followed(deployment: Deployment, since_us: dict[str, int]) -> int:
    kinds, found = deployment.topics.spec(TOPIC).messages, list[object]()
    followed = Followed(deployment, [TOPIC], kinds, found.append, since_us)
    await followed.start()
    running = asyncio.create_task(followed.run())
    await followed.caught_up()
    running.cancel()
    await asyncio.wait([running])
    await followed.stop()
    return len(found)


def by_recovery(deployment: Deployment) -> int:
    """A state: one record a key, of those that were written."""
    return len(asyncio.run(read_changelog(deployment, PLACE)))


def by_emulator(deployment: Deployment) -> int:
    """A run's answers of before."""

    async def read() -> int:
        async with RecordedAnswers(deployment, [TOPIC]):
            return 0

    return asyncio.run(read())


READERS: Final[Sequence[Callable[[Deployment], int]]] = (
    *(by_reader, by_reader_beyond, by_door, by_door_since, by_recovery, by_emulator),
)


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_reader_stops_at_an_end_of(ending: str, on_kafka: KafkaBackend) -> None:
    write, expected = ENDINGS[ending]
    write(Written(on_kafka.deployment))
    for reader in READERS:
        found = within(PATIENCE_S, reader, on_kafka.deployment)
        if reader is by_recovery:
            assert found == min(expected, RECORDS), reader.__name__
        elif reader is not by_emulator:
            assert found == expected, reader.__name__


def within(limit_s: float, read: Callable[[Deployment], int], deployment: Deployment) -> int:
    """What a reader returns, which must not take for ever."""
    found: list[int] = []
    reading = threading.Thread(target=lambda: found.append(read(deployment)), daemon=True)
    reading.start()
    reading.join(limit_s)
    assert not reading.is_alive(), f"{read.__name__} goes on for ever"
    [count] = found
    return count
