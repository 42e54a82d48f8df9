"""The demo, embedded and on real servers, and whether both come to the same."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from services.console import embedded, report
from services.console.embedded import Progress as Told
from services.console.history import History, ReadTopic
from services.console.options import DemoOptions
from services.console.parity import first_difference
from services.console.servers import running
from services.simulation.app import workload

PATIENCE_S: Final = 180.0


def run_embedded(options: DemoOptions, console: Console) -> None:
    """Play the workload in this process and report it."""
    with _finished_jobs(options, console) as told:
        system = embedded.run(options, told)
    _report(system.topic, options, console, "no server")


def run_on_servers(options: DemoOptions, console: Console, run_dir: Path) -> None:
    """Play the workload on real Kafka and Redis and report it."""
    console.print(f"starting Kafka, Redis and the services in {run_dir} ...")
    with running(options, run_dir) as system:
        with _finished_jobs(options, console) as told:
            system.topics.follow(told, PATIENCE_S)
        _report(system.topics.topic, options, console, "Kafka and Redis")


def run_parity(options: DemoOptions, console: Console, run_dir: Path) -> str | None:
    """Run both; the first difference of what they decided and charged, None when there is none."""
    alone = replace(options, out=options.out / "embedded")
    served = replace(options, out=options.out / "kafka")
    run_embedded(alone, console)
    run_on_servers(served, console, run_dir)
    return first_difference(alone.out, served.out)


def _report(topic: ReadTopic, options: DemoOptions, console: Console, where: str) -> None:
    began = time.monotonic()
    summary = report.write(History.read(topic), options.out)
    console.print(report.table(summary, f"{options.policy}, seed {options.seed}, {where}"))
    took_s = time.monotonic() - began
    console.print(f"{', '.join(report.FILES)} are in {options.out} ({took_s:.1f} s)")


@contextmanager
def _finished_jobs(options: DemoOptions, console: Console) -> Iterator[Told]:
    requests, _ = workload(options.simulation)
    with progress_of(len(requests), console) as told:
        yield told


@contextmanager
def progress_of(jobs: int, console: Console) -> Iterator[Told]:
    """A live progress bar of finished jobs."""
    columns = (TextColumn("jobs finished"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("jobs", total=jobs)
        yield lambda count: bar.advance(task, count)
