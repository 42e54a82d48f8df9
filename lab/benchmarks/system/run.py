"""The benchmark from its start to its end."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coplace.v1.jobs_pb2 import JobFinished
from rich.console import Console

from lab.benchmarks.system.in_process import InProcess
from lab.benchmarks.system.on_kafka import Bench, Guard, benched
from lab.benchmarks.system.step import Kind, Seen
from shared.catalogue.event import Publish

QUEUED: Final = 10_000
FLOW_RATES_PER_S: Final = (100, 250, 300, 350, 500)
RATES_PER_S: Final = (250, 500, 750, 1000, 1250, 1500)
AT_LEAST_PER_S: Final = 500
STEP_S: Final = 12
TELEMETRY_S: Final = 8.0
EMBEDDED_ROUNDS: Final = 60
# A quarter of each cluster is taken from the start; short jobs flow through the rest, which is
# taken before the jobs that only wait.
FILLERS_BEFORE_FLOW: Final = 16
FILLERS_AFTER_FLOW: Final = 48
WIDE: Final = 16
_FILL_PER_S: Final = 100.0
_QUEUE_PER_S: Final = 1_000.0
# The models that are trained of the past come through, and what relaxed stages make of it.
_LEARN_S: Final = 8.0


class WrongStartError(RuntimeError):
    """The system is not in the state that the benchmark measures."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All results of the benchmark."""

    queued: int
    embedded_jobs_per_s: float
    waiting: Sequence[Seen]
    flowing: Sequence[Seen]
    samples_per_s: float
    rss_bytes: dict[str, int]
    cores: int
    load_1min_before: float
    took_s: float

    @property
    def sustained(self) -> Seen | None:
        """Return the step of the highest rate that was sustained."""
        return max((s for s in self.waiting if s.is_sustained), key=_rate, default=None)


def measure(console: Console, run_dir: Path, guard: Guard = Guard.NONE) -> Measured:
    """Measure one process alone, then every service as a process."""
    load_1min, began_s = os.getloadavg()[0], time.monotonic()
    console.print("one process, no server ...")
    in_process = InProcess()
    embedded_jobs_per_s = in_process.jobs_per_s(QUEUED, EMBEDDED_ROUNDS)
    console.print(f"starting Kafka, Redis and the services in {run_dir} ...")
    with benched(run_dir, guard) as bench:
        _prepare(bench, in_process.history, console)
        flowing = [*_ladder(bench, Kind.FLOW, FLOW_RATES_PER_S, console)]
        bench.play("top-up", Kind.TOP_UP, _FILL_PER_S, FILLERS_AFTER_FLOW)
        waiting = [*_ladder(bench, Kind.WAIT, RATES_PER_S, console)]
        rss_bytes = bench.rss_bytes()
        samples_per_s = bench.samples_per_s(TELEMETRY_S)
    return Measured(
        queued=QUEUED,
        embedded_jobs_per_s=embedded_jobs_per_s,
        waiting=waiting,
        flowing=flowing,
        samples_per_s=samples_per_s,
        rss_bytes=rss_bytes,
        cores=len(os.sched_getaffinity(0)),
        load_1min_before=load_1min,
        took_s=time.monotonic() - began_s,
    )


def _prepare(bench: Bench, history: Sequence[Publish], console: Console) -> None:
    """A past to learn from, clusters that are taken in part, a queue that cannot start. Raises
    WrongStartError where the system is another one."""
    bench.publish(history)
    bench.wait_charged(sum(isinstance(each.event.payload, JobFinished) for each in history))
    time.sleep(_LEARN_S)
    fill = bench.play("fill", Kind.FILL, _FILL_PER_S, FILLERS_BEFORE_FLOW)
    require_started(fill, FILLERS_BEFORE_FLOW)
    require_started(bench.play("wide", Kind.WIDE, _FILL_PER_S, WIDE), 0)
    queue = bench.play("queue", Kind.QUEUE, _QUEUE_PER_S, QUEUED)
    require_started(queue, 0)
    console.print(f"{queue.jobs} jobs wait")


def require_started(seen: Seen, jobs: int) -> None:
    """Raise WrongStartError where another number of a step's jobs started."""
    if seen.started != jobs:
        raise WrongStartError(
            f"{seen.started} of {seen.jobs} jobs of step {seen.name} started, and {jobs} should: "
            "what comes would be measured on another system. Run it again on a quiet machine"
        )


def _ladder(
    bench: Bench, kind: Kind, rates_per_s: Sequence[int], console: Console
) -> Iterator[Seen]:
    """Higher and higher rates, up to the first that is not sustained, and at least the one that
    Slurm documents."""
    for rate_per_s in rates_per_s:
        seen = bench.play(f"{kind}-{rate_per_s}", kind, rate_per_s, rate_per_s * STEP_S)
        console.print(
            f"{seen.name}: p50 {seen.p50_ms:.0f} ms, p99 {seen.p99_ms:.0f} ms, "
            f"{seen.started} of {seen.jobs} started, {seen.late} late, "
            f"{sum(seen.cpu_share.values()):.2f} cores"
        )
        yield seen
        if not seen.is_sustained and rate_per_s >= AT_LEAST_PER_S:
            return


def _rate(seen: Seen) -> float:
    return seen.rate_per_s
