"""`python -m lab.benchmarks.system.guards`: what encryption, passwords and a table of authority
cost a job, at a rate that is low enough for a machine that others use too."""

import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from cli.failures import ReportingGroup
from lab.benchmarks.system.in_process import InProcess
from lab.benchmarks.system.on_kafka import Guard, benched
from lab.benchmarks.system.run import FILLERS_BEFORE_FLOW
from lab.benchmarks.system.step import Kind, Seen
from lab.demo.cli import RunDir

_KINDS: Final = (Kind.FLOW, Kind.WAIT)
_FILL_PER_S: Final = 20.0

app = typer.Typer(cls=ReportingGroup)


@app.callback(invoke_without_command=True)
def guards(
    run_dir: RunDir = Path("run/bench-guards"),
    rate: Annotated[float, typer.Option(min=0.1, help="Jobs a second.")] = 10.0,
    jobs: Annotated[int, typer.Option(min=1, help="Of each kind, at each guard, each time.")] = 300,
    repeats: Annotated[int, typer.Option(min=1, help="There and back again, so often.")] = 1,
) -> None:
    """Play the same jobs without a guard, with encryption and passwords, and under a table, one
    after the other and back, and print CPU time and latency beside each other."""
    console, seen = Console(), dict[tuple[Guard, Kind], list[Seen]]()
    there = list(Guard)
    for guard in [*there, *reversed(there)] * repeats:
        console.print(f"{guard} at a load of {os.getloadavg()[0]:.1f} ...")
        for one in _played(run_dir / guard, guard, rate, jobs):
            console.print(f"  {one.kind}: {_cpu_ms(one):.1f} ms of CPU a job, {one.late} late")
            seen.setdefault((guard, one.kind), []).append(one)
    console.print(_table(seen))


def _played(run_dir: Path, guard: Guard, rate: float, jobs: int) -> Iterator[Seen]:
    """One step of each kind, on servers of their own that have a past to learn from."""
    with benched(run_dir, guard) as bench:
        bench.publish(InProcess().history)
        bench.play("fill", Kind.FILL, _FILL_PER_S, FILLERS_BEFORE_FLOW)
        for kind in _KINDS:
            yield bench.play(str(kind), kind, rate, jobs)


def _cpu_ms(seen: Seen) -> float:
    """CPU time of all processes a job, whatever share of the cores they were given."""
    return 1e3 * sum(seen.cpu_share.values()) / seen.sent_per_s


def _table(seen: dict[tuple[Guard, Kind], list[Seen]]) -> Table:
    table = Table("guard", "jobs", "CPU ms a job", "p50 ms", "p99 ms", "late", "load", box=MARKDOWN)
    for (guard, kind), runs in seen.items():
        cpu = " ".join(f"{_cpu_ms(one):.1f}" for one in runs)
        loads = " ".join(f"{one.load_1min:.0f}" for one in runs)
        p50, p99 = (median(ms) for ms in zip(*[(r.p50_ms, r.p99_ms) for r in runs], strict=True))
        late = sum(one.late for one in runs)
        table.add_row(guard, f"all {kind}", cpu, f"{p50:.0f}", f"{p99:.0f}", str(late), loads)
    return table


if __name__ == "__main__":
    app()
