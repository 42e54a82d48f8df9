"""The log in memory: transactions, fencing, and workers that share units."""

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from shared.catalogue.record import NewRecord, TopicPartition
from shared.domain.rounds import RoundSource
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import FencedError
from shared.streams.stages.hooks import Backlog, Hooks, Tally
from tests.support.messaging import CODEC, START_US, TOPICS, barriers, counting, encoded, submission
from tests.support.operated_log import OperatedLog

PARTITION = TopicPartition("jobs.events", 0)
RECORD = NewRecord(PARTITION, b"key", b"value")


def test_a_commit_writes_records_and_positions_together_and_who_is_fenced_neither() -> None:
    log = OperatedLog()
    log.commit(log.open_producer("a"), [RECORD], "group", {PARTITION: 5})
    assert [record.offset for record in log.read(PARTITION)] == [0]
    end, older = log.end_offset(PARTITION), log.open_producer("a")
    log.open_producer("a")
    with pytest.raises(FencedError, match="a has a newer owner"):
        log.commit(older, [RECORD], "group", {PARTITION: 6})
    assert (log.end_offset(PARTITION), log.position("group", PARTITION)) == (end, 5)


class Counts:
    """Adds up what is metered."""

    def __init__(self) -> None:
        self.total = Tally()

    def begin(self, stage: str, unit: int, published: Iterable[str] = ()) -> None:
        pass

    def batch(self, stage: str, unit: int, tally: Tally, duration_s: float) -> None:
        self.total.add(tally)

    def watch_backlog(self, stage: str, backlog: Callable[[], Backlog]) -> None:
        pass

    def refused(self, stage: str, inconsistencies: int) -> None:
        pass


def test_every_record_is_metered_once() -> None:
    log, counts = OperatedLog(), Counts()
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
    log = OperatedLog()
    runtime = EmbeddedRuntime(log, [counting(rounds=RoundSource.CLOCK)], codec=CODEC)
    runtime.close_rounds("counting", START_US)
    found = [len(log.read(partition)) for partition in TOPICS.partitions("prices.charges")]
    assert found == [1] * 4


def test_of_each_key_compaction_keeps_the_newest_at_its_offset_and_drops_what_is_removed() -> None:
    log = OperatedLog()
    pairs = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (b"c", b"1")]
    log.append(NewRecord(PARTITION, key, value) for key, value in pairs)
    log.compact(PARTITION)
    assert [(r.offset, r.key, r.value) for r in log.read(PARTITION)] == [
        (2, b"a", b"2"),
        (4, b"c", b"1"),
    ]
    assert log.end_offset(PARTITION) == 5
    producer = log.open_producer("a")
    log.begin(producer)
    log.send(producer, [RECORD])
    log.compact(PARTITION)
    log.end(producer, is_committed=False)
    assert [record.offset for record in log.read(PARTITION)] == [2, 4], "of what is committed"
