"""What watchers over gRPC wait for decisions beside Kafka's own consumer, and what they cost.

`make bench-watching`: jobs flow at a fixed rate through the system. One process reads the decisions
from Kafka as a resource manager does, another gets them from `watch`; a third has a thousand users
watch, in every second step.
"""

import asyncio
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import numpy as np
import orjson
import typer
from coplace.v1.placement_pb2 import PlacementDecided
from rich.console import Console

from cli.failures import ReportingGroup
from coplace_client.decisions import AsyncDecisionWatcher, of_clusters, of_user
from deploy.local.program import Program
from lab.benchmarks.system.in_process import InProcess
from lab.benchmarks.system.on_kafka import Bench, Guard, benched
from lab.benchmarks.system.step import Kind, Seen
from lab.demo.cli import RunDir
from lab.workloads.clusters import clusters
from shared.clients.decisions import DecisionFollower, ResourceManager
from shared.domain.cluster import EMULATED_SITE
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment

WATCHERS: Final = 1_000
RATE_PER_S: Final = 80.0
STEP_S: Final = 20
_READY_S: Final = 8.0
_LEARN_S: Final = 3.0
_AT_ONCE: Final = 500

app = typer.Typer(cls=ReportingGroup)


class Way(StrEnum):
    """How a process hears of decisions."""

    KAFKA = "kafka"
    GRPC = "grpc"
    USERS = "users"


@dataclass(frozen=True, slots=True)
class Delays:
    """How much later than Kafka's consumer a watcher has a decision, ms."""

    decisions: int
    p50_ms: float
    p99_ms: float
    worst_ms: float


def key_of(decision: PlacementDecided) -> str:
    """Return the identity of a decision."""
    return f"{decision.job_id}/{decision.attempt}/{decision.grant}/{decision.verdict}"


def delays(kafka: dict[str, float], grpc: dict[str, float]) -> Delays:
    """Return the delays of what was watched. Kafka's consumer reads the topic from its beginning.
    Raises ValueError where it lacks any of them."""
    both = kafka.keys() & grpc.keys()
    if len(both) < len(grpc) or not both:
        raise ValueError(f"{len(kafka)} and {len(grpc)} decisions, {len(both)} in common")
    found = np.array([grpc[each] - kafka[each] for each in both]) * 1e3
    p50, p99, worst = (float(each) for each in np.percentile(found, [50, 99, 100]))
    return Delays(len(both), p50, p99, worst)


class _Arrivals:
    """When decisions came."""

    def __init__(self) -> None:
        self._at_s: dict[str, float] = {}

    async def note(self, decided: Sequence[PlacementDecided]) -> None:
        """Note those that come now."""
        now_s = time.monotonic()
        for each in decided:
            self._at_s.setdefault(key_of(each), now_s)

    async def write(self, out: Path) -> None:
        """Keep a file that has them all, until cancelled."""
        while True:
            await asyncio.sleep(0.5)
            whole = out.with_suffix(".new")
            whole.write_bytes(orjson.dumps(self._at_s))
            whole.replace(out)


async def _listen(way: Way, address: str, out: Path) -> None:
    """Note when each decision comes, until the process is ended."""
    arrivals = _Arrivals()
    names = [cluster.name for cluster in clusters()]
    async with asyncio.TaskGroup() as group:
        group.create_task(arrivals.write(out))
        if way is Way.KAFKA:
            manager = ResourceManager("bench", EMULATED_SITE, frozenset(names))
            deployment = Deployment.from_settings(settings())
            group.create_task(DecisionFollower(deployment, manager, _AT_ONCE).run(arrivals.note))
        elif way is Way.GRPC:
            async for each in AsyncDecisionWatcher(
                address, settings(), of_clusters(EMULATED_SITE, names)
            ):
                await arrivals.note([each.decision])
        else:
            for number in range(WATCHERS):
                group.create_task(_watch(address, f"user{number:02d}"))


async def _watch(address: str, user: str) -> None:
    async for _ in AsyncDecisionWatcher(address, settings(), of_user(user)):
        pass


@contextmanager
def _listening(bench: Bench, way: Way) -> Iterator[Path]:
    """Have a process hear of decisions meanwhile; yield the file in which it says when."""
    out = bench.folder / f"{way}.arrived.json"
    out.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "lab.benchmarks.system.watching", "listen"]
    program = Program(
        f"listen-{way}", [*argv, way.value, bench.watch_address, str(out)], bench.environment
    )
    bench.system.servers.start([program])
    try:
        time.sleep(_READY_S)
        yield out
    finally:
        bench.system.servers.remove([program])


@app.command()
def listen(way: Way, address: str, out: Path) -> None:
    """Note when decisions come, until the process is ended."""
    asyncio.run(_listen(way, address, out))


@app.command()
def measure(
    run_dir: RunDir = Path("run/watching"), turns: Annotated[int, typer.Option()] = 3
) -> None:
    """Print how long watchers wait, and what a thousand of them cost placement, by turns."""
    console = Console()
    with benched(run_dir, Guard.NONE) as bench:
        bench.publish(InProcess().history)
        time.sleep(_LEARN_S)
        _flow(bench, "warm")
        for turn in range(turns):
            with _listening(bench, Way.KAFKA) as kafka, _listening(bench, Way.GRPC) as grpc:
                seen = _flow(bench, f"alone-{turn}")
                time.sleep(1.0)
                found = delays(orjson.loads(kafka.read_bytes()), orjson.loads(grpc.read_bytes()))
            console.print(f"{seen.name}: {found}")
        shares: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(turns):
            shares[False].append(_share(console, _flow(bench, f"nobody-{turn}")))
            with _listening(bench, Way.USERS):
                shares[True].append(_share(console, _flow(bench, f"users-{turn}")))
    alone, watched = median(shares[False]), median(shares[True])
    console.print(
        f"placement uses {alone:.4f} of a core alone, {watched:.4f} beside {WATCHERS} watchers: "
        f"{watched / alone - 1:+.1%}; load before {os.getloadavg()[0]:.1f}"
    )


def _flow(bench: Bench, name: str) -> Seen:
    return bench.play(name, Kind.FLOW, RATE_PER_S, round(RATE_PER_S * STEP_S))


def _share(console: Console, seen: Seen) -> float:
    used = ", ".join(f"{name} {share:.3f}" for name, share in seen.cpu_share.items())
    console.print(f"{seen.name}: p99 {seen.p99_ms:.0f} ms; {used}")
    return seen.cpu_share["placement"]


if __name__ == "__main__":
    app()
