"""The whole system on real servers: every service its own process on Kafka and Redis."""

import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cli.demo.options import DemoOptions
from cli.kafka_topics import KafkaTopics
from cli.stages import create_topics
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.messaging.deployment import Deployment
from shared.runtime.settings import Settings

_PLACEMENT: Final = "services.placement"
# Modules by process.
MODULES: Final[Mapping[str, str]] = {
    "ingest": "services.ingest",
    "energy": "services.energy",
    "appdb-cache": "services.energy.appdb_cache",
    "energy-api": "services.energy.api",
    "prediction": "services.prediction",
    "placement": _PLACEMENT,
    "pricing": "services.pricing",
    "accounts": "services.pricing.accounts",
}
# These may have several workers: keyed stages share their Kafka partitions among them, of a single
# stage one works and the others stand by.
STATEFUL: Final = ("energy", "appdb-cache", "prediction", "placement", "pricing", "accounts")
# Beside the others where plans are wanted.
PLANNER: Final = "planner"
EMULATOR: Final = "simulation"
# NumPy's libraries would start a thread a core in every process.
_ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class RunningSystem:
    """The whole system at work on real servers."""

    servers: LocalServers
    deployment: Deployment
    processes: tuple[str, ...]
    placement_addresses: tuple[str, ...] = ()

    @property
    def topics(self) -> KafkaTopics:
        """What the run has written so far."""
        return KafkaTopics(self.deployment)


class Processes:
    """The processes of one namespace; each finds `environment` and its own port in its own.

    Traces go to files below `run_dir` when they are wanted: every event then costs a span.
    """

    def __init__(
        self,
        run_dir: Path,
        environment: Mapping[str, str],
        *,
        workers: int = 1,
        traced: bool,
        planned: bool = False,
    ) -> None:
        self._run_dir = run_dir.absolute()
        self._environment = {**environment, **_ONE_THREAD}
        self._traced = traced
        modules = {**MODULES, **({PLANNER: "services.planner"} if planned else {})}
        several = (*STATEFUL, PLANNER)
        self._workers = [
            (name if number == 1 else f"{name}-{number}", module)
            for name, module in modules.items()
            for number in range(1, (workers if name in several else 1) + 1)
        ]
        placements = [name for name, module in self._workers if module == _PLACEMENT]
        self._ingest_port, self._emulator_port, *ports = free_ports(
            2 + len(placements) + len(self._workers)
        )
        self._placement_ports = dict(zip(placements, ports, strict=False))
        self._ports = ports[len(placements) :]

    @property
    def ingest_address(self) -> str:
        """Where gRPC clients find ingest."""
        return f"127.0.0.1:{self._ingest_port}"

    @property
    def placement_addresses(self) -> tuple[str, ...]:
        """Where the workers of placement answer `coplace why`: one does, the others stand by."""
        return tuple(f"127.0.0.1:{port}" for port in self._placement_ports.values())

    def services(self) -> list[Program]:
        """Every service, the stateful ones as often as they have workers."""
        return [
            self._program(name, module, port, self._grpc_ports(name))
            for (name, module), port in zip(self._workers, self._ports, strict=True)
        ]

    def emulator(self) -> Program:
        """The emulated resource managers and nodes."""
        address = {"COPLACE_SIMULATION_INGEST_ADDRESS": self.ingest_address}
        emulator = self._program(EMULATOR, "services.emulator", self._emulator_port, address)
        return replace(emulator, one_shot=True)

    def _grpc_ports(self, name: str) -> Mapping[str, str]:
        """A free one is taken by who is told none."""
        placement = self._placement_ports.get(name, 0)
        return {
            "COPLACE_INGEST_PORT": str(self._ingest_port),
            "COPLACE_PLACEMENT_PORT": str(placement),
        }

    def _program(self, name: str, module: str, port: int, further: Mapping[str, str]) -> Program:
        own = {"COPLACE_HTTP_PORT": str(port), "COPLACE_WORKER": name, **further}
        if self._traced:
            own["COPLACE_TRACE_FILE"] = str(self._run_dir / "traces" / f"{name}.jsonl")
        return Program(
            name,
            [sys.executable, "-m", module],
            env={**self._environment, **own},
            ready_url=f"http://127.0.0.1:{port}/readyz",
        )


@contextmanager
def running(options: DemoOptions, run_dir: Path) -> Iterator[RunningSystem]:
    """Start servers and a run on them; stop them all in the end."""
    with LocalServers(run_dir) as servers, playing(options, servers) as system:
        yield system


@contextmanager
def playing(options: DemoOptions, servers: LocalServers) -> Iterator[RunningSystem]:
    """Start a run's topics, services and emulator; stop its processes in the end."""
    shared = options.shared(new_namespace("demo"))
    environment = options.environment(shared.namespace)
    processes = Processes(
        servers.run_dir,
        environment,
        workers=options.workers,
        traced=True,
        planned=options.planned,
    )
    with serving(shared, [*processes.services(), processes.emulator()], servers) as system:
        yield replace(system, placement_addresses=processes.placement_addresses)


@contextmanager
def serving(
    shared: Settings, programs: Sequence[Program], servers: LocalServers
) -> Iterator[RunningSystem]:
    """Create topics, start programs, wait until they are ready, stop them in the end."""
    addresses = {"kafka_bootstrap": servers.kafka_bootstrap, "redis_url": servers.redis_url}
    deployment = Deployment.of(Settings(**{**shared.model_dump(), **addresses}))
    create_topics(deployment)
    try:
        servers.start(programs)
        yield RunningSystem(servers, deployment, tuple(program.name for program in programs))
    finally:
        servers.remove(programs)


def new_namespace(purpose: str) -> str:
    """A name that no earlier run has used."""
    return f"{purpose}-{uuid.uuid4().hex[:8]}"
