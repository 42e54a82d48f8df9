"""The demo, embedded and on real servers, and whether both give the same."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cli.kafka_topics import CHARGES, KafkaTopics
from lab.demo import accounts, embedded, first_answer, imported, report
from lab.demo.first_answer import FirstAnswer
from lab.demo.history import History
from lab.demo.options import DemoOptions
from lab.demo.parity import first_difference
from lab.demo.servers import running
from lab.demo.summary import DemoSummary
from lab.emulator.app import workload
from lab.emulator.imported import read_imported
from shared.process.folders import path_within
from shared.replay.rules import write_rules

PATIENCE_S: Final = 180.0


def run_first_answer(options: DemoOptions, console: Console, *, in_full: bool) -> None:
    """Play the workload in this process, and beside it without caps and under plain EASY: report
    what they differ in, and all figures where they are asked for."""
    answer, summary = play_first_answer(options, console)
    if in_full:
        _show(summary, options, console, "no server")
    first_answer.show(answer, options, console)
    _show_imported(answer.history, options, console)


def play_first_answer(options: DemoOptions, console: Console) -> tuple[FirstAnswer, DemoSummary]:
    """Play the workload in each way and write the files of all runs."""
    uncapped = first_answer.UncappedRun(options)
    try:
        history, summary = play_embedded(options, console)
        answer = first_answer.compare(options, history, uncapped.measured())
    finally:
        uncapped.stop()
    first_answer.write(answer, options.out)
    return answer, summary


def run_embedded(options: DemoOptions, console: Console) -> DemoSummary:
    """Play the workload in this process and report all figures."""
    history, summary = play_embedded(options, console)
    _show(summary, options, console, "no server")
    _show_imported(history, options, console)
    return summary


def play_embedded(options: DemoOptions, console: Console) -> tuple[History, DemoSummary]:
    """Play the workload in this process and write the files of its run."""
    with _finished_jobs(options, console) as told:
        system = embedded.run(options, told)
    history = History.read(system.topic)
    summary = report.write(history, accounts.fold_charges(history.charges), options.out)
    report.write_inputs(system.topic, options.out)
    write_rules(options.out, options.placement.rules)
    return history, summary


def run_sharing(options: DemoOptions, console: Console) -> None:
    """Play the workload with neighbours and again without, each in a folder of its own, and report
    what sharing by the policy changed."""
    beside = run_embedded(replace(options, out=path_within(options.out, "sharing")), console)
    apart = replace(options, out=path_within(options.out, "alone"), sharing=False)
    console.print(report.of_sharing(beside, run_embedded(apart, console)))


def run_on_servers(options: DemoOptions, console: Console, run_dir: Path) -> None:
    """Play the workload on real Kafka and Redis and report it."""
    console.print(f"starting Kafka, Redis and the services in {run_dir} ...")
    with running(options, run_dir) as system:
        for address in system.placement_addresses:
            console.print(f"while it runs: coplace why JOB --address {address}")
        with _finished_jobs(options, console) as told:
            system.topics.follow(told, PATIENCE_S)
        history, summary = write_files(system.topics, options.out)
    write_rules(options.out, options.placement.rules)
    _show(summary, options, console, "Kafka and Redis")
    _show_imported(history, options, console)


def run_parity(options: DemoOptions, console: Console, run_dir: Path) -> str | None:
    """Run both; return the first difference of what they decided and charged, or None."""
    alone = replace(options, out=path_within(options.out, "embedded"))
    served = replace(options, out=path_within(options.out, "kafka"))
    run_embedded(alone, console)
    run_on_servers(served, console, run_dir)
    return first_difference(alone.out, served.out)


def write_files(
    topics: KafkaTopics, out: Path, *, hold_redis: bool = True
) -> tuple[History, DemoSummary]:
    """Write the files of a complete run on Kafka, with the balances that Redis has, and return what
    happened and its figures.

    Raises WrongAccountsError when these are not the sums of the charges; without `hold_redis`
    the charges alone are summed.
    """
    history = History.read(topics.topic)
    spent = accounts.fold_charges(history.charges)
    if hold_redis:
        found = accounts.in_redis(topics.deployment, topics.ends(CHARGES), PATIENCE_S)
        accounts.require_equal(found, spent)
    report.write_inputs(topics.topic, out)
    return history, report.write(history, spent, out)


def _show(summary: DemoSummary, options: DemoOptions, console: Console, where: str) -> None:
    console.print(report.table(summary, f"{options.policy}, seed {options.seed}, {where}"))
    console.print(f"{', '.join(report.FILES)} are in {options.out}")


def _show_imported(history: History, options: DemoOptions, console: Console) -> None:
    if options.reports is not None:
        _, clusters = workload(options.simulation)
        found = imported.clocks_from_import(history, read_imported(options.reports, clusters))
        console.print(imported.table(found))


@contextmanager
def _finished_jobs(options: DemoOptions, console: Console) -> Iterator[Callable[[int], None]]:
    requests, _ = workload(options.simulation)
    with progress_of(len(requests), console) as told:
        yield told


@contextmanager
def progress_of(jobs: int, console: Console) -> Iterator[Callable[[int], None]]:
    """Show a live progress bar of finished jobs."""
    columns = (TextColumn("jobs finished"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("jobs", total=jobs)
        yield lambda count: bar.advance(task, count)
