"""`coplace evaluate`: what the models would have said of jobs that ran elsewhere."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.notes import TABLE_WIDTH, note

app = typer.Typer(no_args_is_help=True, help="Hold models to what was measured.")


@app.command()
def power(
    log: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="Jobs and their power, as CSV.")
    ],
    out_csv: Annotated[
        Path, typer.Option("--csv", help="File to write: each job of the test share.")
    ],
    lag: Annotated[
        int,
        typer.Option(min=1, max=1_000_000, help="A job's power is known so many jobs behind it."),
    ] = 50,
    train_share: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Jobs of the log that are not scored.")
    ] = 0.7,
    alpha: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Share of jobs that may exceed the bound.")
    ] = 0.1,
    plot: Annotated[Path | None, typer.Option(help="Picture to write, PNG.")] = None,
    explain: Annotated[
        str | None, typer.Option(metavar="JOB", help="Say what made this job's prediction.")
    ] = None,
) -> None:
    """Predict the power of each job of a log at its submission, and compare it with the meter."""
    from lab.evaluate import power as evaluation
    from lab.evaluate.power_log import read_log
    from lab.evaluate.scores import first_of_test

    read = read_log(log)
    note(read.notes)
    found = evaluation.evaluated(read.jobs, lag=lag, alpha=alpha, explain=explain)
    first = first_of_test(len(read.jobs), train_share)
    evaluation.write_predictions(out_csv, read.jobs[first:], found.predictions[first:])
    console = Console(width=TABLE_WIDTH)
    console.print(evaluation.table(read.jobs, found.predictions, first, alpha))
    note(found.notes)
    for line in found.explained:
        typer.echo(line)
    if plot is not None:
        from lab.evaluate.plot import write_plot

        write_plot(plot, read.jobs[first:], found.predictions[first:], alpha)
    typer.echo(f"{len(read.jobs) - first} predictions are in {out_csv}")


@app.command()
def degradation(
    pairs: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="Relative performance of pairs, CSV.")
    ],
    sensitivity: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="Run times beside bubbles, CSV.")
    ],
    contentiousness: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="What a reporter suffered, CSV.")
    ],
    out_csv: Annotated[
        Path, typer.Option("--csv", help="File to write: each target beside each neighbour.")
    ],
    seed: Annotated[int, typer.Option(min=0, help="Of the folds and of the trees.")] = 0,
) -> None:
    """Predict how much applications slow each other down, of pairs and of applications that were
    held out, and compare it with what was measured."""
    from lab.evaluate import degradation as evaluation
    from lab.evaluate.pair_files import read_pairs

    files = read_pairs(pairs, sensitivity, contentiousness)
    note(files.notes)
    found = evaluation.evaluated(files, seed)
    evaluation.write_pairs(out_csv, files.profiles, found)
    Console(width=TABLE_WIDTH).print(evaluation.table(found))
    typer.echo(f"{len(found.actual)} targets beside a neighbour are in {out_csv}")


_Groups = Annotated[
    Path, typer.Option(exists=True, dir_okay=False, help="Runs in groups to learn from, CSV.")
]
_Alone = Annotated[
    Path, typer.Option(exists=True, dir_okay=False, help="Runs and counters alone, CSV.")
]


@app.command()
def groups(
    groups: _Groups,
    alone: _Alone,
    out_csv: Annotated[Path, typer.Option("--csv", help="File to write: error of each model.")],
    seed: Annotated[int, typer.Option(min=0, help="Of the partitions and the networks.")] = 0,
) -> None:
    """Predict run time and energy of applications in groups that were held out, by feature sets A
    to F, and compare it with what was measured."""
    from lab.evaluate import groups as evaluation
    from lab.evaluate.group_files import read_groups

    files = read_groups(groups, alone)
    note(files.notes)
    found = evaluation.scores(files, seed)
    evaluation.write_scores(out_csv, found)
    console = Console(width=TABLE_WIDTH)
    for table in evaluation.tables(found, list(evaluation.unmeasured(files, seed))):
        console.print(table)
    typer.echo(f"errors of {len(found)} models are in {out_csv}")


@app.command()
def deadlines(
    groups: _Groups,
    alone: _Alone,
    measured: Annotated[
        Path,
        typer.Option(exists=True, dir_okay=False, help="All groups of what comes, as measured."),
    ],
    nodes: Annotated[int, typer.Option(min=1, max=100_000, help="Nodes.")] = 500,
    cores: Annotated[int, typer.Option(min=1, max=16, help="Cores of a node.")] = 4,
    tasks: Annotated[int, typer.Option(min=1, max=10_000_000, help="Tasks that come.")] = 8000,
    interarrival: Annotated[
        list[float], typer.Option(min=1e-6, help="Mean s between arrivals; again.")
    ] = [0.1, 0.25],  # noqa: B006 - typer copies it
    seed: Annotated[int, typer.Option(min=0, help="Of the tasks and the network.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Picture to write, PNG.")] = None,
) -> None:
    """Schedule tasks with deadlines onto cores by slack: without knowing of neighbours, by what is
    learned of them, and by what was measured."""
    from lab.evaluate import deadlines as evaluation
    from lab.evaluate.group_files import read_groups

    learned, true = read_groups(groups, alone), read_groups(measured, alone)
    note([*learned.notes, *true.notes])
    setting = evaluation.DeadlineSetting(nodes, cores, tasks, seed)
    believed = evaluation.beliefs(learned, true, cores, seed)
    found = evaluation.played(believed, setting, interarrival)
    Console(width=TABLE_WIDTH).print(evaluation.deadline_table(found, setting))
    if plot is not None:
        evaluation.write_plot(plot, found, setting)
