"""The archive as a process on real Kafka: killed again and again, it holds what was committed, and
an archive that is built anew from the topics is the same to the byte."""

import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition

from cli.archive.rebuilding import Sameness, rebuild
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.archive.reading import archived_range, read_archive
from shared.archive.record import ArchivedRecord
from shared.archive.storage import LocalFolder
from shared.archive.verifying import damages
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client, ensure_topics
from shared.streams.on_kafka.deployment import Deployment
from tests.support.patience import PATIENCE_S

NAMESPACE: Final = "archived"
CHARGES: Final = "prices.charges"
INPUTS: Final = "placement.inputs"
JOBS: Final = "jobs.events"
ROUNDS: Final = 8
# Enough for a full file in each Kafka partition.
RECORDS_A_ROUND: Final = 10_000
KINDS: Final[Sequence[dict[str, bytes | None]]] = (
    {"key": None, "value": b"a charge without a key"},
    {"key": b"", "value": b""},
    {"key": b"north/alpha/1", "value": None},
    {"key": b"\xff", "value": b"a key that is no text"},
    {"key": b"north/alpha/1", "value": b"a charge"},
)
_LARGE: Final = 1_000_000


class Archived(NamedTuple):
    """A process that archives, and what it archives."""

    servers: LocalServers
    deployment: Deployment
    folder: Path
    ready_url: str

    def kill(self) -> None:
        """End the process hard; the supervisor starts it again."""
        self.servers.kill(NAMESPACE)

    def send(self, seed: int, count: int, *, is_committed: bool = True) -> None:
        """Send records of every kind in one transaction to all Kafka partitions of a topic."""
        rng = Random(seed)
        producer = self._producer(transactional_id=f"{NAMESPACE}.sends-{seed}")
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(count):
            producer.send(
                self.deployment.name(CHARGES),
                partition=rng.randrange(2),
                **rng.choice(KINDS),
                headers=rng.choice(
                    [[], [("ce_id", b"1"), ("ce_type", b"T")], [("x", b"\xff"), ("x", b"")]]
                ),
            )
            if number == count // 2:
                producer.send(self.deployment.name(CHARGES), partition=0, value=bytes(_LARGE))
        (producer.commit_transaction if is_committed else producer.abort_transaction)()
        producer.close()

    def send_to(self, topic: str, kafka_partition: int, *values: bytes) -> None:
        """Send records without a transaction."""
        producer = self._producer()
        for value in values:
            producer.send(self.deployment.name(topic), partition=kafka_partition, value=value)
        producer.close()

    def committed(self, topic: str, kafka_partition: int) -> list[ArchivedRecord]:
        """What another client reads of a Kafka partition."""
        consumer = KafkaConsumer(
            **self.deployment.connection,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_partition_fetch_bytes=2 * _LARGE,
        )
        place = KafkaPartition(self.deployment.name(topic), kafka_partition)
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        found = []
        while consumer.position(place) < end:
            for records in consumer.poll(timeout_ms=200).values():
                found += [_as_archived(topic, record) for record in records]
        consumer.close()
        return found

    def archived(self, topic: str, kafka_partition: int) -> list[ArchivedRecord]:
        """What the archive has of a Kafka partition."""
        return list(read_archive(str(self.folder), topic, kafka_partition))

    def wait_for(self, topic: str, kafka_partition: int) -> Sequence[ArchivedRecord]:
        """Wait until all that is committed is archived; what is committed."""
        wanted = self.committed(topic, kafka_partition)
        end = wanted[-1].offset + 1

        def is_archived() -> bool:
            try:
                return archived_range(str(self.folder), topic, kafka_partition).ends_at >= end
            except ValueError:
                return False

        wait_until(is_archived)
        return wanted

    def readiness(self) -> str:
        """What the process says of itself; empty where it does not answer."""
        try:
            with urllib.request.urlopen(self.ready_url, timeout=5) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError:
            return ""

    def _producer(self, **settings: Any) -> KafkaProducer:
        return KafkaProducer(
            **self.deployment.connection, max_request_size=2 * _LARGE, acks="all", **settings
        )


def _as_archived(topic: str, record: Any) -> ArchivedRecord:
    headers = tuple((name, value or b"") for name, value in record.headers)
    place = topic, record.partition, record.offset
    return ArchivedRecord(*place, record.timestamp, record.key, record.value, headers)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for it. Raises TimeoutError."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise TimeoutError
        time.sleep(0.1)


@pytest.fixture(scope="module")
def archived(servers: LocalServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archived]:
    """An archive whose process is killed after each round of records."""
    settings = Settings(
        kafka_bootstrap=servers.kafka_bootstrap, namespace=NAMESPACE, kafka_partitions=2
    )
    deployment = Deployment.from_settings(settings)
    admin = admin_client(deployment)
    ensure_topics(admin, deployment, names=(CHARGES, INPUTS, JOBS))
    admin.close()
    folder = tmp_path_factory.mktemp("archive")
    [port] = free_ports(1)
    program = Program(
        NAMESPACE,
        [sys.executable, "-m", "services.archive"],
        env={
            "PYTHONPATH": os.pathsep.join(sys.path),
            "COPLACE_NAMESPACE": NAMESPACE,
            "COPLACE_KAFKA_PARTITIONS": "2",
            "COPLACE_HTTP_PORT": str(port),
            "COPLACE_ARCHIVE_WHERE": str(folder),
            "COPLACE_ARCHIVE_TOPICS": f"{CHARGES},{INPUTS},{JOBS}",
            "COPLACE_ARCHIVE_TAIL_S": "0.3",
        },
        ready_url=f"http://127.0.0.1:{port}/readyz",
    )
    servers.start([program])
    try:
        found = Archived(servers, deployment, folder, program.ready_url or "")
        rng = Random(0)
        for number in range(ROUNDS):
            found.send(number, RECORDS_A_ROUND, is_committed=number != 3)
            if number % 2:
                # In the middle of its work; otherwise as it begins.
                servers.wait_ready(NAMESPACE)
                time.sleep(rng.random())
            found.kill()
        found.send_to(JOBS, 1, b"one", b"two")
        yield found
    finally:
        servers.remove([program])


def test_the_archive_holds_what_was_committed_over_kills(archived: Archived) -> None:
    for number in range(2):
        wanted = archived.wait_for(CHARGES, number)
        assert len(wanted) > RECORDS_A_ROUND
        assert archived.archived(CHARGES, number) == wanted
    assert [each.value for each in archived.wait_for(JOBS, 1)] == [b"one", b"two"]
    assert archived.archived(JOBS, 0) == []
    assert archived.archived(INPUTS, 0) == []
    assert list(damages(LocalFolder(archived.folder))) == []


def test_ends_of_transactions_count_as_read(archived: Archived) -> None:
    """Kafka begins behind one where it has removed all records of a quiet topic."""
    consumer = KafkaConsumer(**archived.deployment.connection)
    for place in archived.deployment.topics.partitions(CHARGES):
        named = KafkaPartition(archived.deployment.name(CHARGES), place.kafka_partition)
        end = consumer.end_offsets([named])[named]
        wait_until(lambda at=place, end=end: (  # type: ignore[misc]
            archived_range(str(archived.folder), *at).ends_at == end
        ))  # fmt: skip
        last = archived.archived(*place)[-1].offset
        assert last + 1 < end
    consumer.close()


def test_an_archive_that_is_built_anew_is_the_same_to_the_byte(
    archived: Archived, tmp_path: Path
) -> None:
    archived.wait_for(CHARGES, 0)
    archived.wait_for(CHARGES, 1)
    found = rebuild(archived.deployment, LocalFolder(archived.folder), tmp_path / "anew", str)
    assert {each.sameness for each in found} == {Sameness.SAME}
    assert {each.path.endswith(".parquet") for each in found} == {True, False}
    for compared in found:
        fresh = (tmp_path / "anew" / compared.path).read_bytes()
        assert fresh == (archived.folder / compared.path).read_bytes()
    for index in archived.folder.glob("*/*/_index.json"):
        anew = tmp_path / "anew" / index.relative_to(archived.folder)
        assert anew.read_bytes() == index.read_bytes()


def test_kafka_partitions_that_come_later_are_archived(archived: Archived) -> None:
    admin = admin_client(archived.deployment)
    admin.create_partitions({archived.deployment.name(JOBS): 3})
    admin.close()
    wait_until((archived.folder / JOBS / "2/_index.json").exists)
    archived.send_to(JOBS, 2, b"three")
    wanted = archived.wait_for(JOBS, 2)
    assert archived.archived(JOBS, 2) == wanted


def test_a_topic_that_was_replaced_is_refused(archived: Archived) -> None:
    before = archived.archived(JOBS, 1)
    admin = admin_client(archived.deployment)
    admin.delete_topics([archived.deployment.name(JOBS)])
    wait_until(lambda: archived.deployment.name(JOBS) not in admin.list_topics())
    ensure_topics(admin, archived.deployment, names=(JOBS,))
    admin.close()
    archived.send_to(JOBS, 1, b"another", b"topic", b"with", b"more", b"records")
    wait_until(lambda: "is another topic than the one" in archived.readiness())
    assert "move the folder jobs.events of the archive away" in archived.readiness()
    assert archived.archived(JOBS, 1) == before
