"""The benchmark's steps on real servers: every service a process, rounds closed by the clock."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson
import psutil

from cli.demo.options import variables
from cli.demo.servers import RunningSystem, new_namespace, serving
from cli.processes import Processes
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from services.emulator.adapters import IngestClient
from shared.messaging.event import Publish
from shared.messaging.stage import RoundSource
from shared.runtime.settings import Settings
from tests.benchmarks.system.step import Kind, Seen, Step

ROUND_PERIOD_S: Final = 0.1
_SERVERS: Final = ("kafka", "redis")
_STEP_WITHIN_S: Final = 180.0


@dataclass(slots=True)
class Bench:
    """A running system and the steps that are played on it."""

    system: RunningSystem
    ingest_address: str
    environment: dict[str, str]
    folder: Path
    _jobs: int = field(default=0, init=False)

    def publish(self, events: Sequence[Publish]) -> None:
        """Hand events to ingest, and return when the broker has them."""
        asyncio.run(self._publish(events))

    def play(self, name: str, kind: Kind, rate_per_s: float, jobs: int) -> Seen:
        """Play one step in a process of its own."""
        step = Step(name, kind, rate_per_s, jobs, self._jobs, self._pids())
        self._jobs += jobs
        return Seen.from_json(self._run(name, "tests.benchmarks.system.site", step.to_json()))

    def samples_per_s(self, seconds: float) -> float:
        """Telemetry samples that ingest acknowledges a second."""
        written = self._run("telemetry", "tests.benchmarks.system.telemetry", str(seconds))
        rate_per_s: float = orjson.loads(written)["samples_per_s"]
        return rate_per_s

    def rss_bytes(self) -> dict[str, int]:
        """Resident memory of each process."""
        return {name: psutil.Process(pid).memory_info().rss for name, pid in self._pids().items()}

    async def _publish(self, events: Sequence[Publish]) -> None:
        async with IngestClient(self.system.deployment, self.ingest_address) as ingest:
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
def benched(run_dir: Path) -> Iterator[Bench]:
    """Start servers and services as production has them, but for few Kafka partitions."""
    shared = Settings(
        namespace=new_namespace("bench"),
        rounds=RoundSource.CLOCK,
        round_period_s=ROUND_PERIOD_S,
        kafka_partitions=4,
    )
    environment = variables(shared)
    processes = Processes(run_dir, environment, traced=False)
    folder = run_dir.absolute() / "steps"
    folder.mkdir(parents=True, exist_ok=True)
    with (
        LocalServers(run_dir) as servers,
        serving(shared, processes.services(), servers) as system,
    ):
        yield Bench(system, processes.ingest_address, environment, folder)
