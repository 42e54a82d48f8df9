"""Ingest and services over one log in memory, in one thread: the one wiring of a region in a
process.

Demo, emulated days and tests stand on it; `Region` is the door for everybody else.
"""

from collections.abc import Iterator, Sequence
from random import Random

from cli.stages import SERVICES, ServiceSettings, stages_of
from coplace_testing.ingest import EmbeddedGate, EmbeddedIngest
from coplace_testing.topics import TopicReader, events_of
from services.ingest.app import intake
from services.ingest.payloads import KINDS
from services.placement.service import Duty
from shared.authority.following import TOPIC as AUTHORITY
from shared.catalogue.event import Event
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import InMemoryLog
from shared.streams.on_kafka.deployment import Deployment

# The topics with rounds that ingest fills: no stage reads the table of authority.
INGEST_TOPICS = sorted({kind.topic for kind in KINDS.values()} - {AUTHORITY})


class EmbeddedServices:
    """Each service is a process of its own. Whoever drives them says what time it is: 0 us where
    barriers end rounds.

    They take their turns always in the same order, or in one that `turns` draws. `is_guarded` holds
    events against a table of authority.
    """

    def __init__(
        self,
        settings: Settings,
        own: ServiceSettings | None = None,
        services: Sequence[str] = SERVICES,
        *,
        turns: Random | None = None,
        is_guarded: bool = False,
    ) -> None:
        self.deployment, self._own, self._turns = Deployment.from_settings(settings), own, turns
        self.codec = self.deployment.codec
        self.log = InMemoryLog()
        gate = EmbeddedGate(self.log, self.codec) if is_guarded else None
        self.ingest = EmbeddedIngest(self.log, self.codec, intake(self.deployment), gate)
        self.duty = Duty()
        self._processes: dict[str, EmbeddedRuntime] = {}
        self._clocked: dict[str, list[str]] = {}
        for service in services:
            self._start(service)

    def run_until_quiet(self, now_us: int = 0) -> None:
        """Let all work until they find nothing more."""
        while sum(self._processes[name].step(now_us) for name in self._in_turn()):
            pass

    def close_rounds(self, now_us: int) -> None:
        """End the rounds that a clock ends."""
        for name in self._in_turn():
            for stage in self._clocked[name]:
                self._processes[name].close_rounds(stage, now_us)

    def put_barrier(self, barrier: Event) -> None:
        """End an emulated round in all that ingest fills."""
        for topic in INGEST_TOPICS:
            for partition in self.codec.topics.partitions(topic):
                self.log.append(self.codec.encode_barrier(partition, barrier))

    def restart(self, service: str, now_us: int = 0) -> None:
        """End the process of a service and start another; raise KeyError for an absent one."""
        self._processes.pop(service).leave()
        self._start(service)
        self.run_until_quiet(now_us)

    def topic(self, name: str) -> Iterator[Event]:
        """Return the events of a topic, ends of rounds among them."""
        return events_of(self.log, self.codec, name)

    def reader(self, *topics: str) -> TopicReader:
        """Return a reader of topics that reads on from where it stopped."""
        return TopicReader(self.log, self.codec, topics)

    def _start(self, service: str) -> None:
        stages = stages_of(service, self.deployment.settings, self._own, self.duty)
        self._clocked[service] = [each.name for each in stages if each.rounds is RoundSource.CLOCK]
        self._processes[service] = EmbeddedRuntime(
            self.log, stages, codec=self.codec, limit=self.deployment.limit
        )

    def _in_turn(self) -> Sequence[str]:
        names = [*self._processes]
        return self._turns.sample(names, len(names)) if self._turns else names
