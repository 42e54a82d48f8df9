"""Charges that operators replace under a read model: Redis then has what no charge says."""

from collections.abc import Sequence

import fakeredis

from services.pricing.accounts.adapters import LEDGER, RedisAccounts
from services.pricing.accounts.model import AccountEntry
from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.streams.read_models.check import ReadModelCheck
from shared.streams.read_models.read_model import Applied
from shared.streams.stages.provenance import LastRead
from tests.contract.on_kafka import KafkaBackend

PARTITION = TopicPartition(LEDGER, 1)


def charges(first: int, count: int) -> list[NewRecord]:
    """Records of charges; what is in them does not matter here."""
    return [NewRecord(PARTITION, b"job", f"charge {first + n}".encode()) for n in range(count)]


class Accounts:
    """A read model in a Redis in memory of charges on Kafka."""

    def __init__(self, on_kafka: KafkaBackend) -> None:
        self.model = RedisAccounts(fakeredis.FakeAsyncRedis(), on_kafka.deployment.name)
        self.check = ReadModelCheck(on_kafka.deployment, "accounts", self.model)

    async def apply(self, records: Sequence[Record]) -> None:
        """Each record as one charge."""
        await self.check.check()
        entries = [(r.offset, AccountEntry("physics", f"j{r.offset}", 1, 1, 5)) for r in records]
        applied = Applied(self.check.topic_ids[LEDGER], LastRead.from_record(records[-1]))
        end = records[-1].offset + 1
        await self.model.apply(PARTITION, records[0].offset, end, entries, applied)

    async def told(self) -> list[str]:
        """What does not follow."""
        return [str(one) for one in await self.check.differences()]


def ledger(on_kafka: KafkaBackend, count: int) -> list[Record]:
    """All records, once there are so many."""
    on_kafka.until(lambda: len(on_kafka.read(PARTITION)) >= count)
    return on_kafka.read(PARTITION)


async def test_a_redis_that_is_as_old_as_the_charges_or_older_follows(
    on_kafka: KafkaBackend,
) -> None:
    accounts = Accounts(on_kafka)
    assert await accounts.told() == []
    on_kafka.append(charges(0, 20))
    await accounts.apply(ledger(on_kafka, 20)[:10])
    assert await accounts.told() == []


async def test_charges_that_are_older_than_redis_is_reported_even_after_new_charges(
    on_kafka: KafkaBackend,
) -> None:
    accounts = Accounts(on_kafka)
    on_kafka.append(charges(0, 20))
    await accounts.apply(ledger(on_kafka, 20))
    on_kafka.recreate(LEDGER)
    on_kafka.append(charges(0, 10))
    found = await accounts.told()
    assert any("prices.charges/1 ends at 10, it was read up to 20" in one for one in found)
    on_kafka.append(charges(100, 30))
    found = await accounts.told()
    assert any("prices.charges is another topic" in one for one in found)
    assert any("another record at 19 than the one that was read there" in one for one in found)
    assert all("coplace restore rebuild accounts" in one for one in found)
    await accounts.model.clear(accounts.check.partitions)
    assert await accounts.told() == []
