"""Composition root of the Slurm way in."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import structlog
from aiokafka.errors import KafkaError
from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.ingest_service_pb2 import Envelope

from coplace_client.errors import RejectedError
from services.ingest.app import intake, open_gate
from services.ingest.gate import Gate, NotAllowedError, NotYetKnownError
from services.ingest.jobcomp.clusters import ClustersFollowed, clusters_followed
from services.ingest.jobcomp.meter import JobcompMeter
from services.ingest.model import Intake
from services.ingest.region import FOLDED
from services.ingest.settings import IngestSettings
from shared.authority.door import AUDIT
from shared.authority.following import TOPIC as AUTHORITY
from shared.catalogue.event import Publish
from shared.catalogue.record import Record, require_readable
from shared.catalogue.topics import DLQ_PREFIX
from shared.process.clock import now_us
from shared.process.crash import end_process
from shared.process.life import Process, run_process
from shared.slurm.facts import Site, envelopes
from shared.slurm.message import Message
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.faust_app import run_stateless, stateless_app
from shared.streams.on_kafka.publisher import KafkaPublisher
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.stages.dead_letters import QUARANTINED, dead_letter, quarantine
from shared.streams.stages.hooks import Tally
from shared.streams.stages.quarantine import Fault
from shared.streams.telemetry import hooks_of

NAME: Final = "ingest-jobcomp"
_INPUT: Final = "slurm.jobcomp"
_OUTPUT: Final = "jobs.events"
_TRIES: Final = 2
# Which ends the process, as Kafka's absence ends all: no record is left out for it.
_NOBODYS_FAULT: Final = (NotYetKnownError, KafkaError, OSError, MemoryError)

_log = structlog.get_logger(__name__)


class Jobcomp:
    """Turns records of the plugin into facts about jobs, or into dead letters: all of a message, or
    nothing. Under a table of authority, which the `gate` asks, they are said by the site.

    No record ends the process: one whose mapping fails, and fails again, is quarantined.
    """

    def __init__(
        self,
        intake: Intake,
        site: Site,
        max_message_bytes: int,
        gate: Gate | None = None,
        meter: JobcompMeter | None = None,
        clusters: ClustersFollowed | None = None,
    ) -> None:
        self._intake = intake
        self._site = site
        self._max_message_bytes = max_message_bytes
        self._gate = gate
        self._meter = meter
        self._clusters = clusters

    async def publishes(self, records: Iterable[Record], now_s: float) -> list[Publish]:
        """Return what to publish for some records, in their order. Raises NotYetKnownError where it
        is not known now whether the site may publish something, or which clusters there are."""
        found: list[Publish] = []
        if self._clusters is not None:
            self._site = replace(self._site, clusters=await self._clusters.now())
        for record in records:
            try:
                facts = await self._told(record, now_s)
            except RejectedError as error:
                facts = [dead_letter(record, _shown(error), NAME, round(now_s * 1e6))]
            found += facts
        return found

    async def _told(self, record: Record, now_s: float) -> Sequence[Publish]:
        """What a record says and may be published; its quarantine where that fails twice, since the
        first time may have been the machine's fault. Raises RejectedError, and what is no record's
        fault."""
        fault: Fault | None = None
        for _ in range(_TRIES):
            try:
                return await self._admitted(self._facts(record, now_s))
            except (RejectedError, *_NOBODYS_FAULT):
                raise
            except Exception as error:  # noqa: BLE001 what is unexpected is what this is for
                fault = Fault.from_error(error)
        assert fault is not None
        _log.error("record is quarantined", fault=fault.what, offset=record.offset)
        return [quarantine(record, fault, NAME, round(now_s * 1e6))]

    async def _admitted(self, facts: Sequence[tuple[str, Publish]]) -> Sequence[Publish]:
        for action, publish in facts:
            await self._admit(action, publish)
        return [publish for _, publish in facts]

    def _facts(self, record: Record, now_s: float) -> list[tuple[str, Publish]]:
        require_readable(dict(record.headers))
        message = Message.parse(record.value, self._max_message_bytes)
        latest_us = self._intake.latest_us(now_s)
        told = envelopes(message, self._site, latest_us)
        found = [(_action(each), self._intake.accept(each, now_s)) for each in told]
        if message.repaired and self._meter is not None:
            self._meter.repaired(told[0].job_submitted.job_id, message.repaired)
        return found

    async def _admit(self, action: str, publish: Publish) -> None:
        if self._gate is None:
            return
        try:
            await asyncio.gather(*await self._gate.admit(self._site.name, action, publish))
        except NotAllowedError as error:
            raise RejectedError("source", str(error)) from None


def _action(envelope: Envelope) -> str:
    return str(envelope.WhichOneof("payload"))


def _shown(error: RejectedError) -> str:
    """A reason as a message can hold it: half of a pair of surrogates is no text."""
    return str(error).encode(errors="backslashreplace").decode()


def jobcomp(
    deployment: Deployment,
    own: IngestSettings,
    gate: Gate,
    meter: JobcompMeter | None = None,
    clusters: ClustersFollowed | None = None,
) -> Jobcomp:
    """Return the mapping of one deployment."""
    site = Site(own.jobcomp_site, own.jobcomp_account, own.jobcomp_node_model, own.jobcomp_cluster)
    most_bytes = deployment.settings.max_message_bytes
    return Jobcomp(intake(deployment), site, most_bytes, gate, meter, clusters)


async def serve(process: Process) -> None:
    """Consume until the process shall stop."""
    deployment = Deployment.from_settings(process.settings, hooks_of(process.telemetry))
    topics = {_INPUT, _OUTPUT, DLQ_PREFIX + _INPUT, AUDIT, AUTHORITY, *FOLDED}
    await wait_for_topics(process.settings, topics, process.readiness, process.stop)
    own, meter = IngestSettings(), process.telemetry.meter
    names, crash = own.jobcomp_cluster_names, partial(end_process, NAME)
    async with (
        KafkaPublisher(deployment, NAME) as publisher,
        open_gate(deployment, NAME, own, publisher, meter) as gate,
        clusters_followed(process, deployment, names, crash) as clusters,
    ):
        mapping = jobcomp(deployment, own, gate, JobcompMeter(meter), clusters)

        async def handle(records: Sequence[Record]) -> None:
            began_s = time.monotonic()
            publishes = await mapping.publishes(records, now_us() / 1e6)
            await publisher.send_all(publishes)
            tally = _tally(records, publishes)
            deployment.hooks.meter.batch(NAME, 0, tally, time.monotonic() - began_s)

        deployment.hooks.meter.begin(NAME, 0)
        process.readiness.wait_for("who may say what")
        await gate.open()
        process.readiness.ready()
        await run_stateless(stateless_app(deployment, NAME, {_INPUT: handle}), process.stop)


def _tally(records: Sequence[Record], publishes: Sequence[Publish]) -> Tally:
    payloads = [publish.event.payload for publish in publishes]
    letters = [each for each in payloads if isinstance(each, DeadLetter)]
    return Tally(
        records_in=len(records),
        records_out=len(publishes),
        dead_letters=len(letters),
        quarantined=sum(letter.kind == QUARANTINED for letter in letters),
    )


def main() -> None:
    """Run the process of the reader of Slurm's completed jobs."""
    run_process(NAME, serve)
