"""The demo, embedded and on real servers, and whether both come to the same."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from services.console import accounts, embedded, report
from services.console.embedded import Progress as Told
from services.console.history import History
from services.console.kafka_topics import CHARGES, KafkaTopics
from services.console.options import DemoOptions
from services.console.parity import first_difference
from services.console.servers import running
from services.simulation.app import workload

PATIENCE_S: Final = 180.0


def run_embedded(options: DemoOptions, console: Console) -> None:
    """Play the workload in this process and report it."""
    with _finished_jobs(options, console) as told:
        system = embedded.run(options, told)
    history = History.read(system.topic)
    _report(history, accounts.folded(history.charges), options, console, "no server")


def run_on_servers(options: DemoOptions, console: Console, run_dir: Path) -> None:
    """Play the workload on real Kafka and Redis and report it."""
    console.print(f"starting Kafka, Redis and the services in {run_dir} ...")
    with running(options, run_dir) as system:
        with _finished_jobs(options, console) as told:
            system.topics.follow(told, PATIENCE_S)
        history = History.read(system.topics.topic)
        spent = balances(system.topics, history)
        _report(history, spent, options, console, "Kafka and Redis")


def run_parity(options: DemoOptions, console: Console, run_dir: Path) -> str | None:
    """Run both; the first difference of what they decided and charged, None when there is none."""
    alone = replace(options, out=options.out / "embedded")
    served = replace(options, out=options.out / "kafka")
    run_embedded(alone, console)
    run_on_servers(served, console, run_dir)
    return first_difference(alone.out, served.out)


def balances(topics: KafkaTopics, history: History) -> accounts.Spent:
    """What Redis says that was spent. Raises WrongAccountsError unless the ledger says the same."""
    ends = topics.ends(CHARGES)
    spent = accounts.in_redis(topics.deployment, ends, PATIENCE_S)
    accounts.require_equal(spent, accounts.folded(history.charges))
    return spent


def _report(
    history: History, spent: accounts.Spent, options: DemoOptions, console: Console, where: str
) -> None:
    began = time.monotonic()
    summary = report.write(history, spent, options.out)
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
