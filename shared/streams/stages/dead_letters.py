"""Records that could not be used, as events of their topic's dead-letter queue."""

import hashlib

from coplace.v1.control_pb2 import DeadLetter

from shared.catalogue.event import Event, Publish
from shared.catalogue.record import Headers, Record
from shared.catalogue.topics import DLQ_PREFIX
from shared.streams.stages.quarantine import Fault

QUARANTINED = "quarantined"
KEPT_BYTES = 65_536
_MOST_REASON = 1_024
_KEPT_HEADERS = 32
_KEPT_HEADER_BYTES = 1_024


def dead_letter(record: Record, reason: str, stage: str, time_us: int) -> Publish:
    """Return the dead letter of a record that `stage` refused; its id names the place and
    offset."""
    return posted(letter_of(record, reason, stage), time_us)


def quarantine(record: Record, fault: Fault, stage: str, time_us: int) -> Publish:
    """Return the dead letter of a record that nothing is known to be wrong with, and that `stage`
    failed at again after restarts."""
    letter = letter_of(record, fault.reason, stage)
    letter.kind, letter.stack_digest, letter.stack = QUARANTINED, fault.digest, fault.stack
    return posted(letter, time_us)


def letter_of(record: Record, reason: str, stage: str) -> DeadLetter:
    """Return what a dead letter keeps of a record."""
    value = record.value or b""
    topic, kafka_partition = record.partition
    return DeadLetter(
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


def posted(letter: DeadLetter, time_us: int) -> Publish:
    """Return a dead letter on its way to its queue."""
    subject = f"{letter.topic}/{letter.kafka_partition}/{letter.offset}"
    event_id = f"{letter.stage}/{letter.DESCRIPTOR.full_name}/{subject}"
    event = Event(event_id, letter.stage, time_us, subject, letter)
    return Publish(DLQ_PREFIX + letter.topic, event)


def _kept(headers: Headers) -> dict[str, bytes]:
    """Bounded, since a dead letter must fit where its record did not."""
    return {name[:256]: value[:_KEPT_HEADER_BYTES] for name, value in headers[:_KEPT_HEADERS]}
