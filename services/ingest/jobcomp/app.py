"""Composition root of the Slurm way in."""

import time
from collections.abc import Iterable, Sequence
from typing import Final

from services.ingest.app import intake
from services.ingest.jobcomp.message import Message
from services.ingest.jobcomp.model import Site, envelopes
from services.ingest.model import Intake
from services.ingest.settings import IngestSettings
from shared.domain.errors import RejectedError
from shared.messaging.batches import require_readable
from shared.messaging.clock import now_us
from shared.messaging.dead_letters import dead_letter
from shared.messaging.deployment import Deployment
from shared.messaging.event import Publish
from shared.messaging.faust_app import run_stateless, stateless_app
from shared.messaging.hooks import Tally
from shared.messaging.publisher import KafkaPublisher
from shared.messaging.record import Record
from shared.messaging.topics import DLQ_PREFIX
from shared.runtime.service import Process, run_process
from shared.runtime.topics import wait_for_topics

NAME: Final = "ingest-jobcomp"
_INPUT: Final = "slurm.jobcomp"
_OUTPUT: Final = "jobs.events"


class Jobcomp:
    """Turns records of the plugin into facts about jobs, or into dead letters."""

    def __init__(self, intake: Intake, site: Site, max_message_bytes: int) -> None:
        self._intake = intake
        self._site = site
        self._max_message_bytes = max_message_bytes

    def publishes(self, records: Iterable[Record], now_s: float) -> Iterable[Publish]:
        """What to publish for some records, in their order."""
        for record in records:
            try:
                yield from self._facts(record, now_s)
            except RejectedError as error:
                yield dead_letter(record, str(error), NAME, round(now_s * 1e6))

    def _facts(self, record: Record, now_s: float) -> list[Publish]:
        require_readable(dict(record.headers))
        message = Message.parse(record.value, self._max_message_bytes)
        return [self._intake.accept(envelope, now_s) for envelope in envelopes(message, self._site)]


def jobcomp(deployment: Deployment) -> Jobcomp:
    """The mapping of one deployment."""
    own = IngestSettings()
    site = Site(own.jobcomp_site, own.jobcomp_account, own.jobcomp_node_model)
    return Jobcomp(intake(deployment), site, deployment.settings.max_message_bytes)


async def serve(process: Process) -> None:
    """Consume until the process shall stop."""
    deployment = Deployment.of(process.settings, process.telemetry.hooks())
    topics = (_INPUT, _OUTPUT, DLQ_PREFIX + _INPUT)
    await wait_for_topics(process.settings, topics, process.readiness, process.stop)
    mapping = jobcomp(deployment)
    async with KafkaPublisher(deployment, NAME) as publisher:

        async def handle(records: Sequence[Record]) -> None:
            began_s = time.monotonic()
            publishes = list(mapping.publishes(records, now_us() / 1e6))
            await publisher.send_all(publishes)
            tally = _tally(records, publishes)
            deployment.hooks.meter.batch(NAME, 0, tally, time.monotonic() - began_s)

        deployment.hooks.meter.begin(NAME, 0)
        process.readiness.ready()
        await run_stateless(stateless_app(deployment, NAME, {_INPUT: handle}), process.stop)


def _tally(records: Sequence[Record], publishes: Sequence[Publish]) -> Tally:
    letters = sum(publish.topic.startswith(DLQ_PREFIX) for publish in publishes)
    return Tally(records_in=len(records), records_out=len(publishes), dead_letters=letters)


def main() -> None:
    """Run the process."""
    run_process(NAME, serve)
