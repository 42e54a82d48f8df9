"""With client certificates, nobody speaks for somebody else."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import grpc
import pytest
from coplace.v1.ingest_service_pb2 import PublishRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub
from opentelemetry.metrics import NoOpMeter

from deploy.local.ports import free_ports
from services.ingest.meter import IngestMeter
from services.ingest.model import Intake
from services.ingest.service import IngestService
from shared.messaging.event import Publish
from shared.messaging.topics import Topics
from shared.runtime.grpc_security import grpc_channel_credentials
from shared.runtime.grpc_server import serve_grpc
from shared.runtime.http import Readiness
from shared.runtime.service import Process
from shared.runtime.settings import Settings
from shared.runtime.telemetry import Telemetry
from tests.support.certificates import certificate_authority, identity
from tests.unit.services.ingest.envelopes import envelope


class Broker:
    """Acknowledges everything."""

    async def send(self, publish: Publish) -> Awaitable[object]:
        """Take an event."""

        async def done() -> None:
            return None

        return done()


class Started(Readiness):
    """Tells when the server listens."""

    def __init__(self) -> None:
        super().__init__()
        self.event = asyncio.Event()

    def ready(self) -> None:
        """It does."""
        super().ready()
        self.event.set()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate authority."""
    return certificate_authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def address(authority: Path) -> AsyncIterator[str]:
    """A running service that wants certificates."""
    meter = IngestMeter(NoOpMeter("test"))
    service = IngestService(Intake(Topics(kafka_partitions=4)), Broker(), meter, print)
    settings = identity(authority, "ingest")
    started = Started()
    process = Process(settings, Telemetry("ingest", settings), started)
    [port] = free_ports(1)
    serving = asyncio.create_task(serve_grpc(process, "127.0.0.1", port, service.handlers()))
    await started.event.wait()
    yield f"localhost:{port}"
    process.stop.set()
    await serving


async def publish(address: str, settings: Settings, source: str) -> None:
    """Send one event of a source."""
    request = PublishRequest(event=envelope("jobSubmitted"))
    request.event.source = source
    credentials = grpc_channel_credentials(settings)
    assert credentials
    async with grpc.aio.secure_channel(address, credentials) as channel:
        await IngestServiceStub(channel).Publish(request, timeout=10)


async def test_a_resource_manager_speaks_for_itself(address: str, authority: Path) -> None:
    north = identity(authority, "north")
    await publish(address, north, "north")
    await publish(address, north, "north/alpha")


async def test_a_resource_manager_cannot_speak_for_another(address: str, authority: Path) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await publish(address, identity(authority, "south"), "north")
    assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "source: must be 'south'" in str(error.value.details())


async def test_who_has_no_certificate_is_not_heard(address: str, authority: Path) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await publish(address, Settings(grpc_ca_file=authority / "ca.pem"), "north")
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_certificate_that_names_nobody_speaks_for_nobody(
    address: str, authority: Path
) -> None:
    nobody = identity(authority, "nobody", "/O=north")
    for source in ("north", "/x"):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await publish(address, nobody, source)
        assert "the client certificate has no common name" in str(error.value.details())
