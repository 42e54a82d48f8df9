"""`python -m lab.papers.lookahead`: what look-ahead and its parts gain over PriorityInc-V."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from cli.failures import ReportingGroup
from cli.main import Out
from cli.progress import progress_of
from lab.papers.lookahead.plays import BASE, MEASURES, VARIANTS, Play
from lab.papers.lookahead.workloads import SOURCES
from lab.papers.options import Data, Into
from lab.papers.placement.intervals import Interval
from lab.papers.placement.markdown import table, write_tables
from lab.papers.published_data import DATA

app = typer.Typer(cls=ReportingGroup)
_KEYS: Final = ("workload", "seed", "variant", "jobs")
_TABLE: Final = "look-ahead"
Known = dict[Play, dict[str, float]]


@app.callback(invoke_without_command=True)
def bench(
    data: Data = DATA,
    first_seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    seeds: Annotated[int, typer.Option(min=2, max=1_000, help="How many seeds.")] = 6,
    jobs: Annotated[int, typer.Option(min=2, help="Jobs of each play.")] = 5000,
    only: Annotated[
        list[str] | None, typer.Option(help="These variants alone; may be said again.")
    ] = None,
    workload: Annotated[
        list[str] | None, typer.Option(help="These workloads alone; may be said again.")
    ] = None,
    out: Out = Path("out/look-ahead"),
    into: Into = None,
    plays: Annotated[
        bool, typer.Option(help="Play what is missing; else show what is there.")
    ] = True,
) -> None:
    """Play what was not played yet, and make the table of what is there."""
    _require_known(only, VARIANTS)
    _require_known(workload, SOURCES)
    wanted = [
        Play(name, seed, variant)
        for variant in (BASE, *(only or VARIANTS))
        for seed in range(first_seed, first_seed + seeds)
        for name in workload or SOURCES
    ]
    known = _kept(out / "plays.csv", jobs)
    missing = [play for play in wanted if play not in known] if plays else []
    with progress_of(len(wanted), "plays") as done:
        for number, play in enumerate(missing, len(wanted) - len(missing)):
            done(number)
            known[play] = play.measured(data, jobs)
            _keep(out / "plays.csv", play, jobs, known[play])
    name = f"{_TABLE}, some variants" if only else _TABLE
    typer.echo(write_tables({name: _table(known, wanted)}, out, into))


def _require_known(wanted: Sequence[str] | None, known: Iterable[str]) -> None:
    """Raises typer.BadParameter."""
    if unknown := sorted({*(wanted or ())} - {*known}):
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(known)}")


def _kept(path: Path, jobs: int) -> Known:
    """What an earlier call has played."""
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["jobs"] == str(jobs)]
    return {
        Play(row["workload"], int(row["seed"]), row["variant"]): {
            name: float(row[name]) for name in MEASURES
        }
        for row in rows
    }


def _keep(path: Path, play: Play, jobs: int, found: Mapping[str, float]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow([*_KEYS, *MEASURES])
        writer.writerow([play.workload, play.seed, play.variant, jobs, *found.values()])


def _table(known: Known, wanted: Sequence[Play]) -> str:
    seeds = sorted({play.seed for play in wanted})
    header = ["variant, workload", *[name.partition(",")[0] for name in MEASURES]]
    variants = [each for each in VARIANTS if each in {play.variant for play in wanted}]
    return table(header, _lines(known, variants, seeds))


def _lines(known: Known, variants: Sequence[str], seeds: Sequence[int]) -> Iterator[list[str]]:
    """Of what was played with every seed."""
    for variant in variants:
        for workload in SOURCES:
            plays = [(Play(workload, s, variant), Play(workload, s, BASE)) for s in seeds]
            pairs = [(known[our], known[base]) for our, base in plays if {our, base} <= {*known}]
            if len(pairs) < len(seeds):
                continue
            gains = [
                Interval.of([_gain(ours[name], base[name]) for ours, base in pairs])
                for name in MEASURES
            ]
            yield [f"{variant}, {workload}", *[each.shown(1) for each in gains]]


def _gain(ours: float, base: float) -> float:
    """By how much it is below the base, in percent of it; nothing of nothing."""
    return 100 * (1 - ours / base) if base else 0.0


if __name__ == "__main__":
    app()
