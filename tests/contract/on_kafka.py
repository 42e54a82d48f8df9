"""The contract's view of real Kafka: workers are processes."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from shared.messaging.admin import admin_client, ensure_topics
from shared.messaging.deployment import Deployment
from shared.messaging.record import NewRecord, Place, Record
from shared.messaging.stage import RoundSource
from shared.runtime.settings import Settings
from tests.contract.backends import STAGES, Plan
from tests.support.messaging import counting

SESSION_S = 1.5
_DEADLINE_S = 60.0
_READ_TOPICS = ("prices.charges", "dlq.jobs.events", *(f"changelog.{name}" for name in STAGES))


class KafkaWorker:
    """A process that runs the counting stage."""

    def __init__(self, settings: Settings, plan: Plan) -> None:
        self._output = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.worker"],
            env=_environment(settings, plan),
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

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


def _environment(settings: Settings, plan: Plan) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in ["", *sys.path] if path is not None),
        "COPLACE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "COPLACE_NAMESPACE": settings.namespace,
        "COPLACE_KAFKA_PARTITIONS": str(settings.kafka_partitions),
        "COPLACE_SESSION_TIMEOUT_S": str(settings.session_timeout_s),
        "COPLACE_ROUNDS": settings.rounds.value,
        "TEST_STAGE": plan.stage,
        "TEST_POINT": plan.point,
        "TEST_ACTION": plan.action,
        "TEST_BUG_AT": plan.bug_at,
    }


class KafkaBackend:
    """A namespace of its own on a real broker."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = Settings(
            kafka_bootstrap=bootstrap,
            namespace=f"contract-{uuid.uuid4().hex[:8]}",
            kafka_partitions=4,
            session_timeout_s=SESSION_S,
            rounds=RoundSource.MARKS,
        )
        self.deployment = Deployment.of(self._settings)
        self._workers: list[KafkaWorker] = []
        self._found: dict[Place, list[Record]] = defaultdict(list)
        with admin_client(self.deployment) as client:
            ensure_topics(client, self.deployment, [counting(name) for name in STAGES])
        self._producer = KafkaProducer(
            **self.deployment.connection, max_request_size=self.deployment.max_record_bytes
        )
        self._consumer = self._reader()

    def append(self, records: Iterable[NewRecord]) -> None:
        """Append as a client outside would."""
        for record in records:
            self._producer.send(
                self.deployment.name(record.place.topic),
                partition=record.place.kafka_partition,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
            )
        self._producer.flush()

    def read(self, place: Place) -> list[Record]:
        """All committed records that have been seen."""
        for records in self._consumer.poll(timeout_ms=50).values():
            for found in map(self.deployment.record, records):
                self._found[found.place].append(found)
        return list(self._found[place])

    def start(self, plan: Plan) -> KafkaWorker:
        """Start a worker."""
        worker = KafkaWorker(self._settings, plan)
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
        self._producer.close()
        self._consumer.close()

    def _reader(self) -> KafkaConsumer:
        consumer = KafkaConsumer(
            **self.deployment.connection,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        places = [Place(topic, number) for topic in _READ_TOPICS for number in range(4)]
        consumer.assign([TopicPartition(self.deployment.name(p.topic), p[1]) for p in places])
        return consumer
