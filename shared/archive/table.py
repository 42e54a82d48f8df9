"""Records as columns, and as the bytes of a Parquet file: the same bytes from the same records.

An analyst reads plain columns. What these cannot say exactly is beside them: `key_bytes` where
a key is no UTF-8, `headers` where they are not those of Coplace in its order.
"""

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from coplace_client.errors import RejectedError
from shared.archive.record import ArchivedRecord, name_bytes, name_of
from shared.catalogue.codec import format_time, parse_time
from shared.catalogue.record import Headers

WRITER: Final = f"pyarrow {pa.__version__}"
_TEXTS: Final = ("ce_id", "ce_type", "ce_source")
_TIME: Final = "ce_time"
_TRACE: Final = "traceparent"
_HEADERS: Final = (*_TEXTS, _TIME, _TRACE)
_US: Final = pa.timestamp("us", "UTC")
_MS: Final = pa.timestamp("ms", "UTC")

SCHEMA: Final = pa.schema(
    [
        pa.field("kafka_partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("time", _MS, nullable=False),
        pa.field("key", pa.string()),
        *(pa.field(name, pa.string()) for name in _TEXTS),
        pa.field(_TIME, _US),
        pa.field(_TRACE, pa.string()),
        pa.field("value", pa.binary()),
        pa.field("key_bytes", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([("name", pa.binary()), ("value", pa.binary())]))),
    ]
)
_DELTAS: Final = ("offset", "time", _TIME)
_DICTIONARIES: Final = ("kafka_partition", "ce_type", "ce_source")
_LEVEL: Final = 9
_METADATA: Final = "coplace."


def to_batch(records: Sequence[ArchivedRecord]) -> Any:
    """Return records as columns."""
    described = [_described(record.headers) for record in records]
    keys = [_text(record.key) for record in records]
    columns: dict[str, list[Any]] = {
        "kafka_partition": [record.kafka_partition for record in records],
        "offset": [record.offset for record in records],
        "time": [record.timestamp_ms for record in records],
        "key": keys,
        **{name: [each.get(name) for each in described] for name in _HEADERS},
        "value": [record.value for record in records],
        "key_bytes": [
            record.key if key is None else None for record, key in zip(records, keys, strict=True)
        ],
        "headers": [
            None if _restored(each) == record.headers else _pairs(record.headers)
            for record, each in zip(records, described, strict=True)
        ],
    }
    arrays = [_array(columns[field.name], field.type) for field in SCHEMA]
    return pa.record_batch(arrays, schema=SCHEMA)


def to_parquet(batches: Sequence[Any], described: Mapping[str, str]) -> bytes:
    """Return the file of these columns, with what describes it in its metadata."""
    metadata = {f"{_METADATA}{name}": value for name, value in described.items()}
    schema = SCHEMA.with_metadata(metadata)
    # One chunk a column: bytes must not depend on how records came.
    table = (
        pa.Table.from_batches(batches, SCHEMA).combine_chunks().replace_schema_metadata(metadata)
    )
    target = BytesIO()
    with pq.ParquetWriter(
        target,
        schema,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=list(_DICTIONARIES),
        column_encoding=dict.fromkeys(_DELTAS, "DELTA_BINARY_PACKED"),
        write_statistics=True,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=max(len(table), 1))
    return target.getvalue()


def from_parquet(data: bytes, topic: str) -> Iterator[ArchivedRecord]:
    """Yield the records of a file. Raises ValueError for what is no file of an archive."""
    try:
        table = pq.read_table(pa.BufferReader(data), use_threads=False)
        for batch in table.select(SCHEMA.names).cast(SCHEMA).to_batches(max_chunksize=1_024):
            yield from _records(batch, topic)
    except (pa.ArrowException, KeyError) as error:
        raise ValueError(f"is not a Parquet file of an archive: {error}") from None


def _records(batch: Any, topic: str) -> Iterator[ArchivedRecord]:
    """A row becomes the record that it was made of."""
    numbers = {name: batch.column(name).cast(pa.int64()).to_pylist() for name in _DELTAS}
    columns = {
        name: numbers.get(name) or batch.column(name).to_pylist() for name in batch.schema.names
    }
    described = zip(*(columns[name] for name in _HEADERS), strict=True)
    for values, partition, offset, time_ms, key, value, key_bytes, headers in zip(
        described,
        *(columns[name] for name in ("kafka_partition", "offset", "time", "key", "value")),
        *(columns[name] for name in ("key_bytes", "headers")),
        strict=True,
    ):
        exact_key = key_bytes if key is None else key.encode()
        if headers is None:
            exact = _restored(dict(zip(_HEADERS, values, strict=True)))
        else:
            exact = tuple((name_of(each["name"]), each["value"]) for each in headers)
        yield ArchivedRecord(topic, partition, offset, time_ms, exact_key, value, exact)


def _array(values: Sequence[Any], kind: Any) -> Any:
    """Times come as numbers."""
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def _described(headers: Headers) -> dict[str, Any]:
    """Return the columns of headers; of several of a name the last counts, as elsewhere."""
    found: dict[str, Any] = {}
    for name, value in headers:
        if name == _TIME:
            found[name] = _time_us(value)
        elif name in _HEADERS:
            found[name] = _text(value)
    return found


def _restored(described: Mapping[str, Any]) -> Headers:
    """Return the headers that these columns say exactly."""
    return tuple(
        (name, (format_time(value) if name == _TIME else value).encode())
        for name in _HEADERS
        if (value := described.get(name)) is not None
    )


def _time_us(value: bytes) -> int | None:
    try:
        return parse_time(value.decode())
    except (RejectedError, UnicodeDecodeError, OverflowError):
        return None


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _pairs(headers: Headers) -> list[dict[str, Any]]:
    return [{"name": name_bytes(name), "value": value} for name, value in headers]
