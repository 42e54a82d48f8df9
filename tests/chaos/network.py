"""Between resource managers and ingest: messages are late, come twice, and overtake each other."""

import heapq
import traceback
from dataclasses import dataclass, field
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope

from coplace_client.clock import ClockJumpedError, GuardedClock
from coplace_client.errors import RejectedError
from coplace_testing.ingest import EmbeddedIngest
from tests.chaos.clock import Clock
from tests.chaos.journal import Journal

INGEST: Final = "ingest"
_KEPT_FOR_COPIES: Final = 400


@dataclass(slots=True)
class Network:
    """Messages on their way, and the door that they arrive at. `sent` are those of which a copy may
    come; while ingest `is_closed` clients keep what they have to say."""

    ingest: EmbeddedIngest
    journal: Journal
    clock: Clock
    sent: list[Envelope] = field(default_factory=list)
    delivered: int = 0
    is_closed: bool = False
    _sequence: int = 0
    _ingest_clock: GuardedClock = field(init=False)
    _under_way: list[tuple[int, int, Envelope]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ingest_clock = self.clock.guarded(INGEST)

    def send(self, envelope: Envelope, delay_us: int = 0) -> None:
        """Put a message on its way."""
        self._sequence += 1
        heapq.heappush(self._under_way, (self.clock.now_us + delay_us, self._sequence, envelope))

    def deliver(self, until_us: int | None = None) -> None:
        """Hand over what arrives by now."""
        limit_us = self.clock.now_us if until_us is None else until_us
        while not self.is_closed and self._under_way and self._under_way[0][0] <= limit_us:
            _, _, envelope = heapq.heappop(self._under_way)
            self._arrive(envelope)

    @property
    def is_empty(self) -> bool:
        """Nothing is on its way."""
        return not self._under_way

    def _arrive(self, envelope: Envelope) -> None:
        """As the service does: an event that is taken is in the log before the answer."""
        self.delivered += 1
        try:
            accepted = self.ingest.take(envelope, self._now_us())
        except RejectedError:
            self.journal.refused += 1
            return
        except Exception as error:  # noqa: BLE001 ingest would end by it
            trace = "".join(traceback.format_exception(error))
            self.journal.violations.append(f"no stage is dead: ingest ends by {trace}")
            return
        self.journal.acknowledge(accepted.event)
        self.sent.append(envelope)
        del self.sent[:-_KEPT_FOR_COPIES]

    def _now_us(self) -> int:
        """By the clock of ingest, which starts anew when that stays wrong."""
        now_us = self._ingest_clock.now_us()
        try:
            self._ingest_clock.check()
        except ClockJumpedError:
            self._ingest_clock = self.clock.guarded(INGEST)
        return now_us
