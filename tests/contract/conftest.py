"""Each case runs on the log in memory and on real Kafka."""

from collections.abc import Iterator

import pytest

from deploy.local.servers import LocalServers
from tests.contract.backends import Backend
from tests.contract.in_memory import MemoryBackend
from tests.contract.on_kafka import KafkaBackend


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker for all cases."""
    with LocalServers(tmp_path_factory.mktemp("kafka"), redis=False) as servers:
        yield servers.kafka_bootstrap


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis for all cases."""
    with LocalServers(tmp_path_factory.mktemp("redis"), kafka=False) as servers:
        yield servers.redis_url


@pytest.fixture
def on_kafka(kafka_bootstrap: str) -> Iterator[KafkaBackend]:
    """A namespace of its own."""
    backend = KafkaBackend(kafka_bootstrap)
    yield backend
    backend.close()


@pytest.fixture(params=["memory", "kafka"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Both logs in turn."""
    if request.param == "memory":
        return MemoryBackend()
    found: KafkaBackend = request.getfixturevalue("on_kafka")
    return found
