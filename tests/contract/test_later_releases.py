"""A stage meets what a later release sends."""

from collections.abc import Sequence
from dataclasses import replace

from shared.catalogue.record import NewRecord
from tests.contract.backends import Backend, Plan
from tests.support.messaging import CODEC, TOPICS, encoded, submission

JOBS = 20
LATER = b"coplace.v1.JobPraisedInTenYears"


def of_a_later_release(record: NewRecord) -> NewRecord:
    """The same record, as if its message were of a type that this release does not have."""
    headers = [(key, LATER if key == "ce_type" else value) for key, value in record.headers]
    return replace(record, headers=tuple(headers), value=b"\x0a\x03\xff\xff\xff")


def between(records: Sequence[NewRecord]) -> list[NewRecord]:
    """Each record behind one of a later release at the same partition."""
    return [each for record in records for each in (of_a_later_release(record), record)]


def events(backend: Backend, topic: str) -> list[str]:
    """Types and ids of what a topic holds."""
    found = [backend.read(place) for place in TOPICS.partitions(topic)]
    decoded = (CODEC.decode(record) for records in found for record in records)
    return sorted(event.id for event in decoded)


def test_what_a_later_release_sends_is_skipped_and_nothing_else_is_lost(backend: Backend) -> None:
    worker = backend.start(Plan())
    published = [submission(f"j{number}") for number in range(JOBS)]
    backend.append(between(encoded(*published)))
    expected = sorted(f"c/{each.event.id}" for each in published)
    backend.until(lambda: events(backend, "prices.charges") == expected)
    assert not worker.ended
    assert events(backend, f"dlq.{TOPICS.spec('jobs.events').name}") == []
    for place in TOPICS.partitions("jobs.events"):
        read = backend.read(place)
        assert backend.position("counting", place) == (read[-1].offset + 1 if read else 0)
