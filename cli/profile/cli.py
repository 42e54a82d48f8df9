"""`coplace profile`: measure how much programs slow each other down on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from cli.notes import note

app = typer.Typer(
    no_args_is_help=True, help="Measure how much programs slow each other down on this machine."
)


@app.command()
def kernels(
    folder: Annotated[Path, typer.Argument(help="Folder to make them and campaign.yaml in.")],
    seconds: Annotated[
        float, typer.Option(min=0.02, max=600, help="How long each runs alone, about.")
    ] = 0.5,
    repetitions: Annotated[int, typer.Option(min=1, max=100, help="Of each run.")] = 3,
) -> None:
    """Compile the kernels that come with Coplace, and write a campaign of all of them."""
    from cli.profile import kernels as shipped
    from cli.profile.campaign import runs

    folder.mkdir(parents=True, exist_ok=True)
    found = shipped.campaign(shipped.compile_kernels(folder.absolute()), seconds, repetitions)
    shipped.write(folder / "campaign.yaml", found)
    count = sum(1 for _ in runs(found))
    typer.echo(
        f"{folder / 'campaign.yaml'}: {count} runs, {count * seconds / 60:.0f} min at the least"
    )


@app.command()
def run(
    campaign: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Its YAML.")],
    out: Annotated[Path, typer.Option(help="Folder of the journal and of the tables.")],
) -> None:
    """Run a campaign, or go on with one that was interrupted, and write its tables."""
    from cli.profile import tables
    from cli.profile.campaign import read_campaign, runs
    from cli.profile.counters import countable, schema
    from cli.profile.journal import Journal
    from cli.profile.running import Bench
    from cli.progress import progress_of

    read = read_campaign(campaign)
    counters = schema()
    events, problem = countable(counters)
    note([problem] if problem else [])
    journal = Journal(out / "runs.jsonl", read)
    done = {each.run for each in journal.measured}
    bench = Bench(read, counters, events)
    every = list(runs(read))
    with progress_of(len(every), "runs") as tell:
        for each in every:
            if each not in done:
                journal.add(bench.measured(each))
                done.add(each)
            tell(len(done))
    for path in tables.write(out, tables.Results(read, journal.measured)):
        typer.echo(str(path))
