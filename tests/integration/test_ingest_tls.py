"""With client certificates, nobody speaks for somebody else."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest
from coplace.v1.ingest_service_pb2 import PublishRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub
from opentelemetry.metrics import NoOpMeter

from coplace_client import ingest
from coplace_client.calls import UnansweredError
from coplace_client.channels import grpc_channel_credentials
from coplace_client.health import Readiness
from coplace_client.ingest import IngestClient, Patience
from deploy.local.ports import free_ports
from services.ingest.meter import IngestMeter
from services.ingest.model import Intake
from services.ingest.service import IngestService
from shared.catalogue.event import Publish
from shared.catalogue.topics import Topics
from shared.process.grpc_server import serve_grpc
from shared.process.life import Process
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
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
    """Wait until the server listens."""

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
async def serving_as() -> AsyncIterator[Callable[[Settings], Awaitable[str]]]:
    """Start a service that wants certificates, and return its address."""
    async with AsyncExitStack() as running:

        async def begin(settings: Settings) -> str:
            meter = IngestMeter(NoOpMeter("test"))
            service = IngestService(Intake(Topics(kafka_partitions=4)), Broker(), meter, print)
            started = Started()
            process = Process(settings, Telemetry("ingest", settings), started)
            [port] = free_ports(1)
            served = serve_grpc(process, "127.0.0.1", port, service.handlers())
            serving = asyncio.create_task(served)
            running.push_async_callback(asyncio.wait_for, serving, None)
            running.callback(process.stop.set)
            await started.event.wait()
            return f"localhost:{port}"

        yield begin


@pytest.fixture
async def address(authority: Path, serving_as: Callable[[Settings], Awaitable[str]]) -> str:
    """A running service that wants certificates."""
    return await serving_as(identity(authority, "ingest"))


async def publish(address: str, settings: Settings, source: str) -> None:
    """Send one event of a source."""
    async with grpc.aio.secure_channel(address, _shown(settings)) as channel:
        await IngestServiceStub(channel).Publish(_request(source), timeout=10)


def _request(source: str) -> PublishRequest:
    request = PublishRequest(event=envelope("jobSubmitted"))
    request.event.source = source
    return request


def _shown(settings: Settings) -> grpc.ChannelCredentials:
    credentials = grpc_channel_credentials(settings)
    assert credentials
    return credentials


async def test_a_resource_manager_speaks_for_itself(address: str, authority: Path) -> None:
    north = identity(authority, "north")
    await publish(address, north, "north")
    await publish(address, north, "north/alpha")


async def test_a_resource_manager_cannot_speak_for_another(address: str, authority: Path) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await publish(address, identity(authority, "south"), "north")
    assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "source: must be 'south'" in str(error.value.details())


async def test_what_has_no_certificate_is_not_heard(address: str, authority: Path) -> None:
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


async def test_a_server_shows_and_believes_what_was_renewed_while_it_runs(
    tmp_path: Path, serving_as: Callable[[Settings], Awaitable[str]]
) -> None:
    old = certificate_authority(tmp_path / "old")
    new = certificate_authority(tmp_path / "new")
    files = certificate_authority(tmp_path / "files")
    shutil.copytree(old, files, dirs_exist_ok=True)
    address = await serving_as(identity(files, "ingest"))
    before, after = identity(files, "north"), identity(new, "north")
    before = before.model_copy(update={"grpc_ca_file": old / "ca.pem"})
    await publish(address, before, "north")
    async with grpc.aio.secure_channel(address, _shown(before)) as connected:
        stub = IngestServiceStub(connected)
        await stub.Publish(_request("north"), timeout=10)
        identity(new, "ingest")
        for name in ("ingest.key", "ingest.pem", "ca.pem"):
            shutil.copy(new / name, files / name)
        await publish(address, after, "north")
        await stub.Publish(_request("north"), timeout=10)
    for settings in (before, before.model_copy(update={"grpc_ca_file": new / "ca.pem"})):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await publish(address, settings, "north")
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_client_goes_on_by_what_was_renewed_while_it_tries(
    tmp_path: Path, address: str, authority: Path
) -> None:
    """Its files are those of a stranger at first."""
    files = certificate_authority(tmp_path / "files")
    shown = identity(files, "north").model_copy(update={"grpc_ca_file": authority / "ca.pem"})
    soon = Patience(pause_s=0.1, most_pause_s=0.1)
    async with IngestClient(address, shown, soon) as client:
        event = _request("north").event
        with pytest.raises(UnansweredError):
            await client.publish(event)
        telling = asyncio.create_task(client.publish_all([event, _request("south").event]))
        identity(authority, "north")
        for name in ("north.key", "north.pem"):
            shutil.copy(authority / name, files / name)
        refused = await asyncio.wait_for(telling, 30)
    assert refused.keys() == {1}
    assert "source: must be 'north'" in refused[1]


async def test_a_command_learns_whose_certificate_is_not_believed(
    tmp_path: Path, address: str, authority: Path
) -> None:
    stranger = identity(certificate_authority(tmp_path / "files"), "north")
    shown = stranger.model_copy(update={"grpc_ca_file": authority / "ca.pem"})
    told = asyncio.to_thread(ingest.publish, address, shown, _request("north").event)
    with pytest.raises(UnansweredError, match=r"north\.pem"):
        await told
