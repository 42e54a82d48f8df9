"""Records as other clients write them: every codec, any header name, and bombs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from aiokafka import AIOKafkaProducer
from coplace.v1.control_pb2 import DeadLetter
from kafka import KafkaProducer

from shared.catalogue.record import NewRecord
from shared.streams.on_kafka.batches import MOST_BATCH_BYTES
from shared.streams.on_kafka.clients import Reader
from tests.contract.backends import Plan
from tests.contract.on_kafka import KafkaBackend, KafkaWorker
from tests.contract.test_faust import empty, has, start, times_applied
from tests.support.messaging import CODEC, TOPICS, encoded, submission

CODECS = ("gzip", "snappy", "lz4", "zstd")
JOBS = 25
# Snappy makes a twentieth of zeros, and the broker refuses what is then above the limit.
BOMB_BYTES = {"gzip": 100 << 20, "snappy": 20 << 20, "lz4": 100 << 20, "zstd": 100 << 20}
# What a worker may take beside a batch: the interpreter and its libraries.
MOST_WORKER_BYTES = 120 << 20


class NotText(str):
    """A header name that is no UTF-8."""

    __slots__ = ()

    def encode(self, encoding: str = "", errors: str = "") -> bytes:
        """As it goes over the wire."""
        return b"\xff\xfe"


async def send(on_kafka: KafkaBackend, codec: str, records: Sequence[NewRecord]) -> None:
    """Append compressed, whatever the size."""
    producer = AIOKafkaProducer(
        **on_kafka.deployment.connection,
        compression_type=codec,
        linger_ms=20,
        max_request_size=2**31 - 1,
        max_batch_size=2**31 - 1,
    )
    async with producer:
        sent = [
            await producer.send(
                on_kafka.deployment.name(record.partition.topic),
                key=record.key,
                value=record.value,
                partition=record.partition.kafka_partition,
                headers=list(record.headers),
            )
            for record in records
        ]
        await asyncio.gather(*sent)


def send_with_odd_headers(on_kafka: KafkaBackend, records: Sequence[NewRecord]) -> None:
    """Append with one more header."""
    producer = KafkaProducer(**on_kafka.deployment.connection)
    for record in records:
        producer.send(
            on_kafka.deployment.name(record.partition.topic),
            key=record.key,
            value=record.value,
            partition=record.partition.kafka_partition,
            headers=[*record.headers, (NotText("odd"), b"value")],
        )
    producer.flush()
    producer.close()


def send_all(on_kafka: KafkaBackend) -> list[str]:
    """Jobs in every codec, and some beside odd headers; their ids."""
    batches = {codec: [submission(f"{codec}-{i}") for i in range(JOBS)] for codec in CODECS}
    for codec, batch in batches.items():
        asyncio.run(send(on_kafka, codec, encoded(*batch)))
    odd = [submission(f"odd-{i}") for i in range(JOBS)]
    send_with_odd_headers(on_kafka, encoded(*odd))
    return [publish.event.id for batch in (*batches.values(), odd) for publish in batch]


def charged(on_kafka: KafkaBackend) -> set[str]:
    """The events that the counting stage took."""
    found = [on_kafka.read(place) for place in TOPICS.partitions("prices.charges")]
    ids = (dict(record.headers)["ce_id"].decode() for records in found for record in records)
    return {one.removeprefix("c/") for one in ids}


def letters(on_kafka: KafkaBackend) -> list[DeadLetter]:
    """What was refused."""
    records = [on_kafka.read(place) for place in TOPICS.partitions("dlq.jobs.events")]
    events = [CODEC.decode(record) for found in records for record in found]
    return [event.payload for event in events if isinstance(event.payload, DeadLetter)]


def test_a_stage_and_a_reader_take_records_of_every_codec_and_with_any_header_name(
    on_kafka: KafkaBackend,
) -> None:
    worker = on_kafka.start(Plan())
    expected = set(send_all(on_kafka))
    on_kafka.until(lambda: charged(on_kafka) == expected)
    assert not letters(on_kafka)
    assert not worker.ended
    with Reader(on_kafka.deployment, TOPICS.partitions("jobs.events")) as reader:
        found = [CODEC.decode(record).id for record in reader.to_end()]
    assert sorted(found) == sorted(expected)


def test_a_read_model_takes_records_of_every_codec_and_with_any_header_name(
    on_kafka: KafkaBackend, tmp_path: Path
) -> None:
    database = empty(tmp_path / "model.db")
    start(on_kafka, database, keeps=True)
    expected = set(send_all(on_kafka))
    on_kafka.until(has(database, len(expected)))
    assert set(times_applied(database)) == expected


@pytest.mark.rest
def test_batches_that_expand_without_end_are_dead_letters_and_the_others_count(
    on_kafka: KafkaBackend,
) -> None:
    before, after = submission("before"), submission("after")
    worker: KafkaWorker = on_kafka.start(Plan())
    [good] = encoded(before)
    asyncio.run(send(on_kafka, "gzip", [good]))
    for codec in CODECS:
        bomb = NewRecord(good.partition, b"before", bytes(BOMB_BYTES[codec]), good.headers)
        asyncio.run(send(on_kafka, codec, [bomb]))
    asyncio.run(send(on_kafka, "gzip", encoded(after)))
    on_kafka.until(lambda: charged(on_kafka) == {before.event.id, after.event.id})
    on_kafka.until(lambda: len(letters(on_kafka)) == len(CODECS))
    reasons = {letter.offset: letter.reason for letter in letters(on_kafka)}
    for offset, codec in enumerate(CODECS, 1):
        assert f"{codec} does not expand to at most {MOST_BATCH_BYTES} bytes" in reasons[offset]
    assert not worker.ended
    assert psutil.Process(worker.pid).memory_info().rss < MOST_WORKER_BYTES + 4 * MOST_BATCH_BYTES
