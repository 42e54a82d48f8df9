"""A region whose decisions are watched over gRPC, and the example of a resource manager in it."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.watch_service_pb2 import WatchDecisionsRequest

from cli.stages import create_topics
from coplace_client.channels import GrpcFiles
from coplace_client.decisions import AsyncDecisionWatcher, WatchedDecision
from deploy.local.kafka.broker import KAFKA
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.support.link import NetworkLink
from tests.watch.examples import built

_MODULES: Final = {
    "ingest": "services.ingest",
    "placement": "services.placement",
    "watch": "services.watch",
}
_WITHIN_S: Final = 400.0


class WatchedRegion:
    """Ingest, placement and the watch service on Kafka. A context."""

    def __init__(self, servers: LocalServers, namespace: str) -> None:
        self._servers, self._namespace = servers, namespace
        self._ports = dict(zip(_MODULES, free_ports(len(_MODULES)), strict=True))
        self._programs = list(map(self._program, _MODULES, free_ports(len(_MODULES))))

    def __enter__(self) -> Self:
        settings = Settings(
            kafka_bootstrap=self._servers.kafka_bootstrap,
            namespace=self._namespace,
            kafka_partitions=2,
        )
        create_topics(Deployment.from_settings(settings))
        self._servers.start(self._programs)
        return self

    def __exit__(self, *_: object) -> None:
        self._servers.remove(self._programs)

    def ports(self, *processes: str) -> Sequence[int]:
        """Where services listen."""
        return [self._ports[each] for each in processes]

    @property
    def watch_address(self) -> str:
        """Where decisions come from."""
        return f"127.0.0.1:{self._ports['watch']}"

    def kill(self, process: str) -> None:
        """End a service hard, or the broker, and wait for it to be there again."""
        name = KAFKA if process == KAFKA else self._name(process)
        self._servers.kill(name)
        self._servers.wait_ready(name)

    def first(
        self, request: WatchDecisionsRequest, count: int, within_s: float = 60.0
    ) -> Sequence[WatchedDecision]:
        """The first decisions that are handed over. Raises TimeoutError."""
        return asyncio.run(self._first(request, count, within_s))

    async def _first(
        self, request: WatchDecisionsRequest, count: int, within_s: float
    ) -> Sequence[WatchedDecision]:
        found: list[WatchedDecision] = []
        async with asyncio.timeout(within_s):
            async for each in AsyncDecisionWatcher(self.watch_address, GrpcFiles(), request):
                found.append(each)
                if len(found) == count:
                    break
        return found

    def _name(self, process: str) -> str:
        return f"{self._namespace}-{process}"

    def _program(self, process: str, http_port: int) -> Program:
        return Program(
            self._name(process),
            [sys.executable, "-m", _MODULES[process]],
            env={
                "PYTHONPATH": os.pathsep.join(sys.path),
                "COPLACE_NAMESPACE": self._namespace,
                "COPLACE_KAFKA_PARTITIONS": "2",
                "COPLACE_SESSION_TIMEOUT_S": "2",
                "COPLACE_HTTP_PORT": str(http_port),
                f"COPLACE_{process.upper()}_PORT": str(self._ports[process]),
            },
            ready_url=f"http://127.0.0.1:{http_port}/readyz",
        )


class ExampleRun:
    """The example in a folder of its own, over as many lives as it takes. A context."""

    def __init__(
        self, region: WatchedRegion, jobs: int, folder: Path, language: str = "python"
    ) -> None:
        self._links = [NetworkLink(port) for port in region.ports("ingest", "watch")]
        self._language, self._jobs, self._folder = language, jobs, folder
        self.lives = 0

    def __enter__(self) -> Self:
        for link in self._links:
            link.mend()
        addresses = [f"127.0.0.1:{link.port}" for link in self._links]
        command = built(self._language, self._folder / "build")
        self._command = [*command, str(self._jobs), *addresses]
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for link in self._links:
            link.cut()

    def cut(self) -> None:
        """Break its connections to ingest and to the watch service; new ones work."""
        for link in self._links:
            link.cut()
            link.mend()

    def kill(self) -> None:
        """End it hard, and start it again."""
        self._process.kill()
        self._process.wait()
        self._begin()

    def obeyed(self) -> Sequence[PlacementDecided]:
        """The decisions that it obeyed, in order."""
        lines = self._lines("obeyed")
        return [PlacementDecided.FromString(bytes.fromhex(line[3])) for line in lines]

    def started(self) -> Sequence[str]:
        """The jobs that it started, in order."""
        return [decision.job_id for decision in self.obeyed() if decision.node_indices]

    def ended(self) -> set[str]:
        """The jobs that have ended."""
        return {line[1] for line in self._lines("ended")}

    def until_started(self, count: int) -> None:
        """Wait until it has started so many."""
        self._until(lambda: len(self.started()) >= count)

    def until_ended(self, count: int) -> None:
        """Wait until so many have ended."""
        self._until(lambda: len(self.ended()) >= count)

    def _begin(self) -> None:
        self.lives += 1
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(self._command, cwd=self._folder, env=environment)

    def _lines(self, kind: str) -> Sequence[Sequence[str]]:
        journal = self._folder / "resource_manager.journal"
        text = journal.read_text() if journal.exists() else ""
        # Of the last line a part may be written.
        lines = (line.split() for line in text[: text.rfind("\n") + 1].splitlines())
        return [line for line in lines if line[0] == kind]

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _WITHIN_S
        while not is_so():
            assert self._process.poll() is None, "the example has ended"
            assert time.monotonic() < deadline_s, f"{len(self.started())}, {len(self.ended())}"
            time.sleep(0.05)
