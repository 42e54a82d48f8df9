"""`python -m lab.benchmarks.system`: throughput, latency and memory of the whole system."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.failures import ReportingGroup
from lab.benchmarks.system import report
from lab.benchmarks.system.on_kafka import Guard
from lab.benchmarks.system.run import measure
from lab.demo.cli import Out, RunDir
from shared.process.memory import collect_rarely

app = typer.Typer(cls=ReportingGroup)


@app.callback(invoke_without_command=True)
def bench(
    out: Out = Path("out"),
    run_dir: RunDir = Path("run/bench"),
    guard: Annotated[Guard, typer.Option(help="How connections are guarded.")] = Guard.NONE,
) -> None:
    """Measure throughput, latency and memory, embedded and on real servers."""
    collect_rarely()
    console = Console()
    measured = measure(console, run_dir, guard)
    report.write(measured, out)
    console.print(report.table(measured))
    console.print(f"{', '.join(report.FILES)} are in {out}")


if __name__ == "__main__":
    app()
