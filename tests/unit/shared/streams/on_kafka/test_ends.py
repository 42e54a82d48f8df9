"""Whether a reader has all that was committed: ends that positions reach, and ends that they do
not."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, cast

import pytest
from aiokafka import TopicPartition as KafkaPartition

from shared.streams.on_kafka.ends import EndsOfConsumer
from tests.support.seeds import of_each_seed

P = KafkaPartition("topic", 0)
Q = KafkaPartition("topic", 1)


class Consumer:
    """A consumer of logs that are lists of offsets with records; what is asked for the end is
    answered with these ends, one after the other."""

    def __init__(self, logs: Mapping[KafkaPartition, Sequence[int]], *ends: int) -> None:
        self._logs = logs
        self._ends: Iterator[int] = iter(ends)
        self._end = 0
        self._positions = dict.fromkeys(logs, 0)
        self.read: list[tuple[KafkaPartition, int]] = []
        self.asked = 0

    async def end_offsets(self, wanted: Sequence[KafkaPartition]) -> dict[KafkaPartition, int]:
        self.asked += 1
        self._end = next(self._ends, self._end)
        return dict.fromkeys(wanted, self._end)

    async def position(self, at: KafkaPartition) -> int:
        return self._positions[at]

    def poll(self, most: int = 2) -> None:
        for at, offsets in self._logs.items():
            for offset in [each for each in offsets if each >= self._positions[at]][:most]:
                self.read.append((at, offset))
                self._positions[at] = offset + 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Each look at it is 0.2 s later, as polls that bring nothing are."""
    now = [0.0]

    def look() -> float:
        now[0] += 0.2
        return now[0]

    monkeypatch.setattr("shared.streams.on_kafka.ends.time.monotonic", look)
    return now


def read_all(consumer: Consumer, most_polls: int = 200) -> int:
    """Read as everyone does; return how many polls that took."""

    async def read() -> int:
        ends = await EndsOfConsumer.of(cast("Any", consumer), list(consumer._logs))
        for polls in range(most_polls):
            if not await ends.are_ahead():
                return polls
            consumer.poll()
        raise AssertionError("it goes on for ever")

    return asyncio.run(read())


def test_an_end_that_is_reached_is_asked_for_once(clock: list[float]) -> None:
    consumer = Consumer({P: range(5)}, 5)
    assert read_all(consumer) == 3
    assert (len(consumer.read), consumer.asked) == (5, 1)


def test_an_empty_partition_is_read_without_a_poll(clock: list[float]) -> None:
    assert read_all(Consumer({P: ()}, 0)) == 0


def test_offsets_that_hold_nothing_behind_the_last_record_are_not_awaited(
    clock: list[float],
) -> None:
    """A broker removed the marker of the last transaction."""
    consumer = Consumer({P: range(5), Q: range(7)}, 7)
    read_all(consumer)
    assert len(consumer.read) == 12
    assert consumer.asked > 3


def test_a_log_that_became_shorter_is_read_to_its_end(clock: list[float]) -> None:
    consumer = Consumer({P: range(5)}, 90, 5)
    read_all(consumer)
    assert (len(consumer.read), consumer.asked) == (5, 2)


def test_a_reader_that_starts_late_loses_nothing(clock: list[float]) -> None:
    """A broker that slows its reader down answers twice with nothing."""

    class Slow(Consumer):
        def poll(self, most: int = 2) -> None:
            super().poll(most if self.asked > 2 else 0)

    consumer = Slow({P: range(5)}, 5)
    read_all(consumer)
    assert len(consumer.read) == 5


@pytest.mark.usefixtures("clock")
@of_each_seed(range(200))
def test_whatever_gaps_a_log_has_all_records_before_its_end_are_read(seed: int) -> None:
    rng = Random(seed)
    logs = {each: sorted(rng.sample(range(40), rng.randrange(40))) for each in (P, Q)}
    end = rng.randrange(45)
    consumer = Consumer(logs, end, *(rng.choice([end, rng.randrange(45)]) for _ in range(3)))
    read_all(consumer)
    read = set(consumer.read)
    shortest = min(end, *([consumer._end] if consumer.asked > 1 else [end]))
    for at, offsets in logs.items():
        assert {(at, each) for each in offsets if each < shortest} <= read
