"""Composition root of ingest."""

from functools import partial
from typing import Final

import grpc
import structlog

from services.ingest.meter import IngestMeter
from services.ingest.model import Intake
from services.ingest.payloads import KINDS
from services.ingest.service import IngestService
from services.ingest.settings import IngestSettings
from shared.messaging.crash import end_process
from shared.messaging.deployment import Deployment
from shared.messaging.publisher import KafkaPublisher
from shared.runtime.grpc_security import grpc_server_credentials
from shared.runtime.service import Process, run_process
from shared.runtime.topics import wait_for_topics

# A call that runs when the process shall stop gets this long to finish.
_GRACE_S: Final = 5.0

log = structlog.get_logger(__name__)


def intake(deployment: Deployment) -> Intake:
    """The validation of one deployment: what it takes, the stages take too."""
    return Intake(
        deployment.topics,
        max_message_bytes=deployment.settings.max_message_bytes,
        ahead_us=deployment.limit.ahead_us,
    )


async def serve(process: Process) -> None:
    """Serve gRPC until the process shall stop."""
    deployment = Deployment.of(process.settings, process.telemetry.hooks())
    topics = {kind.topic for kind in KINDS.values()}
    await wait_for_topics(process.settings, topics, process.readiness, process.stop)
    ingest_settings = IngestSettings()
    async with KafkaPublisher(deployment, "ingest") as publisher:
        meter = IngestMeter(process.telemetry.meter)
        crash = partial(end_process, "ingest")
        service = IngestService(intake(deployment), publisher, meter, crash)
        server = await _start_server(process, ingest_settings, service)
        process.readiness.ready()
        await process.stop.wait()
        process.readiness.wait_for("its end")
        await server.stop(_GRACE_S)


async def _start_server(
    process: Process, settings: IngestSettings, service: IngestService
) -> grpc.aio.Server:
    largest = process.settings.max_message_bytes
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", largest)])
    server.add_generic_rpc_handlers((service.handlers(),))
    address = f"{settings.host}:{settings.port}"
    credentials = grpc_server_credentials(process.settings)
    if credentials:
        port = server.add_secure_port(address, credentials)
    else:
        port = server.add_insecure_port(address)
    await server.start()
    log.info("serving gRPC", host=settings.host, port=port, tls=credentials is not None)
    return server


def main() -> None:
    """Run the process."""
    run_process("ingest", serve)
