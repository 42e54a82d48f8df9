"""The benchmark's steps on real servers: services in processes as `coplace up` has them, rounds
closed by the clock."""

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

import orjson
import psutil
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.pricing_pb2 import ChargeMade

from cli.kafka_topics import CHARGES
from cli.processes import EMULATOR, TOGETHER, Processes
from cli.security import Security
from coplace_client.ingest import publish
from deploy.local.program import Program
from lab.benchmarks.system.step import Kind, Seen, Step
from lab.demo.options import variables
from lab.demo.servers import RunningSystem, new_namespace, own_servers, serving
from lab.emulator.adapters import EmulatorIngest
from shared.authority.binding import Binding, Role
from shared.authority.table import message_of
from shared.catalogue.access.rules import OPERATOR
from shared.catalogue.event import Publish
from shared.domain.cluster import EMULATED_SITE
from shared.domain.rounds import RoundSource
from shared.process.clock import now_us
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment

ROUND_PERIOD_S: Final = 0.1
_SERVERS: Final = ("kafka", "redis")
_STEP_WITHIN_S: Final = 180.0
_EVERY: Final = ("*",)
_ROLES: Final[Mapping[Role, Mapping[str, tuple[str, ...]]]] = {
    Role.OPERATOR: {"sites": _EVERY},
    Role.RESOURCE_MANAGER: {"sites": _EVERY, "accounts": _EVERY, "jobs": _EVERY},
    Role.AGENT: {"sites": _EVERY},
}


class Guard(StrEnum):
    """How the connections of a system are guarded."""

    NONE = "none"
    SECURE = "secure"
    """TLS, passwords and access control lists."""
    TABLE = "table"
    """The same, under a table of authority."""


@dataclass(slots=True)
class Bench:
    """A running system and the steps that are played on it by `speaker`, whose processes have
    `environment`."""

    system: RunningSystem
    speaker: Deployment
    ingest_address: str
    watch_address: str
    environment: dict[str, str]
    folder: Path
    _jobs: int = field(default=0, init=False)

    def publish(self, events: Sequence[Publish]) -> None:
        """Hand events to ingest, and return when the broker has them."""
        asyncio.run(self._publish(events))

    def wait_charged(self, jobs: int) -> None:
        """Wait until so many jobs are charged: the rounds in which they ended are over. Raises
        TimeoutError."""
        deadline_s = time.monotonic() + _STEP_WITHIN_S
        while (charged := self._charged()) < jobs:
            if time.monotonic() > deadline_s:
                problem = f"{charged} of {jobs} jobs are charged after {_STEP_WITHIN_S:.0f} s"
                raise TimeoutError(f"{problem}: see the services' logs in {self.folder.parent}")
            time.sleep(0.5)

    def _charged(self) -> int:
        events = self.system.topics.topic(CHARGES)
        return sum(isinstance(event.payload, ChargeMade) for event in events)

    def play(self, name: str, kind: Kind, rate_per_s: float, jobs: int) -> Seen:
        """Play one step in a process of its own."""
        step = Step(name, kind, rate_per_s, jobs, self._jobs, self._pids())
        self._jobs += jobs
        return Seen.from_json(self._run(name, "lab.benchmarks.system.site", step.to_json()))

    def samples_per_s(self, seconds: float) -> float:
        """Measure telemetry samples that ingest acknowledges a second."""
        written = self._run("telemetry", "lab.benchmarks.system.telemetry", str(seconds))
        rate_per_s: float = orjson.loads(written)["samples_per_s"]
        return rate_per_s

    def rss_bytes(self) -> dict[str, int]:
        """Return the resident memory of each process."""
        return {name: psutil.Process(pid).memory_info().rss for name, pid in self._pids().items()}

    async def _publish(self, events: Sequence[Publish]) -> None:
        async with EmulatorIngest(self.speaker, self.ingest_address) as ingest:
            await ingest.publish(events)

    def _pids(self) -> dict[str, int]:
        names = (*_SERVERS, *self.system.processes)
        return {name: self.system.servers.pid(name) for name in names}

    def _run(self, name: str, module: str, told: str) -> bytes:
        out = self.folder / f"{name}.json"
        argv = [sys.executable, "-m", module, told, self.ingest_address, str(out)]
        self.system.servers.start([Program(name, argv, self.environment, one_shot=True)])
        self.system.servers.wait_done(name, _STEP_WITHIN_S)
        return out.read_bytes()


@contextmanager
def benched(run_dir: Path, guard: Guard) -> Iterator[Bench]:
    """Start servers and services as `coplace up` has them."""
    shared = Settings(
        namespace=new_namespace("bench"),
        rounds=RoundSource.CLOCK,
        round_period_s=ROUND_PERIOD_S,
        kafka_partitions=4,
    )
    security = None if guard is Guard.NONE else Security(run_dir, shared.namespace)
    environment = variables(shared)
    processes = Processes(
        run_dir,
        environment,
        together=None if security else TOGETHER,
        traced=False,
        credentials=security.environment if security else None,
    )
    folder = run_dir.absolute() / "steps"
    folder.mkdir(parents=True, exist_ok=True)
    with own_servers(run_dir, security) as servers:
        operator, speaker = shared, shared
        if security:
            security.provision(servers)
            operator, speaker = (_of(shared, security, name) for name in (OPERATOR, EMULATOR))
            environment |= security.environment(EMULATOR)
        with serving(operator, processes.services(), servers) as system:
            if guard is Guard.TABLE:
                _declare_table(speaker, processes.ingest_address)
            deployment = Deployment.from_settings(speaker)
            addresses = processes.ingest_address, processes.watch_address
            yield Bench(system, deployment, *addresses, environment, folder)


def _of(shared: Settings, security: Security, name: str) -> Settings:
    return Settings(**{**shared.model_dump(), **security.settings(name)})


def _declare_table(speaker: Settings, ingest_address: str) -> None:
    """Who plays the sites may all that it does."""
    now = now_us()
    table = message_of(
        1, [Binding(EMULATED_SITE, role, **of) for role, of in _ROLES.items()], "", now
    )
    envelope = Envelope(
        id=f"{EMULATED_SITE}/table/1", source=EMULATED_SITE, time_us=now, authority_declared=table
    )
    publish(ingest_address, speaker, envelope)
