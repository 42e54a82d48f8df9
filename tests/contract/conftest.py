"""Each case runs on the log in memory and on real Kafka."""

from collections.abc import Iterator

import pytest

from deploy.local.servers import LocalServers
from tests.contract.backends import Backend
from tests.contract.in_memory import MemoryBackend
from tests.contract.on_kafka import KafkaBackend


@pytest.fixture
def redis_url(servers: LocalServers) -> str:
    """A Redis for all cases."""
    return servers.redis_url


@pytest.fixture
def on_kafka(servers: LocalServers) -> Iterator[KafkaBackend]:
    """A namespace of its own."""
    backend = KafkaBackend(servers.kafka_bootstrap)
    yield backend
    backend.close()


@pytest.fixture(params=["memory", "kafka"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Both logs in turn."""
    if request.param == "memory":
        return MemoryBackend()
    found: KafkaBackend = request.getfixturevalue("on_kafka")
    return found
