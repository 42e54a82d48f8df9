"""The whole system in one process: every stage over the log in memory, no server."""

from collections.abc import Callable, Iterable, Sequence

from lab.demo.options import DemoOptions
from lab.emulator.adapters import MARKED, barrier_of, envelope_of
from lab.emulator.answers import Answers, answered_in
from lab.emulator.app import emulator
from lab.emulator.driver import play
from lab.emulator.emulator import RoundOutput
from services.energy.app import stages as energy_stages
from services.ingest.model import Intake
from services.placement.app import stages as placement_stages
from services.planner.app import stages as planner_stages
from services.prediction.app import stages as prediction_stages
from services.pricing.app import stages as pricing_stages
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event
from shared.catalogue.record import TopicPartition
from shared.catalogue.topics import Topics
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import InMemoryLog
from shared.streams.stages.stage import Round, Stage


class EmbeddedSystem:
    """Ingest and every stage over one log in memory."""

    def __init__(self, stages: Sequence[Stage], topics: Topics) -> None:
        self._log = InMemoryLog()
        self._codec = Codec(topics)
        self._intake = Intake(topics)
        self._runtime = EmbeddedRuntime(self._log, stages, codec=self._codec)
        self._read_to: dict[TopicPartition, int] = {}

    def publish(self, output: RoundOutput) -> None:
        """Take a round's events in as ingest does, barrier the round, and let every stage work."""
        for event in output.events:
            accepted = self._intake.accept(envelope_of(event.event), output.round.now_s)
            self._log.append(self._codec.encode(accepted))
        barrier = barrier_of(output.round)
        for topic in MARKED:
            for partition in self._codec.topics.partitions(topic):
                self._log.append(self._codec.encode_barrier(partition, barrier))
        self._runtime.run_until_quiet()

    def new_answers(self, *, planned: bool = False) -> Answers:
        """What was decided since the last call, and where it is `planned` what was proposed."""
        found: list[Event] = []
        for topic in answered_in(planned=planned):
            for partition in self._codec.topics.partitions(topic):
                begin, end = self._read_to.get(partition, 0), self._log.end_offset(partition)
                found += self._events(partition, begin, end)
                self._read_to[partition] = end
        return Answers.from_events(found)

    def topic(self, name: str) -> Iterable[Event]:
        """Every event of a topic."""
        for partition in self._codec.topics.partitions(name):
            yield from self._events(partition, 0, self._log.end_offset(partition))

    def _events(self, partition: TopicPartition, begin: int, end: int) -> Iterable[Event]:
        return map(self._codec.decode, self._log.read(partition, begin, end - begin))


def run(options: DemoOptions, progress: Callable[[int], None]) -> EmbeddedSystem:
    """Play an emulated run to its end; `progress` is told how many jobs each round finished."""
    settings = options.shared()
    stages = [
        *energy_stages(settings, options.energy),
        *prediction_stages(settings),
        *placement_stages(settings, options.placement),
        *pricing_stages(settings),
        *(planner_stages(settings, options.planner, options.placement) if options.planned else ()),
    ]
    system = EmbeddedSystem(stages, Topics(kafka_partitions=settings.kafka_partitions))

    def publish(output: RoundOutput) -> None:
        system.publish(output)
        progress(sum("JobFinished" in event.event.type for event in output.events))

    def answers_of(_round: Round) -> Answers:
        return system.new_answers(planned=options.planned)

    play(emulator(options.simulation), publish, answers_of)
    return system
