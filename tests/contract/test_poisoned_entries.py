"""An entry at which Redis's script always fails: it alone is left out, on every backend."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

import fakeredis
import pytest
import redis
import redis.asyncio
from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.pricing_pb2 import ChargeMade
from redis.exceptions import ResponseError

from services.pricing.accounts.adapters import LEDGER, RedisAccounts
from services.pricing.accounts.model import AccountEntry
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.pricing.charge import recompute
from shared.process.settings import Settings
from shared.streams.in_memory.log import InMemoryLog
from shared.streams.on_kafka.clients import Reader
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.failures import DEFAULT_AFTER
from tests.chaos.accounts import Accounts
from tests.chaos.journal import Journal
from tests.contract.on_kafka import KafkaBackend
from tests.support.messaging import CODEC, START_US, TOPICS

# Ten of the largest charges are more than a counter of Redis holds.
_MOST_SU: Final = 10**12
_WHALES: Final = 10
_MICRO: Final = 1_000_000
_JOB: Final = "north/alpha/1/0"
_PARTITION: Final = TOPICS.partition_of(LEDGER, _JOB)


def charge(account: str, attempt: int, core_s: int) -> NewRecord:
    """A charge with its proof, at a rate of 1,000 SU a core second; all lie in one partition."""
    made = ChargeMade(
        job_id=_JOB,
        attempt=attempt,
        revision=1,
        account=account,
        rate_su_per_core_s="1000",
        cores=1000,
        runtime_s=core_s / 1000,
    )
    price = recompute(made)
    made.price_su = f"{price.price_su:f}"
    made.state_of_practice_su = f"{price.state_of_practice_su:f}"
    made.solo_time_s, made.slowdown_ratio = price.solo_time_s, price.slowdown_ratio
    event = Event(f"pricing/{_JOB}/{attempt}", "pricing", START_US, _JOB, made)
    return CODEC.encode(Publish(LEDGER, event))


def poisoned() -> list[NewRecord]:
    """Small charges around large ones, of which the last overflows its account."""
    small = [charge("physics", attempt, 1) for attempt in range(1, 61)]
    large = [charge("whale", 100 + number, _MOST_SU // 1000) for number in range(_WHALES)]
    return [*small[:30], *large, *small[30:]]


class Ledger(Protocol):
    """A topic of charges, and a process that keeps balances of it."""

    def append(self, records: Sequence[NewRecord]) -> None:
        """Append records to the charges."""

    def live(self) -> str:
        """Start the process and let it read all there is; what it ended with, or nothing."""

    def spent(self) -> Mapping[str, int]:
        """Balances."""

    def letters(self) -> list[DeadLetter]:
        """What was left out."""

    def close(self) -> None:
        """Leave nothing behind."""


class InMemory:
    """A log in memory, the process's applier in this one."""

    def __init__(self) -> None:
        self._log = InMemoryLog()
        self._deployment = Deployment.from_settings(Settings(kafka_partitions=4))
        self._accounts = Accounts(self._log, self._deployment, Journal())

    def append(self, records: Sequence[NewRecord]) -> None:
        """Append records to the charges."""
        self._log.append(records)

    def live(self) -> str:
        """One life."""
        self._accounts.restart()
        try:
            for _batch in range(4):
                self._accounts.step()
        except ResponseError as error:
            return str(error)
        return ""

    def spent(self) -> Mapping[str, int]:
        """Balances."""
        return self._accounts.spent_micro_su()

    def letters(self) -> list[DeadLetter]:
        """What was left out."""
        partitions = self._deployment.topics.partitions(f"dlq.{LEDGER}")
        return _letters(
            [record for partition in partitions for record in self._log.read(partition)]
        )

    def close(self) -> None:
        """Leave nothing behind."""
        self._accounts.close()


class OnServers:
    """Kafka, Redis, and the process as it is."""

    def __init__(self, on_kafka: KafkaBackend, redis_url: str) -> None:
        self._kafka = on_kafka
        self._redis_url = redis_url
        self._redis = redis.Redis.from_url(redis_url, decode_responses=True)
        self._expected = 0

    def append(self, records: Sequence[NewRecord]) -> None:
        """Append records to the charges."""
        self._kafka.append(records)
        self._expected += len(records)

    def live(self) -> str:
        """One life: it ends by itself, or has passed all records."""
        environment = {"COPLACE_REDIS_URL": self._redis_url, "COPLACE_QUARANTINE_AFTER": "3"}
        worker = self._kafka.start_process("services.pricing.accounts", environment)
        self._kafka.until(lambda: worker.ended or self._passed() == self._expected)
        if worker.ended:
            return worker.last_words
        worker.stop()
        return ""

    def spent(self) -> Mapping[str, int]:
        """Balances."""
        found = self._redis.hgetall(self._kafka.deployment.name("accounts:spent"))
        assert isinstance(found, dict)
        return {str(account): int(amount) for account, amount in found.items()}

    def letters(self) -> list[DeadLetter]:
        """What was left out."""
        deployment = self._kafka.deployment
        with Reader(deployment, deployment.topics.partitions(f"dlq.{LEDGER}")) as reader:
            return _letters(list(reader.to_end()))

    def close(self) -> None:
        """Leave nothing behind."""
        self._redis.close()

    def _passed(self) -> int:
        key = self._kafka.deployment.name(f"position:{LEDGER}:{_PARTITION.kafka_partition}")
        return int(str(self._redis.get(key) or 0))


def _letters(records: Sequence[Record]) -> list[DeadLetter]:
    payloads = [CODEC.decode(record).payload for record in records]
    return [payload for payload in payloads if isinstance(payload, DeadLetter)]


@pytest.fixture(params=["memory", pytest.param("servers", marks=pytest.mark.rest)])
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """Each in turn."""
    if request.param == "memory":
        found: Ledger = InMemory()
    else:
        on_kafka = request.getfixturevalue("on_kafka")
        found = OnServers(on_kafka, request.getfixturevalue("redis_url"))
    yield found
    found.close()


def test_an_entry_that_always_fails_is_quarantined_after_restarts_and_nothing_else_is_lost(
    ledger: Ledger,
) -> None:
    ledger.append(poisoned())
    for _life in range(DEFAULT_AFTER):
        assert "overflow" in ledger.live()
        assert ledger.letters() == []
    assert ledger.live() == ""
    [letter] = ledger.letters()
    assert (letter.kind, letter.stage) == ("quarantined", "accounts")
    assert (letter.topic, letter.kafka_partition) == _PARTITION
    assert letter.offset == 30 + _WHALES - 1
    assert len(letter.stack_digest) == 64
    assert "overflow" in letter.reason
    whales = (_WHALES - 1) * _MOST_SU * _MICRO
    assert ledger.spent() == {"physics": 60 * 1000 * _MICRO, "whale": whales}
    ledger.append([charge("physics", 1000, 1)])
    assert ledger.live() == ""
    assert ledger.spent()["physics"] == 61 * 1000 * _MICRO


async def test_a_revision_that_fails_leaves_the_revision_before_it_as_it_was() -> None:
    model = RedisAccounts(fakeredis.FakeAsyncRedis(), str)
    first = AccountEntry("physics", "j", 1, 1, 5)
    await model.apply(TopicPartition(LEDGER, 0), 0, 1, [(0, first)])
    broken = AccountEntry("physics", "j", 1, 2, 2**64)
    for _time in range(2):
        with pytest.raises(ResponseError):
            await model.apply(TopicPartition(LEDGER, 0), 1, 2, [(1, broken)])
    assert await model.spent_micro_su() == {"physics": 5}
