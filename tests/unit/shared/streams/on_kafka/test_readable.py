"""Whatever a broker holds can be read, within bounds."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import cramjam
import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords as AioKafkaRecords
from aiokafka.record.util import calc_crc32c, encode_varint
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords as KafkaRecords

from coplace_client.errors import RejectedError
from shared.catalogue.record import UNREADABLE, Record, TopicPartition
from shared.streams.on_kafka.batches import (
    MOST_BATCH_BYTES,
    Header,
    escape_headers,
    expand_batches,
    split,
)
from shared.streams.on_kafka.readable import ReadableRecords
from tests.support.messaging import CODEC

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LIBRARIES: dict[Callable[[bytes], Any], type[Exception]] = {
    AioKafkaRecords: CorruptRecordException,
    KafkaRecords: CorruptRecordError,
}
BOMB = bytes(100 << 20)

both = pytest.mark.parametrize("library", LIBRARIES, ids=["aiokafka", "kafka-python"])


def batch(*values: bytes, codec: str = "none", base: int = 0, header: str = "name") -> bytes:
    """A batch of one record a value."""
    builder: Any = DefaultRecordBatchBuilder(2, CODECS[codec], 0, -1, -1, -1, 1 << 30)
    for offset, value in enumerate(values):
        builder.append(offset, 1_000 + offset, b"key", value, [(header, b"h"), ("none", None)])
    built = bytearray(builder.build())
    built[:8] = base.to_bytes(8, "big")
    return bytes(built)


def renamed(built: bytes, old: bytes, new: bytes) -> bytes:
    """The batch with other bytes in a header's name, of as many, and the right checksum."""
    assert len(old) == len(new)
    header = Header.parse(built)
    return header.with_records(built[61:].replace(old, new), header.record_count)


def read(library: Callable[[bytes], Any], data: bytes) -> list[Any]:
    """All records, as a consumer reads them."""
    records, found = ReadableRecords(library, data, LIBRARIES[library]), []
    while records.has_next():
        one = records.next_batch()
        assert one is not None
        assert one.validate_crc()
        found += list(one)
    return found


@both
@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_are_read(library: Callable[[bytes], Any], codec: str) -> None:
    data = batch(b"a" * 1_000, b"b", codec=codec) + batch(b"c", codec=codec, base=2)
    found = read(library, data)
    assert [(r.offset, r.value) for r in found] == [(0, b"a" * 1_000), (1, b"b"), (2, b"c")]
    assert [*found[0].headers] == [("name", b"h"), ("none", None)]
    assert (found[1].timestamp, found[1].key) == (1_001, b"key")


@both
@pytest.mark.parametrize("codec", CODECS)
def test_a_header_name_that_is_no_utf_8_is_escaped_and_the_record_counts(
    library: Callable[[bytes], Any], codec: str
) -> None:
    plain = renamed(batch(b"a", b"b", header="nAmE"), b"nAmE", b"\xff\xfe\x00x")
    data = plain if codec == "none" else compressed(plain, codec)
    found = read(library, data + batch(b"c", base=2))
    assert [r.value for r in found] == [b"a", b"b", b"c"]
    assert found[0].headers[0] == ("\\xff\\xfe\x00x", b"h")


def packed(codec: str, records: bytes) -> bytes:
    """Records in a codec."""
    module: Any = getattr(cramjam, codec)
    pack = module.compress_raw if codec == "snappy" else module.compress
    return bytes(pack(records))


def said_to_be(codec: str, built: bytes) -> bytes:
    """The batch with another codec in its header."""
    checked: bytes = CODECS[codec].to_bytes(2, "big") + built[23:]
    crc: int = calc_crc32c(checked)
    return built[:17] + crc.to_bytes(4, "big") + checked


def compressed(plain: bytes, codec: str) -> bytes:
    """An uncompressed batch with its records compressed."""
    header = Header.parse(plain)
    return said_to_be(codec, header.with_records(packed(codec, plain[61:]), header.record_count))


@both
@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_a_batch_that_expands_beyond_the_limit_is_one_record_that_says_so(
    library: Callable[[bytes], Any], codec: str
) -> None:
    bomb = batch(BOMB, codec=codec)
    tracemalloc.start()
    found = read(library, bomb + batch(b"next", base=1))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 4 * MOST_BATCH_BYTES + 4 * len(bomb)
    assert [r.offset for r in found] == [0, 1]
    assert found[1].value == b"next"
    [(name, reason)] = found[0].headers
    assert name == UNREADABLE
    assert reason.startswith(f"1 records: {codec} does not expand to at most".encode())
    place = TopicPartition("jobs.events", 0)
    record = Record(place, 0, b"", found[0].value, tuple(found[0].headers))
    with pytest.raises(RejectedError, match="batch: 1 records"):
        CODEC.decode(record)


def test_what_expands_to_the_limit_ends_an_answer_and_the_rest_is_asked_for_again() -> None:
    large = [batch(bytes(3 << 20), codec="zstd", base=base) for base in range(50)]
    found = list(split(expand_batches(b"".join(large))))
    assert [Header.parse(one).base_offset for one in found] == [0, 1, 2]


def test_what_is_whole_damaged_or_cut_off_is_left_as_it_is() -> None:
    plain = batch(b"a", b"b", b"")
    assert escape_headers(plain) == plain
    whole, cut = batch(b"a", codec="gzip"), batch(b"b", codec="gzip", base=1)[:-3]
    assert [record.value for record in read(AioKafkaRecords, whole + cut)] == [b"a"]
    damaged = bytearray(batch(b"a" * 1_000, codec="gzip"))
    damaged[-1] ^= 1
    assert expand_batches(bytes(damaged)) == bytes(damaged)


@given(st.binary(max_size=200), st.integers(1, 5))
def test_any_bytes_in_the_partition_of_records_are_repaired_into_what_can_be_read(
    records: bytes, count: int
) -> None:
    forged = Header.parse(batch(*[b"x"] * count)).with_records(records, count)
    for library in LIBRARIES:
        assert read(library, escape_headers(forged))[-1].offset <= count - 1


def test_a_key_that_is_said_to_end_far_outside_of_the_batch_is_not_followed() -> None:
    fields = bytearray(b"\x00\x00\x00")
    encode_varint(2**45, fields.append)
    record = bytearray()
    encode_varint(len(fields), record.append)
    forged = Header.parse(batch(b"x")).with_records(bytes(record + fields), 1)
    [(name, reason)] = read(AioKafkaRecords, escape_headers(forged))[0].headers
    assert name == UNREADABLE
    assert b"1 records: is not a batch of records" in reason


@given(st.binary(min_size=1, max_size=60), st.sampled_from(["gzip", "lz4", "snappy", "zstd"]))
def test_any_bytes_in_the_partition_of_compressed_records_are_one_record_that_says_so(
    records: bytes, codec: str
) -> None:
    forged = said_to_be(codec, Header.parse(batch(b"x")).with_records(records, 1))
    plain = expand_batches(forged)
    assert Header.parse(plain).codec == 0
    assert UNREADABLE.encode() in plain or len(plain) < 61 + MOST_BATCH_BYTES
