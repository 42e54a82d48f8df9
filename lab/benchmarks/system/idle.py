"""`python -m lab.benchmarks.system.idle`: what a region takes of a core while nothing comes; of the
region that `coplace up` started last."""

import os
import time
from typing import Annotated, Final

import typer
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import track
from rich.table import Table

from cli.failures import ReportingGroup
from cli.installation.installation import Installation
from lab.benchmarks.system.cpu import CpuTimes

_SERVERS: Final = ("kafka", "redis")

app = typer.Typer(cls=ReportingGroup)


@app.callback(invoke_without_command=True)
def measure(
    seconds: Annotated[int, typer.Option(min=1, help="For how long.")] = 60,
) -> None:
    """Print the share of a core of each process."""
    processes = [each for each in Installation.last().processes() if each.pid]
    cpu = CpuTimes({each.name: each.pid for each in processes})
    for _ in track(range(seconds), "measured"):
        time.sleep(1)
    shares = cpu.shares()
    table = Table("process", "% of a core", box=MARKDOWN)
    for name, share in sorted(shares.items(), key=lambda one: -one[1]):
        table.add_row(name, f"{100 * share:.2f}")
    console = Console()
    console.print(table)
    own = sum(share for name, share in shares.items() if name not in _SERVERS)
    load, *_ = os.getloadavg()
    console.print(f"{100 * own:.2f} % without Kafka and Redis, at a load of {load:.1f}")


if __name__ == "__main__":
    app()
