"""Composition root of ingest."""

from functools import partial

from services.ingest.meter import IngestMeter
from services.ingest.model import Intake
from services.ingest.payloads import KINDS
from services.ingest.service import IngestService, StreamLimits
from services.ingest.settings import IngestSettings
from shared.messaging.crash import end_process
from shared.messaging.deployment import Deployment
from shared.messaging.publisher import KafkaPublisher
from shared.runtime.grpc_server import serve_grpc
from shared.runtime.service import Process, run_process
from shared.runtime.topics import wait_for_topics


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
    own = IngestSettings()
    async with KafkaPublisher(deployment, "ingest") as publisher:
        meter = IngestMeter(process.telemetry.meter)
        crash = partial(end_process, "ingest")
        streams = StreamLimits(own.most_streams, own.idle_s)
        service = IngestService(intake(deployment), publisher, meter, crash, streams)
        await serve_grpc(process, own.host, own.port, service.handlers(), own.most_calls)


def main() -> None:
    """Run the process."""
    run_process("ingest", serve)
