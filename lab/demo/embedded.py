"""The whole system in one process: every stage over the log in memory, no server."""

from collections.abc import Callable, Sequence

from cli.stages import PLANNER, SERVICES, ServiceSettings
from coplace_testing.services import EmbeddedServices
from lab.demo.options import DemoOptions
from lab.emulator.adapters import barrier_of, envelope_of
from lab.emulator.answers import Answers, answered_in
from lab.emulator.app import emulator
from lab.emulator.driver import play
from lab.emulator.emulator import RoundOutput
from shared.process.settings import Settings
from shared.streams.stages.stage import Round


class EmbeddedSystem(EmbeddedServices):
    """Ingest and services that an emulator drives."""

    def __init__(
        self,
        settings: Settings,
        own: ServiceSettings | None = None,
        services: Sequence[str] = SERVICES,
    ) -> None:
        super().__init__(settings, own, services)
        self._answers = self.reader(*answered_in(planned=PLANNER in services))

    def publish(self, output: RoundOutput) -> None:
        """Take a round's events in as ingest does, barrier the round, and let every stage work."""
        for event in output.events:
            self.ingest.take(envelope_of(event.event), output.round.ended_at_us)
        self.put_barrier(barrier_of(output.round))
        self.run_until_quiet()

    def new_answers(self) -> Answers:
        """Return the decisions since the last call, and proposals where there is a planner."""
        return Answers.from_events(self._answers.read())


def run(options: DemoOptions, progress: Callable[[int], None]) -> EmbeddedSystem:
    """Play an emulated run to its end; `progress` gets how many jobs each round finished."""
    own = ServiceSettings(options.energy, options.placement, options.planner)
    services = (*SERVICES, PLANNER) if options.planned else SERVICES
    system = EmbeddedSystem(options.shared(), own, services)

    def publish(output: RoundOutput) -> None:
        system.publish(output)
        progress(sum("JobFinished" in event.event.type for event in output.events))

    def answers_of(_round: Round) -> Answers:
        return system.new_answers()

    play(emulator(options.simulation), publish, answers_of)
    return system
