"""A broker that is killed in the middle of the work."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local.servers import LocalServers
from tests.contract.backends import Plan
from tests.contract.on_kafka import KafkaBackend, KafkaWorker
from tests.contract.test_delivery import ROUNDS, outputs, rounds_closed, state, undisturbed, work


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServers]:
    """A broker of one's own, to be killed."""
    monkeypatch.delenv("COPLACE_KAFKA_BOOTSTRAP", raising=False)
    with LocalServers(tmp_path, redis=False) as own:
        yield own


class Supervisor:
    """Starts a worker again whenever it has ended."""

    def __init__(self, backend: KafkaBackend) -> None:
        self._backend = backend
        self._worker: KafkaWorker = backend.start(Plan())

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        self._backend.until(lambda: self._is_restarted() or condition())

    def _is_restarted(self) -> bool:
        if self._worker.ended:
            self._worker = self._backend.start(Plan())
        return False


@pytest.mark.rest
def test_a_killed_broker_loses_and_doubles_nothing(servers: LocalServers) -> None:
    backend = KafkaBackend(servers.kafka_bootstrap)
    try:
        records, supervisor = work(), Supervisor(backend)
        third = len(records) // ROUNDS
        backend.append(records[:third])
        supervisor.until(rounds_closed(backend, 1))
        backend.append(records[third : third + third // 2])
        servers.kill("kafka")
        servers.wait_ready("kafka")
        backend.append(records[third + third // 2 :])
        supervisor.until(rounds_closed(backend, ROUNDS))
        assert (outputs(backend), state(backend)) == undisturbed(records)
    finally:
        backend.close()
