"""A member of a consumer group without Kafka: what it makes of positions that are missing."""

import asyncio
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError

from shared.catalogue.record import TopicPartition
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.driver import StageMember
from shared.streams.stages.unit import EventTimeLimit
from tests.support.messaging import CODEC, counting

_OWN, _GIVEN_UP = KafkaPartition("t.jobs.events", 0), KafkaPartition("t.jobs.events", 1)


class _Failing:
    """A consumer whose next answer is an error."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    async def getmany(self, timeout_ms: int) -> NoReturn:
        raise self._error


def _member(error: KafkaError, monkeypatch: pytest.MonkeyPatch) -> StageMember:
    """A member with one unit at work, on the first partition; Kafka still has all that it had."""

    async def checked(_member: StageMember) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(StageMember, "_check", checked)
    deployment = Deployment(Settings(namespace="t"), CODEC, EventTimeLimit())
    member: Any = StageMember(deployment, counting("events"))
    member._consumer = _Failing(error)
    member._units = {0: SimpleNamespace(committed={TopicPartition("jobs.events", 0): 7})}
    return cast("StageMember", member)


@pytest.mark.parametrize(
    "error", [NoOffsetForPartitionError(_GIVEN_UP), OffsetOutOfRangeError({_GIVEN_UP: 7})], ids=str
)
def test_what_the_client_says_of_a_partition_that_was_given_up_is_no_error(
    error: KafkaError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers join: the first one keeps the error that it had before the rebalance."""
    assert asyncio.run(_member(error, monkeypatch)._fetch()) == {}


@pytest.mark.parametrize(
    "error", [NoOffsetForPartitionError(_OWN), OffsetOutOfRangeError({_OWN: 7})], ids=str
)
def test_a_position_of_its_own_that_kafka_does_not_have_ends_the_member(
    error: KafkaError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never does it go on from anywhere else."""
    with pytest.raises(type(error)):
        asyncio.run(_member(error, monkeypatch)._fetch())
