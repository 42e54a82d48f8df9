from hypothesis import given
from hypothesis import strategies as st

from shared.catalogue.record import Record, TopicPartition
from shared.streams.stages.provenance import (
    PROVENANCE_KEY,
    LastRead,
    Provenance,
    TopicIdentity,
    content_sha256,
    split_state,
)

PARTITIONS = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(3)]
TOPICS = {"a": TopicIdentity(b"1" * 16, 3), "b": TopicIdentity(b"2" * 16, 3)}


@given(
    positions=st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 2**63 - 1)),
    read=st.sets(st.sampled_from(PARTITIONS)),
    written_to=st.dictionaries(st.sampled_from(PARTITIONS), st.integers(1, 2**63 - 1)),
    commits=st.integers(0, 2**63),
)
def test_a_changelog_keeps_a_provenance_as_it_is(
    positions: dict[TopicPartition, int],
    read: set[TopicPartition],
    written_to: dict[TopicPartition, int],
    commits: int,
) -> None:
    last_read = {
        partition: LastRead(positions[partition], b"12345678")
        for partition in read & set(positions)
    }
    found = Provenance(commits, 1, TOPICS, positions, last_read, written_to)
    assert Provenance.from_bytes(found.to_bytes()) == found


def test_a_commit_without_records_keeps_what_was_known() -> None:
    record = Record(PARTITIONS[0], 4, b"k", b"v", (("h", b"w"),))
    first = Provenance(topics=TOPICS).after(
        {PARTITIONS[0]: 5}, {PARTITIONS[0]: record}, {PARTITIONS[3]: 2}
    )
    second = first.after({}, {}, {PARTITIONS[3]: 3})
    assert (first.commits, second.commits) == (1, 2)
    assert (second.positions, second.last_read) == (first.positions, first.last_read)
    assert second.written_to == {PARTITIONS[3]: 3}


def test_a_record_is_known_by_key_value_and_headers() -> None:
    base = Record(PARTITIONS[0], 4, b"k", b"v", (("h", b"w"),))
    others = [
        Record(PARTITIONS[0], 4, b"kv", b"", (("h", b"w"),)),
        Record(PARTITIONS[0], 4, b"k", b"v", (("hw", b""),)),
        Record(PARTITIONS[0], 4, b"k", b"v"),
    ]
    assert len({content_sha256(one) for one in [base, *others]}) == 4
    assert content_sha256(base) == content_sha256(
        Record(PARTITIONS[1], 9, b"k", b"v", (("h", b"w"),))
    )


def test_the_provenance_is_no_part_of_the_state() -> None:
    provenance = Provenance(commits=3)
    restored = {"a": b"1", PROVENANCE_KEY: provenance.to_bytes()}
    assert split_state(restored) == (provenance, {"a": b"1"})
    assert split_state({"a": b"1"}) == (None, {"a": b"1"})
