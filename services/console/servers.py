"""The whole system on real servers: every service its own process on Kafka and Redis."""

import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from services.console.kafka_topics import KafkaTopics
from services.console.options import DemoOptions
from services.console.topics import create_topics
from shared.messaging.deployment import Deployment
from shared.runtime.settings import Settings

# Modules by process; a keyed service may have several workers.
MODULES: Final[Mapping[str, str]] = {
    "ingest": "services.ingest",
    "energy": "services.energy",
    "prediction": "services.prediction",
    "placement": "services.placement",
    "pricing": "services.pricing",
    "accounts": "services.pricing.accounts",
}
KEYED: Final = ("energy", "pricing", "accounts")
EMULATOR: Final = "simulation"
# NumPy's libraries would start a thread a core in every process.
_ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class RunningSystem:
    """A demo at work on real servers."""

    servers: LocalServers
    deployment: Deployment
    processes: tuple[str, ...]

    @property
    def topics(self) -> KafkaTopics:
        """What the run has written so far."""
        return KafkaTopics(self.deployment)


@contextmanager
def running(options: DemoOptions, run_dir: Path) -> Iterator[RunningSystem]:
    """Start servers, topics, services and the emulator; stop them all in the end."""
    namespace = f"demo-{uuid.uuid4().hex[:8]}"
    with LocalServers(run_dir) as servers:
        addresses = {"kafka_bootstrap": servers.kafka_bootstrap, "redis_url": servers.redis_url}
        settings = Settings(**{**options.shared(namespace).model_dump(), **addresses})
        deployment = Deployment.of(settings)
        create_topics(deployment)
        programs = services(options, namespace, run_dir)
        servers.start(programs)
        names = tuple(program.name for program in programs)
        yield RunningSystem(servers, deployment, names)


def services(options: DemoOptions, namespace: str, run_dir: Path) -> list[Program]:
    """Every process of a demo, the emulator last."""
    workers = [
        (name if number == 1 else f"{name}-{number}", MODULES[name])
        for name in MODULES
        for number in range(1, (options.workers if name in KEYED else 1) + 1)
    ]
    workers.append((EMULATOR, "services.simulation"))
    ingest_port, *ports = free_ports(len(workers) + 1)
    environment = {
        **options.environment(namespace),
        **_ONE_THREAD,
        "COPLACE_INGEST_PORT": str(ingest_port),
        "COPLACE_SIMULATION_INGEST_ADDRESS": f"127.0.0.1:{ingest_port}",
    }
    program = _program_in(run_dir, environment)
    return [program(*worker, port) for worker, port in zip(workers, ports, strict=True)]


def _program_in(
    run_dir: Path, environment: Mapping[str, str]
) -> Callable[[str, str, int], Program]:
    def program(name: str, module: str, port: int) -> Program:
        own = {
            "COPLACE_HTTP_PORT": str(port),
            "COPLACE_TRACE_FILE": str(run_dir.absolute() / "traces" / f"{name}.jsonl"),
        }
        return Program(
            name,
            [sys.executable, "-m", module],
            env={**environment, **own},
            ready_url=f"http://127.0.0.1:{port}/readyz",
            one_shot=name == EMULATOR,
        )

    (run_dir / "traces").mkdir(parents=True, exist_ok=True)
    return program
