"""The whole system on real servers: every service its own process on Kafka and Redis."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cli.kafka_topics import KafkaTopics
from cli.processes import TOGETHER, Processes
from cli.security import Security
from cli.stages import create_topics
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from lab.demo.options import DemoOptions
from shared.catalogue.access.rules import OPERATOR
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment


@dataclass(frozen=True, slots=True)
class RunningSystem:
    """The whole system at work on real servers."""

    servers: LocalServers
    deployment: Deployment
    processes: tuple[str, ...]
    placement_addresses: tuple[str, ...] = ()

    @property
    def topics(self) -> KafkaTopics:
        """Return what the run has written so far."""
        return KafkaTopics(self.deployment)


@contextmanager
def running(options: DemoOptions, run_dir: Path) -> Iterator[RunningSystem]:
    """Start servers and a run on them; stop them all in the end."""
    security = Security(run_dir, new_namespace("demo")) if options.secure else None
    with (
        own_servers(run_dir, security) as servers,
        playing(options, servers, security) as system,
    ):
        yield system


def own_servers(run_dir: Path, security: Security | None) -> LocalServers:
    """Return Kafka and Redis, secure with credentials, which are made where there are none."""
    if security is None:
        return LocalServers(run_dir)
    security.prepare()
    return LocalServers(run_dir, secure=security.redis)


@contextmanager
def playing(
    options: DemoOptions, servers: LocalServers, security: Security | None = None
) -> Iterator[RunningSystem]:
    """Start a run's topics, services and emulator; stop its processes in the end. Secure servers
    were started with what `security` prepared."""
    shared = options.shared(security.namespace if security else new_namespace("demo"))
    if security:
        security.provision(servers)
        shared = Settings(**{**shared.model_dump(), **security.settings(OPERATOR)})
    environment = options.environment(shared.namespace)
    processes = Processes(
        servers.run_dir,
        environment,
        together=TOGETHER if options.together else None,
        workers=options.workers,
        traced=True,
        planned=options.planned,
        credentials=security.environment if security else None,
    )
    with serving(shared, [*processes.services(), processes.emulator()], servers) as system:
        yield replace(system, placement_addresses=processes.placement_addresses)


@contextmanager
def serving(
    shared: Settings, programs: Sequence[Program], servers: LocalServers
) -> Iterator[RunningSystem]:
    """Create topics, start programs, wait until they are ready, stop them in the end."""
    addresses = {"kafka_bootstrap": servers.kafka_bootstrap, "redis_url": servers.redis_url}
    deployment = Deployment.from_settings(Settings(**{**shared.model_dump(), **addresses}))
    create_topics(deployment)
    try:
        servers.start(programs)
        yield RunningSystem(servers, deployment, tuple(program.name for program in programs))
    finally:
        servers.remove(programs)


def new_namespace(purpose: str) -> str:
    """Return a name that no earlier run has used."""
    return f"{purpose}-{uuid.uuid4().hex[:8]}"
