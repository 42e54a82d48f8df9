"""Kafka's record batches as bytes: what client libraries cannot read becomes what they can.

Format 2: https://kafka.apache.org/documentation/#recordbatch
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple, Self

# Not its compiled `decode_varint`: it reads where a forged length points to, beyond the buffer.
from aiokafka.record.util import calc_crc32c, decode_varint_py, encode_varint

from shared.catalogue.record import UNREADABLE
from shared.streams.on_kafka.decompression import DecompressionError, decompress

# A client that collects what it compresses collects a message or two of 1 MiB.
MOST_BATCH_BYTES: Final = 8_388_608

_HEADER: Final = Struct(">qiibIhiqqqhii")
_LENGTH_FROM: Final = 12  # a batch's length does not count what comes before it
_MAGIC_AT: Final = 16
_CRC_FROM: Final = 21
_CODEC_BITS: Final = 0x07


class Header(NamedTuple):
    """The header of a batch, before its records."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def parse(cls, batch: bytes) -> Self:
        """Read the header of a batch of format 2."""
        return cls._make(_HEADER.unpack_from(batch))

    @property
    def codec(self) -> int:
        """Return the codec; 0 where records are not compressed."""
        return self.attributes & _CODEC_BITS

    def with_records(self, records: bytes, count: int) -> bytes:
        """Return the batch with other records, not compressed."""
        plain = self._replace(
            length=_HEADER.size - _LENGTH_FROM + len(records),
            record_count=count,
            attributes=self.attributes & ~_CODEC_BITS,
        )
        checked = _HEADER.pack(*plain)[_CRC_FROM:] + records
        return _HEADER.pack(*plain._replace(crc=calc_crc32c(checked)))[:_CRC_FROM] + checked


class _Fields(NamedTuple):
    """A record; `before` is all up to its headers."""

    before: bytes
    headers: Sequence[tuple[bytes, bytes | None]]


def split(data: bytes) -> Iterator[bytes]:
    """Yield the whole batches in an answer; the last one may have been cut off."""
    position = 0
    while position + _LENGTH_FROM <= len(data):
        length = int.from_bytes(data[position + 8 : position + _LENGTH_FROM], "big", signed=True)
        end = position + _LENGTH_FROM + length
        if length <= 0 or end > len(data):
            return
        yield data[position:end]
        position = end


def expand_batches(data: bytes) -> bytes:
    """Expand batches, so that none of them is compressed, until they have expanded to
    MOST_BATCH_BYTES: the next read asks for the rest. A batch that cannot be expanded is one record
    that says so."""
    if not any(map(_is_compressed, split(data))):
        return data
    found, room_bytes = [], MOST_BATCH_BYTES
    for batch in split(data):
        is_compressed = _is_compressed(batch)
        found.append(_expanded(batch) if is_compressed else batch)
        room_bytes -= len(found[-1]) if is_compressed else 0
        if room_bytes <= 0:
            break
    return b"".join(found)


def escape_headers(batch: bytes) -> bytes:
    """Escape header names that are not UTF-8 in an uncompressed batch."""
    header = Header.parse(batch)
    try:
        records = [_encoded(_mended(found)) for found in _records(batch, header.record_count)]
    except (ValueError, IndexError) as error:
        return _unreadable(batch, f"is not a batch of records: {error}")
    return header.with_records(b"".join(records), header.record_count)


def _is_compressed(batch: bytes) -> bool:
    return len(batch) >= _HEADER.size and batch[_MAGIC_AT] == 2 and Header.parse(batch).codec != 0


def _expanded(batch: bytes) -> bytes:
    """What was damaged on its way is left as it is: the client notices."""
    header = Header.parse(batch)
    if calc_crc32c(batch[_CRC_FROM:]) != header.crc:
        return batch
    try:
        records = decompress(header.codec, batch[_HEADER.size :], MOST_BATCH_BYTES)
    except DecompressionError as error:
        return _unreadable(batch, str(error))
    return header.with_records(records, header.record_count)


def _unreadable(batch: bytes, reason: str) -> bytes:
    """Return one record at the last offset of a batch, whose value is the batch."""
    header = Header.parse(batch)
    before = bytearray(b"\x00\x00")
    encode_varint(header.last_offset_delta, before.append)
    encode_varint(-1, before.append)
    encode_varint(len(batch), before.append)
    headers = [(UNREADABLE.encode(), f"{header.record_count} records: {reason}".encode()[:1_024])]
    return header.with_records(_encoded(_Fields(bytes(before + batch), headers)), 1)


def _records(batch: bytes, count: int) -> Iterator[_Fields]:
    buffer, position = bytearray(batch), _HEADER.size
    for _ in range(count):
        length, begin = decode_varint_py(buffer, position)
        position = begin + length
        if length <= 0 or position > len(buffer):
            raise ValueError(f"a record of {length} bytes")
        yield _fields(buffer[begin:position])
    if position < len(buffer):
        raise ValueError(f"{len(buffer) - position} bytes behind the last record")


def _fields(record: bytearray) -> _Fields:
    position = 1  # attributes
    for _ in range(2):  # differences of time and offset
        _, position = decode_varint_py(record, position)
    for _ in range(2):  # key and value
        length, position = decode_varint_py(record, position)
        position += max(length, 0)
    before = bytes(record[:position])
    count, position = decode_varint_py(record, position)
    headers = []
    for _ in range(count):
        name, position = _text(record, position)
        value, position = _text(record, position)
        headers.append((name or b"", value))
    if count < 0 or position != len(record):
        raise ValueError(f"{count} headers that end at {position} of {len(record)} bytes")
    return _Fields(before, headers)


def _text(record: bytearray, position: int) -> tuple[bytes | None, int]:
    length, position = decode_varint_py(record, position)
    if position + length > len(record):
        raise ValueError(f"a text of {length} bytes")
    return (
        (None, position)
        if length < 0
        else (
            bytes(record[position : position + length]),
            position + length,
        )
    )


def _mended(found: _Fields) -> _Fields:
    return found._replace(headers=[(_name(name), value) for name, value in found.headers])


def _name(name: bytes) -> bytes:
    return name.decode("utf-8", "backslashreplace").encode()


def _encoded(found: _Fields) -> bytes:
    record = bytearray(found.before)
    encode_varint(len(found.headers), record.append)
    for text in _flat(found.headers):
        encode_varint(-1 if text is None else len(text), record.append)
        record += text or b""
    length = bytearray()
    encode_varint(len(record), length.append)
    return bytes(length + record)


def _flat(headers: Iterable[tuple[bytes, bytes | None]]) -> Iterator[bytes | None]:
    return (text for header in headers for text in header)
