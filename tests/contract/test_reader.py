"""A reader of kafka-python that is silent for long connects anew, and goes on where it was."""

from collections.abc import Callable

import pytest

from shared.catalogue.record import Record
from shared.streams.on_kafka import clients
from shared.streams.on_kafka.clients import Reader
from tests.contract.on_kafka import KafkaBackend
from tests.support.messaging import TOPICS, encoded, submission

_PARTITIONS = TOPICS.partitions("jobs.events")

Read = Callable[[Reader, int], list[str]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Reads so many records; each half second of silence is followed by a new connection."""
    monkeypatch.setattr(clients, "_SILENT_S", 0.5)

    def until(reader: Reader, count: int) -> list[str]:
        found: list[Record] = []
        for _ in range(300):
            found += reader.poll(timeout_s=0.1)
            if len(found) >= count:
                break
        # What would come twice comes now.
        found += [record for _ in range(15) for record in reader.poll(timeout_s=0.1)]
        return sorted(dict(record.headers)["ce_id"].decode() for record in found)

    return until


def sent(on_kafka: KafkaBackend, name: str) -> list[str]:
    """Ids of submissions to all partitions."""
    records = encoded(*(submission(f"{name}-{number}") for number in range(20)))
    on_kafka.append(records)
    return sorted(dict(record.headers)["ce_id"].decode() for record in records)


def test_a_silent_reader_that_connects_anew_loses_and_doubles_nothing(
    on_kafka: KafkaBackend, read: Read
) -> None:
    with Reader(on_kafka.deployment, _PARTITIONS) as reader:
        for name in ("first", "second"):
            expected = sent(on_kafka, name)
            assert read(reader, len(expected)) == expected


def test_a_reader_that_skipped_to_the_end_stays_there(on_kafka: KafkaBackend, read: Read) -> None:
    sent(on_kafka, "before")
    with Reader(on_kafka.deployment, _PARTITIONS) as reader:
        reader.skip_to_end()
        assert read(reader, 0) == []
        expected = sent(on_kafka, "after")
        assert read(reader, len(expected)) == expected
