"""The contract's view of real Kafka: workers are processes."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.structs import OffsetAndMetadata

from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client, ensure_topics, when_coordinated
from shared.streams.on_kafka.clients import Publisher, Reader
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.doctor import examine_stages
from tests.contract.backends import STAGES, Plan
from tests.support.messaging import counting

SESSION_S = 1.5
_DEADLINE_S = 60.0
# What the contract's stages read and write: a namespace without the others is made in a moment.
_TOPICS = ("jobs.events", "prices.charges")
_READ_TOPICS = (
    *_TOPICS,
    "dlq.jobs.events",
    *(f"changelog.{name}" for name in STAGES),
)


class KafkaWorker:
    """A process that runs one of the contract's programs."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 it lives as long as the worker
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            env={**os.environ, **environment},
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    @property
    def stalled(self) -> bool:
        """Whether the process is stopped, as SIGSTOP leaves it."""
        status = Path(f"/proc/{self._process.pid}/stat").read_text()
        return status.rpartition(")")[2].split()[0] == "T"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended."""
        return self._process.returncode

    @property
    def last_words(self) -> str:
        """All that it said."""
        self._output.seek(0)
        return self._output.read().decode()

    def stop(self) -> None:
        """SIGTERM, and wait."""
        self._process.terminate()
        self._process.wait(_DEADLINE_S)

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Leave no process behind."""
        self._process.kill()
        self._process.wait()
        self._output.close()


class KafkaTransactions:
    """A transactional producer of real Kafka."""

    def __init__(self, deployment: Deployment, transactional_id: str) -> None:
        self._deployment = deployment
        self._producer = KafkaProducer(
            **deployment.connection, transactional_id=deployment.name(transactional_id)
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        """Begin a transaction."""
        self._producer.begin_transaction()

    def send(self, records: Iterable[NewRecord]) -> None:
        """Send, and wait for the broker."""
        for record in records:
            self._producer.send(
                self._deployment.name(record.partition.topic),
                partition=record.partition.kafka_partition,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
            ).get(_DEADLINE_S)

    def send_positions(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Move positions."""
        offsets = {
            self._partition(partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in positions.items()
        }
        self._producer.send_offsets_to_transaction(offsets, self._deployment.name(group))

    def commit(self) -> None:
        """Commit."""
        self._producer.commit_transaction()

    def abort(self) -> None:
        """Abort."""
        self._producer.abort_transaction()

    def close(self) -> None:
        """Disconnect, with no good-bye to an open transaction."""
        self._producer.close(timeout=0)

    def _partition(self, partition: TopicPartition) -> KafkaPartition:
        return KafkaPartition(self._deployment.name(partition.topic), partition.kafka_partition)


def _environment(settings: Settings) -> dict[str, str]:
    return {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COPLACE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "COPLACE_NAMESPACE": settings.namespace,
        "COPLACE_KAFKA_PARTITIONS": str(settings.kafka_partitions),
        "COPLACE_SESSION_TIMEOUT_S": str(settings.session_timeout_s),
        "COPLACE_ROUNDS": settings.rounds.value,
    }


class KafkaBackend:
    """A namespace of its own on a real broker."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = Settings(
            kafka_bootstrap=bootstrap,
            namespace=f"contract-{uuid.uuid4().hex[:8]}",
            kafka_partitions=4,
            session_timeout_s=SESSION_S,
            rounds=RoundSource.BARRIERS,
        )
        self.deployment = Deployment.from_settings(self._settings)
        self._workers: list[KafkaWorker] = []
        self._producers: list[KafkaTransactions] = []
        self._found: dict[TopicPartition, list[Record]] = defaultdict(list)
        with admin_client(self.deployment) as client:
            stages = [counting(name) for name in STAGES]
            ensure_topics(client, self.deployment, stages, _TOPICS)
        self._publisher = Publisher(self.deployment)
        partitions = [
            TopicPartition(topic, number) for topic in _READ_TOPICS for number in range(4)
        ]
        self._reader = Reader(self.deployment, partitions)

    def append(self, records: Iterable[NewRecord]) -> None:
        """Append as a client outside would."""
        self._publisher.append(records)

    def read(self, partition: TopicPartition) -> list[Record]:
        """All committed records that have been seen."""
        for found in self._reader.poll(timeout_s=0.02):
            self._found[found.partition].append(found)
        return list(self._found[partition])

    def producer(self, transactional_id: str) -> KafkaTransactions:
        """Take a transactional id over."""
        producer = KafkaTransactions(self.deployment, transactional_id)
        self._producers.append(producer)
        return producer

    def position(self, group: str, partition: TopicPartition) -> int:
        """Where a group reads on."""
        partition = KafkaPartition(self.deployment.name(partition.topic), partition.kafka_partition)
        with admin_client(self.deployment) as client:
            name = self.deployment.name(group)
            groups = when_coordinated(lambda: client.list_group_offsets(name))
        found = groups[self.deployment.name(group)]
        return int(found[partition].offset) if partition in found else 0

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """Forget the oldest records."""
        partition = KafkaPartition(self.deployment.name(partition.topic), partition.kafka_partition)
        with admin_client(self.deployment) as client:
            client.delete_records({partition: offset})

    def recreate(self, topic: str) -> None:
        """Delete a topic and create an empty one; Kafka deletes in the background."""
        name = self.deployment.name(topic)
        with admin_client(self.deployment) as client:
            count = len(client.describe_topics([name])[0]["partitions"])
            client.delete_topics([name])
            self.until(lambda: name not in client.list_topics())
            client.create_topics({name: {"num_partitions": count}})
            client.wait_for_topics([name])

    def grow(self, topic: str, kafka_partitions: int) -> None:
        """Give a topic more Kafka partitions."""
        with admin_client(self.deployment) as client:
            client.create_partitions({self.deployment.name(topic): kafka_partitions})
            self.until(lambda: self._count(client, topic) == kafka_partitions)

    def set_position(self, group: str, partition: TopicPartition, offset: int) -> None:
        """Move a group's position."""
        partition = KafkaPartition(self.deployment.name(partition.topic), partition.kafka_partition)
        with admin_client(self.deployment) as client:
            moved = {partition: OffsetAndMetadata(offset, "", -1)}
            client.alter_group_offsets(self.deployment.name(group), moved)

    def forget_positions(self, group: str) -> None:
        """Let a group's positions expire."""
        with admin_client(self.deployment) as client:
            client.delete_groups([self.deployment.name(group)])

    def inconsistencies(self) -> list[str]:
        """What keeps units from starting."""
        examined = examine_stages(self.deployment, [counting()])
        return [str(found) for unit in examined.values() for found in unit]

    def _count(self, client: KafkaAdminClient, topic: str) -> int:
        return len(client.describe_topics([self.deployment.name(topic)])[0]["partitions"])

    def start(self, plan: Plan) -> KafkaWorker:
        """Start a worker. One that is to stall has done so when this returns: beside a quicker one
        it might find nothing left to stall at."""
        plan_environment = {
            "TEST_STAGE": plan.stage,
            "TEST_SINGLE": "yes" if plan.single else "",
            "TEST_POINT": plan.point,
            "TEST_ACTION": plan.action,
            "TEST_BUG_AT": plan.bug_at,
            "TEST_FRAGILE": "yes" if plan.fragile else "",
        }
        worker = self.start_process("tests.contract.worker", plan_environment)
        if plan.action == "stall":
            self.until(lambda: worker.stalled)
        return worker

    def start_process(self, module: str, environment: Mapping[str, str]) -> KafkaWorker:
        """Start a program in this namespace."""
        worker = KafkaWorker(module, {**_environment(self._settings), **environment})
        self._workers.append(worker)
        return worker

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        deadline_s = time.monotonic() + _DEADLINE_S
        while not condition():
            if time.monotonic() > deadline_s:
                said = "\n".join(worker.last_words for worker in self._workers)
                raise TimeoutError(f"the workers on Kafka do not get there:\n{said}")
            time.sleep(0.02)

    def close(self) -> None:
        """End every process and connection."""
        for worker in self._workers:
            worker.end()
        for producer in self._producers:
            producer.close()
        self._publisher.close()
        self._reader.close()
