"""The whole system in one process and in virtual time: ingest, every stage with several workers,
accounts, resource managers and users, over one log in memory."""

from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from random import Random
from typing import Any, ClassVar, Final

import structlog
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.placement_service_pb2 import ExplainResponse

from cli.stages import PLANNER, SERVICES, ServiceSettings, stages_of
from coplace_testing.ingest import EmbeddedIngest
from coplace_testing.topics import TopicReader
from services.ingest.model import Intake
from services.placement.service import Duty
from services.placement.settings import PlacementSettings
from shared.catalogue.codec import Codec
from shared.catalogue.record import TopicPartition
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.consistency import InconsistentError
from shared.streams.stages.stage import Stage
from tests.chaos.accounts import Accounts
from tests.chaos.clock import SECOND_US, Clock, some_time_us
from tests.chaos.hostile import fragile
from tests.chaos.journal import Journal
from tests.chaos.managers import DECISIONS, Manager, Managers
from tests.chaos.network import INGEST, Network
from tests.chaos.operators import Operator
from tests.chaos.remembering import RememberingCodec
from tests.chaos.restoring import repartition
from tests.chaos.workers import Plant, Worker
from tests.support.operated_log import OperatedLog

ACCOUNTS: Final = "accounts"
INPUTS: Final = TopicPartition("placement.inputs", 0)
# What a cap refuses may start at a lower P-state, or where others run at one; where a cap falls all
# that there is is done. Meters are read rarely, so that some are silent.
RULES: Final = PlacementSettings(
    cap_slowdown=1.5,
    cap_measures="lower-frequency,suspend",
    cap_sharing=True,
    meter_silence_s=120.0,
)
OWN: Final = ServiceSettings(placement=RULES)

# A stalled worker lets the others go on; one that stalls meanwhile lets them go on once more.
_MOST_STALLED: Final = 2


def _silence(_logger: object, _name: str, _line: MutableMapping[str, Any]) -> str:
    raise structlog.DropEvent


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a simulated region is, if planners are at work, if jobs say when they may start and
    must have ended, where they may run, and all else that a job can ask for."""

    kafka_partitions: int = 2
    workers: int = 2
    planned: bool = False
    timed: bool = False
    has_places: bool = False
    asking: bool = False


class World:
    """What there is. `adversary` moves it, the auditor judges it."""

    services: ClassVar[Sequence[str]] = SERVICES

    def __init__(self, rng: Random, scale: Scale) -> None:
        # Thousands of injected deaths are no surprise; what matters is in the journal.
        structlog.configure(processors=[_silence])
        self.rng, self.scale = rng, scale
        self.clock = Clock()
        self.log = OperatedLog()
        self.journal = Journal()
        self._duties: dict[str, Duty] = {}
        self._deploy(scale.kafka_partitions)
        self.network = Network(self._ingest(), self.journal, self.clock)
        decisions = TopicReader(self.log, self.codec, [DECISIONS])
        self.managers = Managers(decisions, self._new_manager)
        self.accounts = Accounts(self.log, self.deployment, self.journal)
        self.operator = Operator(self)
        self.clusters: dict[str, ClusterDeclared] = {}
        self.declared_us: dict[str, int] = {}
        self.lost: set[str] = set()
        self.undeclared: set[str] = set()
        self.held: set[str] = set()
        self.limited: set[str] = set()
        self.events = 0
        self._stalled = 0

    @property
    def codec(self) -> Codec:
        """Of the topics as they are deployed now."""
        return self.deployment.codec

    @property
    def hosts(self) -> list[str]:
        """Whoever has a wall clock."""
        return [INGEST, *(worker.name for worker in self.workers)]

    def let_pass(self, most_us: int) -> None:
        """Some time passes and everybody does some of what there is to do."""
        self.clock.advance(some_time_us(self.rng, 1000, most_us))
        self.network.deliver()
        for worker in self.rng.sample(self.workers, len(self.workers)):
            self._work(worker)
        self.managers.read()
        self.managers.act()
        if self.rng.random() < 0.5:
            self.operator.act()
        if self.rng.random() < 0.5:
            self.accounts.step()

    def settle(self, period_us: int = 30 * SECOND_US) -> None:
        """Time passes and everybody does all that there is to do."""
        self.clock.advance(period_us)
        self.network.deliver()
        for worker in self.workers:
            worker.start()
        self.run_until_quiet()
        for worker in self.workers:
            worker.close_rounds()
        self.run_until_quiet()
        self.managers.read()
        self.managers.act()
        self.operator.act()
        self.accounts.resume()
        self.accounts.step()

    def run_until_quiet(self) -> None:
        """Let the workers work until they find nothing more."""
        while not self.journal.violations and sum(worker.step() for worker in self.workers):
            for worker in self.workers:
                worker.start()

    def explain(self, job_id: str) -> ExplainResponse | None:
        """What placement answers; None where it does not, or does not know the job."""
        for worker in self.workers:
            queries = self._duties[worker.name].queries
            if worker.is_up and queries is not None:
                return queries.answer(job_id)
        return None

    def stop(self, service: str) -> None:
        """End the processes of a service; their supervisor starts them when their turn comes."""
        for worker in self.workers:
            if worker.service == service:
                worker.kill(is_expelled=True)

    def grow(self, kafka_partitions: int) -> None:
        """`coplace restore repartition`, as docs/how-to/restore.md says: behind a closed ingest,
        without any process, and again where it refuses since not all is read or something does not
        fit."""
        before, stages = self.deployment.topics, list(chain(*self.stages.values()))
        grown = Deployment.from_settings(self._settings(kafka_partitions)).topics
        self.network.is_closed = True
        for worker in self.workers:
            worker.disarm()
        while not self.journal.violations:
            self.settle()
            for worker in self.workers:
                worker.kill(is_expelled=True)
            with suppress(ValueError, InconsistentError):
                repartition(self.log, before, grown, stages)
                break
        self._deploy(kafka_partitions)
        self.network.ingest, self.managers.decisions.codec = self._ingest(), self.codec
        self.accounts.deploy(self.deployment)
        self.network.is_closed = False

    def close(self) -> None:
        """Leave nothing open, and logging as it was."""
        self.accounts.close()
        structlog.reset_defaults()

    def _work(self, worker: Worker) -> None:
        roll = self.rng.random()
        if not worker.is_up:
            if roll < 0.3 and not worker.is_stalled:
                worker.start()
            return
        if roll < 0.9:
            worker.step()
        if roll > 0.4:
            worker.close_rounds()

    def _while_stalled(self) -> None:
        """What happens while a worker has stopped in the middle of a step."""
        if self._stalled >= _MOST_STALLED:
            return
        self._stalled += 1
        for _ in range(self.rng.randint(1, 8)):
            self.let_pass(10 * SECOND_US)
        self._stalled -= 1

    def _new_manager(self, cluster: str) -> Manager:
        rng = Random(f"{cluster}/{self.rng.random()}")
        manager = Manager(cluster, rng, self.clock, self.network, self.journal)
        if self.scale.asking:
            manager.temper.declines, manager.temper.names_refused = 0.2, 0.7
        return manager

    def _deploy(self, kafka_partitions: int) -> None:
        settings = self._settings(kafka_partitions)
        clock = self.clock.guarded(ACCOUNTS)
        found = Deployment.from_settings(settings)
        codec = RememberingCodec(found.codec)
        self.deployment = replace(found, clock=clock, codec=codec)
        self.stages = {
            service: _stages(service, settings, Duty())
            for service in (*self.services, *self._planners)
        }
        self.workers = self._new_workers(settings)

    def _ingest(self) -> EmbeddedIngest:
        return EmbeddedIngest(self.log, self.codec, Intake(self.codec.topics))

    @property
    def _planners(self) -> tuple[str, ...]:
        return (PLANNER,) if self.scale.planned else ()

    def _settings(self, kafka_partitions: int) -> Settings:
        return Settings(
            kafka_partitions=kafka_partitions, rounds=RoundSource.CLOCK, namespace="chaos"
        )

    def _new_workers(self, settings: Settings) -> list[Worker]:
        plant = Plant(
            self.log,
            self.codec,
            self.deployment.limit,
            self.clock,
            self.journal,
            self.rng,
            self._while_stalled,
        )
        workers = []
        for service in self.stages:
            for number in range(self.scale.workers):
                name = f"{service}-{number}"
                duty = self._duties[name] = Duty()
                workers.append(Worker(plant, service, name, _stages(service, settings, duty)))
        for worker in workers:
            worker.start()
        return workers


def _stages(service: str, settings: Settings, duty: Duty) -> Sequence[Stage]:
    """Return what a process of a service runs; `duty` learns whether it answers for placement."""
    return [fragile(stage) for stage in stages_of(service, settings, OWN, duty)]
