"""Events to records and back: protobuf values with CloudEvents binary headers.

The attribute names are those of CloudEvents 1.0's Kafka protocol binding, binary mode, with an
underscore after `ce`; `traceparent` is W3C Trace Context.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import (
    NewRecord,
    Record,
    TopicPartition,
    require_readable,
    type_of,
)
from shared.catalogue.schemas import MESSAGES
from shared.catalogue.texts import MOST_TEXT_BYTES, require_short_texts, truncate
from shared.catalogue.topics import ROUND_ENDED, Origin, Topics, TopicSpec, partition_of

MAX_MESSAGE_BYTES = 1_048_576
# A record's key and headers and the frame of its batch come on top of its value, and so do the
# attributes of an event that is kept whole in a changelog, where JSON makes six bytes of one.
ENVELOPE_BYTES = 131_072
_FRAME_BYTES = 4_096
# The field of the error for a record that lies where its key does not belong.
WRONG_PARTITION = "kafka_partition"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class OversizeError(Exception):
    """A stage made what no record can carry: nobody bounded what it was made of."""


def format_time(time_us: int) -> str:
    """Format a time as RFC 3339 with microseconds. Raises RejectedError outside the years 1970 to
    9999."""
    if time_us < 0:
        raise RejectedError("time_us", f"must not lie before 1970, got {time_us}")
    seconds, microseconds = divmod(time_us, 1_000_000)
    return f"{_format_seconds(seconds)}.{microseconds:06d}Z"


@lru_cache(maxsize=1 << 12)
def _format_seconds(seconds: int) -> str:
    """Events of one second are many."""
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        problem = f"must lie before the year 10000, got {seconds} s"
        raise RejectedError("time_us", problem) from None
    return moment.replace(tzinfo=None).isoformat(timespec="seconds")


def parse_time(text: str) -> int:
    """Parse a time into microseconds since the epoch. Raises RejectedError unless it is RFC 3339
    with an offset."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise RejectedError("ce_time", f"must be RFC 3339, got {text[:40]!r}") from None
    if moment.tzinfo is None:
        raise RejectedError("ce_time", f"must say its offset from UTC, got {text[:40]!r}")
    if moment < _EPOCH:
        raise RejectedError("ce_time", f"must not lie before 1970, got {text[:40]!r}")
    return (moment - _EPOCH) // _MICROSECOND


def count_unknown_fields(event: Event) -> int:
    """Count the fields of the message that this version does not know; they are carried, not
    read."""
    return len(UnknownFieldSet(event.payload))


def is_barrier(record: Record) -> bool:
    """Return whether a record says that it ends a round."""
    return type_of(record) == ROUND_ENDED.encode()


class Codec:
    """Encodes and decodes the events of a deployment's topics.

    Where nobody guards the log (`is_guarded` False), anybody can write what only stages should.
    """

    def __init__(
        self,
        topics: Topics,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        *,
        is_guarded: bool = True,
    ) -> None:
        self.topics = topics
        self.max_message_bytes = max_message_bytes
        self.is_guarded = is_guarded

    def encode(self, publish: Publish) -> NewRecord:
        """Encode an event as the record to append.

        Raises ValueError for a message or key that the topic does not hold, RejectedError for a
        message beyond the size limit.
        """
        topic, event = publish.topic, publish.event
        expected = self.topics.spec(topic).key_of(event.payload)
        if event.key != expected:
            raise ValueError(f"{event.id} must have the key {expected!r}, got {event.key!r}")
        return self._new_record(self.topics.partition_of(topic, event.key), event)

    def encode_barrier(self, partition: TopicPartition, event: Event) -> NewRecord:
        """Encode a round's barrier, which goes to a given partition whatever its key."""
        self.topics.spec(partition.topic).key_of(event.payload)
        return self._new_record(partition, event)

    def check_state(self, key: str, value: bytes | None) -> None:
        """Raise OversizeError for an entry that a changelog cannot hold."""
        size_bytes = len(key.encode()) + len(value or b"")
        limit_bytes = self.max_message_bytes + ENVELOPE_BYTES - _FRAME_BYTES
        if size_bytes > limit_bytes:
            problem = f"has {size_bytes} bytes, the limit is {limit_bytes}"
            raise OversizeError(f"the state under {key[:80]!r} {problem}")

    def decode(self, record: Record, *, of_any_count: bool = False) -> Event:
        """Decode the event of a record, checked where others than our own stages can write its
        topic. Raises RejectedError, which names what is wrong with it.

        A topic that has grown holds records where its former count of Kafka partitions put them.
        Who reads all of it and minds no order of partitions takes them too, and so does who kept a
        record since before: `of_any_count`.
        """
        spec = self.topics.spec(record.partition.topic)
        event = self._parsed(record, spec)
        if spec.origin is Origin.OUTSIDE or not self.is_guarded:
            self._check_payload(event.payload, record)
        if event.type != ROUND_ENDED:
            self._check_key(event, spec.messages[event.type].fill(event.payload))
            if not of_any_count:
                self._check_partition(record)
        return event

    def decode_kept(self, record: Record) -> Event:
        """Decode the event of a record that was decoded, and so checked, before."""
        return self._parsed(record, self.topics.spec(record.partition.topic))

    def _parsed(self, record: Record, spec: TopicSpec) -> Event:
        headers = dict(record.headers)
        require_readable(headers)
        value = self._checked_value(record)
        message_type = _text(headers, "ce_type")
        if message_type not in spec.messages:
            raise RejectedError(
                "ce_type", f"{message_type[:80]!r} is not in {record.partition.topic}"
            )
        payload = MESSAGES[message_type]()
        try:
            payload.ParseFromString(value)
        except DecodeError:
            raise RejectedError("value", f"must be a protobuf {message_type}") from None
        return Event(
            id=_text(headers, "ce_id"),
            source=_text(headers, "ce_source"),
            time_us=parse_time(_text(headers, "ce_time")),
            key=_key(record),
            payload=payload,
            traceparent=_decoded("traceparent", headers.get("traceparent", b"")),
        )

    def _check_payload(self, payload: Message, record: Record) -> None:
        size_bytes = len(record.value or b"")
        if size_bytes > MOST_TEXT_BYTES:
            require_short_texts(payload)
        check_contents(payload, size_bytes)

    def _new_record(self, partition: TopicPartition, event: Event) -> NewRecord:
        value = event.payload.SerializeToString(deterministic=True)
        if len(value) > MOST_TEXT_BYTES and truncate(event.payload):
            value = event.payload.SerializeToString(deterministic=True)
        if len(value) > self.max_message_bytes:
            raise RejectedError("value", self._size_problem(len(value)))
        headers = [
            ("ce_id", event.id.encode()),
            ("ce_type", event.type.encode()),
            ("ce_source", event.source.encode()),
            ("ce_time", format_time(event.time_us).encode()),
        ]
        if event.traceparent:
            headers.append(("traceparent", event.traceparent.encode()))
        return NewRecord(partition, event.key.encode(), value, tuple(headers))

    def _checked_value(self, record: Record) -> bytes:
        if record.value is None:
            raise RejectedError("value", "is missing: a tombstone means nothing in this topic")
        if len(record.value) > self.max_message_bytes:
            raise RejectedError("value", self._size_problem(len(record.value)))
        return record.value

    def _size_problem(self, size_bytes: int) -> str:
        return f"has {size_bytes} bytes, the limit is {self.max_message_bytes}"

    def _check_key(self, event: Event, expected: str) -> None:
        if event.key != expected:
            raise RejectedError("key", f"must be {expected[:80]!r}, got {event.key[:80]!r}")

    def _check_partition(self, record: Record) -> None:
        """A misplaced record would split its key over two workers."""
        count = self.topics.kafka_partitions(record.partition.topic)
        right = partition_of(record.key, count)
        if right != record.partition.kafka_partition:
            raise RejectedError(
                WRONG_PARTITION,
                f"must be {right} for this key: partition by murmur2 as Kafka's Java client does",
            )


def _text(headers: dict[str, bytes], name: str) -> str:
    if not headers.get(name):
        raise RejectedError(name, "is missing: send the CloudEvents attributes as headers")
    return _decoded(name, headers[name])


def _key(record: Record) -> str:
    return _decoded("key", record.key)


def _decoded(field: str, text: bytes) -> str:
    if len(text) > MOST_TEXT_BYTES:
        raise RejectedError(field, f"has {len(text)} bytes, the limit is {MOST_TEXT_BYTES}")
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        raise RejectedError(field, "must be UTF-8") from None
    if decoded and not decoded.isprintable():
        raise RejectedError(field, f"must be printable, got {decoded[:40]!r}")
    return decoded
