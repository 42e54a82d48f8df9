"""`python -m tests.chaos.kills`: every process killed or stopped in the middle of real runs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.failures import ReportingGroup
from cli.region_policy import RegionPolicy
from lab.demo.cli import Coefficients, Out, PolicyName, RunDir, Seed, Swf
from lab.demo.options import DemoOptions
from tests.chaos.kills import matrix

app = typer.Typer(cls=ReportingGroup)


@app.callback(invoke_without_command=True)
def kill(
    seed: Seed = 1,
    jobs: Annotated[
        int, typer.Option(min=30, max=1_000_000, help="How many jobs are submitted.")
    ] = 200,
    policy: PolicyName = RegionPolicy.PRIORITY_INC_V,
    out: Out = Path("out"),
    swf: Swf = None,
    coefficients: Coefficients = None,
    kills: Annotated[int, typer.Option(min=1, max=20, help="Kills in a run.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Runs of each process.")] = 2,
    secure: Annotated[
        bool, typer.Option(help="With TLS, passwords and access control, which are renewed too.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Of these processes alone; may be said again.")
    ] = None,
    run_dir: RunDir = Path("run/chaos"),
) -> None:
    """Kill or stop every process in the middle of runs and compare the results."""
    options = DemoOptions(seed, jobs, policy, out, swf, coefficients, secure=secure)
    session_s = matrix.session_timeout_s()
    every = matrix.trials(jobs, kills, repeats, session_s, planned=options.planned, secure=secure)
    trials = [trial for trial in every if not only or trial.name in only or trial.target in only]
    outcomes: list[matrix.Outcome] = []
    for outcome in matrix.play(options, trials, run_dir, Console()):
        outcomes.append(outcome)
        matrix.write(outcomes, out / "chaos.md")
    Console().print(matrix.table(outcomes))
    if any(outcome.difference for outcome in outcomes):
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
