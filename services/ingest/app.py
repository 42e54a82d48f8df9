"""Composition root of ingest."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from opentelemetry.metrics import Meter

from services.ingest.gate import Gate, RegionFollowed
from services.ingest.meter import IngestMeter
from services.ingest.model import Intake
from services.ingest.outcomes import OutcomesFollowed
from services.ingest.payloads import KINDS, NAME
from services.ingest.region import FOLDED
from services.ingest.service import IngestService, StreamLimits
from services.ingest.settings import IngestSettings
from shared.authority.bearing import TokenGate
from shared.authority.door import AUDIT, Door
from shared.authority.following import table_followed
from shared.authority.following_issuer import issuer_followed
from shared.authority.table import TableInForce
from shared.process.crash import end_process
from shared.process.grpc_server import serve_grpc
from shared.process.life import Process, run_process
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.publisher import KafkaPublisher
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.stages.outcomes import TOPIC as OUTCOMES
from shared.streams.telemetry import hooks_of


def intake(deployment: Deployment, of_site: str = "") -> Intake:
    """Return the validation of one deployment: what it accepts, the stages accept too."""
    return Intake(
        deployment.topics,
        max_message_bytes=deployment.settings.max_message_bytes,
        ahead_us=deployment.limit.ahead_us,
        command_ahead_us=deployment.limit.command_ahead_us,
        of_site=of_site,
    )


@asynccontextmanager
async def open_gate(
    deployment: Deployment, name: str, own: IngestSettings, publisher: KafkaPublisher, meter: Meter
) -> AsyncIterator[Gate]:
    """Open the gate of a process of this name, which follows the table and the region meanwhile;
    open it before the first event."""
    table, crash = TableInForce(), partial(end_process, name)
    async with (
        table_followed(deployment, table, crash) as declared,
        RegionFollowed(deployment, own, crash) as region,
    ):
        yield Gate(Door(name, table, publisher, meter), declared, region)


async def serve(process: Process) -> None:
    """Serve gRPC until the process shall stop."""
    deployment = Deployment.from_settings(process.settings, hooks_of(process.telemetry))
    topics = {kind.topic for kind in KINDS.values()} | {AUDIT, OUTCOMES, *FOLDED}
    await wait_for_topics(process.settings, topics, process.readiness, process.stop)
    own, crash = IngestSettings(), partial(end_process, NAME)
    async with (
        KafkaPublisher(deployment, NAME) as publisher,
        open_gate(deployment, NAME, own, publisher, process.telemetry.meter) as gate,
        OutcomesFollowed(deployment, own.remember_days, crash) as outcomes,
    ):
        process.readiness.wait_for("who may say what")
        await gate.open()
        meter = IngestMeter(process.telemetry.meter)
        streams = StreamLimits(own.most_streams, own.idle_s)
        service = IngestService(
            *(intake(deployment, own.of_site), publisher, meter, crash, streams, gate, outcomes)
        )
        async with issuer_followed(gate.door.signed, crash):
            await serve_grpc(
                *(process, own.host, own.port, service.handlers(), own.most_calls),
                gate=TokenGate(gate.door, crash),
            )


def main() -> None:
    """Run the process of ingest."""
    run_process(NAME, serve)
