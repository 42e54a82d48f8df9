"""What several of these tests need."""

from collections.abc import Iterator

import pytest

from cli.security import Security
from cli.stages import create_topics
from deploy.local.servers import LocalServers
from shared.streams.on_kafka.deployment import Deployment
from tests.support.secured import CLIENTS, Secured


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Kafka and Redis with every principal, some clients, and the topics of a deployment."""
    folder = tmp_path_factory.mktemp("secured")
    security = Security(folder, "")
    security.credentials.create()
    for client, role in CLIENTS.items():
        security.add_client(client, role)
    security.prepare()
    with pytest.MonkeyPatch.context() as environment:
        for name in ("COPLACE_KAFKA_BOOTSTRAP", "COPLACE_REDIS_URL"):
            environment.delenv(name, raising=False)
        servers = LocalServers(folder / "run", secure=security.redis)
    with servers:
        security.provision(servers)
        found = Secured(servers, security)
        create_topics(Deployment.from_settings(found.settings("operator")))
        yield found
