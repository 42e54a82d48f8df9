"""The log in memory: transactions, fencing, and workers that share units."""

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from shared.catalogue.record import NewRecord, TopicPartition
from shared.domain.rounds import RoundSource
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import FencedError, InMemoryLog
from shared.streams.stages.hooks import Backlog, Hooks, Tally
from tests.support.messaging import CODEC, START_US, TOPICS, barriers, counting, encoded, submission

PARTITION = TopicPartition("jobs.events", 0)
RECORD = NewRecord(PARTITION, b"key", b"value")


def test_a_commit_writes_records_and_positions_together() -> None:
    log = InMemoryLog()
    log.commit(log.open_producer("a"), [RECORD], "group", {PARTITION: 5})
    assert [record.offset for record in log.read(PARTITION)] == [0]
    assert log.position("group", PARTITION) == 5


def test_an_older_producer_is_fenced_and_writes_nothing() -> None:
    log = InMemoryLog()
    older = log.open_producer("a")
    log.open_producer("a")
    with pytest.raises(FencedError, match="a has a newer owner"):
        log.commit(older, [RECORD], "group", {PARTITION: 5})
    assert (log.end_offset(PARTITION), log.position("group", PARTITION)) == (0, 0)


class Counts:
    """Adds up what is metered."""

    def __init__(self) -> None:
        self.total = Tally()

    def begin(self, stage: str, unit: int, published: Iterable[str] = ()) -> None:
        """Nobody asks."""

    def batch(self, stage: str, unit: int, tally: Tally, duration_s: float) -> None:
        """One batch."""
        self.total.add(tally)

    def watch_backlog(self, stage: str, backlog: Callable[[], Backlog]) -> None:
        """Nobody asks."""

    def refused(self, stage: str, inconsistencies: int) -> None:
        """Nobody asks."""


def test_every_record_is_metered_once() -> None:
    log, counts = InMemoryLog(), Counts()
    log.append(encoded(submission("a"), submission("a"), submission("b", nodes=0)))
    log.append(barriers(0, "jobs.events"))
    EmbeddedRuntime(log, [counting()], codec=CODEC, hooks=Hooks(meter=counts)).run_until_quiet()
    assert counts.total == Tally(
        records_in=7,
        records_out=6,
        dead_letters=1,
        copies_dropped=1,
        rounds_closed=4,
        published=Counter({"coplace.v1.ChargeMade": 1}),
    )


def test_a_clock_closes_the_rounds_of_its_stages() -> None:
    log = InMemoryLog()
    runtime = EmbeddedRuntime(log, [counting(rounds=RoundSource.CLOCK)], codec=CODEC)
    runtime.close_rounds("counting", START_US)
    assert [len(log.read(partition)) for partition in TOPICS.partitions("prices.charges")] == [
        1,
        1,
        1,
        1,
    ]


def test_of_each_key_compaction_keeps_the_newest_at_its_offset_and_drops_what_is_gone() -> None:
    log = InMemoryLog()
    pairs = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (b"c", b"1")]
    log.append(NewRecord(PARTITION, key, value) for key, value in pairs)
    log.compact(PARTITION)
    assert [(r.offset, r.key, r.value) for r in log.read(PARTITION)] == [
        (2, b"a", b"2"),
        (4, b"c", b"1"),
    ]
    assert log.end_offset(PARTITION) == 5


def test_compaction_leaves_an_open_transaction_alone() -> None:
    log = InMemoryLog()
    log.append(RECORD)
    producer = log.open_producer("a")
    log.begin(producer)
    log.send(producer, [RECORD])
    log.compact(PARTITION)
    log.end(producer, is_committed=False)
    assert [record.offset for record in log.read(PARTITION)] == [0]
