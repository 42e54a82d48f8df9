"""`python -m lab.benchmarks.first_answers`: what `make demo` answers of several seeds."""

from io import StringIO
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from cli.failures import ReportingGroup
from cli.main import Out
from lab.demo import comparison, first_answer
from lab.demo.comparison import PRINTED
from lab.demo.first_answer import FirstAnswer
from lab.demo.options import DemoOptions
from lab.demo.run import play_first_answer
from lab.papers.options import Into
from lab.papers.placement.markdown import table, write_tables

# As wide as what is in documents may be.
_WIDTH: Final = 100
_JOBS: Final = 300

app = typer.Typer(cls=ReportingGroup)


@app.callback(invoke_without_command=True)
def answer(
    seeds: Annotated[int, typer.Option(min=1, help="From 1 to this.")] = 5,
    out: Out = Path("out/first-answers"),
    into: Into = None,
) -> None:
    """Play the demo of each seed, and print what it answers."""
    found = {}
    for seed in range(1, seeds + 1):
        options = DemoOptions(seed=seed, jobs=_JOBS, out=out / f"seed-{seed}")
        found[seed], _ = play_first_answer(options, Console())
    tables = {
        "changes": table(_HEADER, _rows(found)),
        **{f"seed {seed}": _screen(each, seed) for seed, each in found.items()},
    }
    typer.echo(write_tables(tables, out, into))


_HEADER: Final = ("seed, against", *(f"{each.name}, %" for each in PRINTED), "above a cap, h")


def _rows(found: dict[int, FirstAnswer]) -> list[list[str]]:
    """Return what Coplace changes, by seed and by what it is compared with."""
    rows = []
    for seed, each in found.items():
        coplace, capped, *plain = each.figures()
        for run, base in [*((coplace, base) for base in plain), (capped, plain[0])]:
            changes = [f"{comparison.change_percent(f, run, base):+.1f}" for f in PRINTED]
            above = f"{run.above_cap_s / 3600:.1f}, {base.above_cap_s / 3600:.1f}"
            name = f"{seed}, {run.name}, {base.name}"
            rows.append([name, *changes, above])
    return rows


def _screen(each: FirstAnswer, seed: int) -> str:
    """Return what the demo prints, below its progress bar."""
    console = Console(file=StringIO(), width=_WIDTH)
    with console.capture() as captured:
        first_answer.show(each, DemoOptions(seed=seed, jobs=_JOBS), console)
    lines = (line.rstrip() for line in captured.get().splitlines())
    return "```\n" + "\n".join(lines) + "\n```"


if __name__ == "__main__":
    app()
