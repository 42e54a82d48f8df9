"""What both logs promise of transactions: the simulator's answers rest on it."""

from collections.abc import Sequence

import pytest

from shared.catalogue.record import NewRecord, TopicPartition
from tests.contract.backends import Backend
from tests.support.messaging import encoded, submission

PARTITION, OTHER = TopicPartition("prices.charges", 0), TopicPartition("prices.charges", 1)
INPUT = TopicPartition("jobs.events", 0)
GROUP = "counting"


def records(*names: str, partition: TopicPartition = PARTITION) -> list[NewRecord]:
    """Records with these keys at a partition."""
    [like] = encoded(submission("like"))
    return [NewRecord(partition, name.encode(), like.value, like.headers) for name in names]


def end(backend: Backend, partition: TopicPartition = PARTITION) -> Sequence[str]:
    """Keys of what a reader sees of a partition, up to a record that is appended now."""
    backend.append(records("end", partition=partition))
    backend.until(lambda: any(found.key == b"end" for found in backend.read(partition)))
    return [found.key.decode() for found in backend.read(partition)]


def test_nobody_reads_what_is_not_committed_nor_what_is_behind_it(backend: Backend) -> None:
    slow, quick = backend.producer("slow"), backend.producer("quick")
    slow.begin()
    slow.send(records("first"))
    quick.begin()
    quick.send([*records("second"), *records("elsewhere", partition=OTHER)])
    quick.commit()
    backend.until(lambda: bool(backend.read(OTHER)))
    assert not backend.read(PARTITION)
    slow.commit()
    assert end(backend) == ["first", "second", "end"]


def test_what_is_aborted_is_never_read_and_what_follows_is(backend: Backend) -> None:
    producer = backend.producer("a")
    producer.begin()
    producer.send(records("never"))
    producer.send_positions(GROUP, {INPUT: 7})
    producer.abort()
    producer.begin()
    producer.send(records("then"))
    producer.commit()
    assert end(backend) == ["then", "end"]
    assert backend.position(GROUP, INPUT) == 0


def test_a_transaction_ends_with_a_marker_that_has_an_offset(backend: Backend) -> None:
    producer = backend.producer("a")
    producer.begin()
    producer.send(records("one", "two"))
    producer.commit()
    # A broker answers before it writes the marker.
    backend.until(lambda: len(backend.read(PARTITION)) == 2)
    end(backend)
    assert [found.offset for found in backend.read(PARTITION)] == [0, 1, 3]


def test_positions_move_with_the_transaction(backend: Backend) -> None:
    producer = backend.producer("a")
    producer.begin()
    producer.send_positions(GROUP, {INPUT: 7})
    assert backend.position(GROUP, INPUT) == 0
    producer.commit()
    backend.until(lambda: backend.position(GROUP, INPUT) == 7)


def test_a_new_owner_ends_what_the_former_one_left_open(backend: Backend) -> None:
    former = backend.producer("a")
    former.begin()
    former.send(records("left"))
    backend.producer("a")
    assert end(backend) == ["end"]


@pytest.mark.parametrize("step", ["send", "commit"])
def test_a_former_owner_is_fenced_wherever_it_is(backend: Backend, step: str) -> None:
    former = backend.producer("a")
    former.begin()
    former.send(records("before"))
    backend.producer("a")
    with pytest.raises(Exception, match=r"(?i)fenced|newer owner|epoch"):
        former.send(records("late")) if step == "send" else former.commit()
    assert end(backend) == ["end"]


def test_what_retention_deleted_is_removed_and_the_rest_keeps_its_offsets(backend: Backend) -> None:
    backend.append(records("a", "b", "c"))
    backend.delete_before(PARTITION, 2)
    end(backend)
    assert [(found.offset, found.key) for found in backend.read(PARTITION)] == [
        (2, b"c"),
        (3, b"end"),
    ]
