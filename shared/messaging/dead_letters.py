"""Records that could not be used, as events of their topic's dead-letter queue."""

import hashlib

from coplace.v1.control_pb2 import DeadLetter

from shared.messaging.event import Event, Publish
from shared.messaging.record import Headers, Record
from shared.messaging.topics import DLQ_PREFIX

KEPT_BYTES = 65_536
_MOST_REASON = 2_048
_KEPT_HEADERS = 32
_KEPT_HEADER_BYTES = 1_024


def dead_letter(record: Record, reason: str, stage: str, time_us: int) -> Publish:
    """The dead letter of a record that `stage` refused; its id names the place and offset."""
    value = record.value or b""
    topic, kafka_partition = record.place
    letter = DeadLetter(
        reason=reason[:_MOST_REASON],
        topic=topic,
        kafka_partition=kafka_partition,
        offset=record.offset,
        stage=stage,
        key=record.key[:KEPT_BYTES],
        value=value[:KEPT_BYTES],
        value_size_bytes=len(value),
        value_sha256=hashlib.sha256(value).digest(),
        headers=_kept(record.headers),
    )
    subject = f"{topic}/{kafka_partition}/{record.offset}"
    event_id = f"{stage}/{letter.DESCRIPTOR.full_name}/{subject}"
    return Publish(DLQ_PREFIX + topic, Event(event_id, stage, time_us, subject, letter))


def _kept(headers: Headers) -> dict[str, bytes]:
    """Bounded, since a dead letter must fit where its record did not."""
    return {name[:256]: value[:_KEPT_HEADER_BYTES] for name, value in headers[:_KEPT_HEADERS]}
