"""Records that the history cannot use, as dead letters: the broker has them before they are
passed."""

import asyncio
from collections.abc import Iterable, Sequence

from services.history.following import NAME
from services.history.writing import Rejected
from shared.catalogue.event import Publish
from shared.catalogue.record import Record
from shared.process.clock import now_us
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.publisher import KafkaPublisher
from shared.streams.stages.dead_letters import dead_letter, quarantine
from shared.streams.stages.hooks import Tally
from shared.streams.stages.quarantine import Fault


class LetterWriter:
    """Sends dead letters by the loop of the process, from the threads that write, and counts
    them."""

    def __init__(
        self, deployment: Deployment, publisher: KafkaPublisher, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._publisher, self._loop = publisher, loop
        self._meter = deployment.hooks.meter
        self._meter.begin(NAME, 0)

    def reject(self, rejected: Sequence[Rejected]) -> None:
        """Send records that cannot be used. Raises KafkaError."""
        self._send(dead_letter(record, why, NAME, now_us()) for record, why in rejected)
        self._meter.batch(NAME, 0, Tally(dead_letters=len(rejected)), 0.0)

    def quarantine(self, record: Record, fault: Fault) -> None:
        """Send a record that failed again after restarts. Raises KafkaError."""
        self._send([quarantine(record, fault, NAME, now_us())])
        self._meter.batch(NAME, 0, Tally(dead_letters=1, quarantined=1), 0.0)

    def _send(self, letters: Iterable[Publish]) -> None:
        asyncio.run_coroutine_threadsafe(self._publisher.send_all(letters), self._loop).result()
