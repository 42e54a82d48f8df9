"""Composition root of the Slurm way in."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final

from coplace_client.errors import RejectedError
from services.ingest.app import intake, open_gate
from services.ingest.gate import Gate, NotAllowedError
from services.ingest.model import Intake
from services.ingest.region import FOLDED
from services.ingest.settings import IngestSettings
from shared.authority.door import AUDIT
from shared.authority.following import TOPIC as AUTHORITY
from shared.catalogue.event import Publish
from shared.catalogue.record import Record, require_readable
from shared.catalogue.topics import DLQ_PREFIX
from shared.process.clock import now_us
from shared.process.life import Process, run_process
from shared.slurm.facts import Site, envelopes
from shared.slurm.message import Message
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.faust_app import run_stateless, stateless_app
from shared.streams.on_kafka.publisher import KafkaPublisher
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.stages.dead_letters import dead_letter
from shared.streams.stages.hooks import Tally
from shared.streams.telemetry import hooks_of

NAME: Final = "ingest-jobcomp"
_INPUT: Final = "slurm.jobcomp"
_OUTPUT: Final = "jobs.events"


class Jobcomp:
    """Turns records of the plugin into facts about jobs, or into dead letters: all of a message, or
    nothing. Under a table of authority, which the `gate` asks, they are said by the site."""

    def __init__(
        self, intake: Intake, site: Site, max_message_bytes: int, gate: Gate | None = None
    ) -> None:
        self._intake = intake
        self._site = site
        self._max_message_bytes = max_message_bytes
        self._gate = gate

    async def publishes(self, records: Iterable[Record], now_s: float) -> list[Publish]:
        """Return what to publish for some records, in their order. Raises NotYetKnownError where it
        is not known now whether the site may publish something."""
        found: list[Publish] = []
        for record in records:
            try:
                found += await self._facts(record, now_s)
            except RejectedError as error:
                found.append(dead_letter(record, str(error), NAME, round(now_s * 1e6)))
        return found

    async def _facts(self, record: Record, now_s: float) -> list[Publish]:
        require_readable(dict(record.headers))
        message = Message.parse(record.value, self._max_message_bytes)
        told = envelopes(message, self._site)
        found = [self._intake.accept(envelope, now_s) for envelope in told]
        for envelope, publish in zip(told, found, strict=True):
            await self._admit(str(envelope.WhichOneof("payload")), publish)
        return found

    async def _admit(self, action: str, publish: Publish) -> None:
        if self._gate is None:
            return
        try:
            await asyncio.gather(*await self._gate.admit(self._site.name, action, publish))
        except NotAllowedError as error:
            raise RejectedError("source", str(error)) from None


def jobcomp(deployment: Deployment, own: IngestSettings, gate: Gate) -> Jobcomp:
    """Return the mapping of one deployment."""
    site = Site(own.jobcomp_site, own.jobcomp_account, own.jobcomp_node_model)
    return Jobcomp(intake(deployment), site, deployment.settings.max_message_bytes, gate)


async def serve(process: Process) -> None:
    """Consume until the process shall stop."""
    deployment = Deployment.from_settings(process.settings, hooks_of(process.telemetry))
    topics = {_INPUT, _OUTPUT, DLQ_PREFIX + _INPUT, AUDIT, AUTHORITY, *FOLDED}
    await wait_for_topics(process.settings, topics, process.readiness, process.stop)
    own, meter = IngestSettings(), process.telemetry.meter
    async with (
        KafkaPublisher(deployment, NAME) as publisher,
        open_gate(deployment, NAME, own.remember_days, publisher, meter) as gate,
    ):
        mapping = jobcomp(deployment, own, gate)

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
    letters = sum(publish.topic.startswith(DLQ_PREFIX) for publish in publishes)
    return Tally(records_in=len(records), records_out=len(publishes), dead_letters=letters)


def main() -> None:
    """Run the process of the reader of Slurm's completed jobs."""
    run_process(NAME, serve)
