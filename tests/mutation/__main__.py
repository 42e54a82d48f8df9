"""`make mutants`: random mutants of the schedulers, and how many of them the tests kill."""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.mutation.calls import SCHEDULING
from tests.mutation.results import Verdict, survivors, table
from tests.mutation.session import Session, StaleSessionError


def main() -> None:
    """Go on with a session, and report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seconds", type=int, default=30, help="of CPU, for each")
    parser.add_argument("--session", type=Path, default=Path("build/mutants"))
    parser.add_argument("--known", type=Path, help="a session whose killed mutants stay killed")
    asked = parser.parse_args()
    console = Console()
    try:
        session = Session(asked.session, asked.seed, asked.mutants, asked.seconds)
    except StaleSessionError as error:
        sys.exit(str(error))
    if asked.known:
        console.print(f"{session.take_over(asked.known.resolve())} were killed in {asked.known}")
    play(session, console)
    tell(session, asked.session, console)


def play(session: Session, console: Console) -> None:
    """What survives is reported at once."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("", total=len(session), completed=len(session.results()))
        for result in session.go_on():
            progress.update(task, advance=1, description=result.file.removeprefix(SCHEDULING))
            if result.verdict in (Verdict.SURVIVED, Verdict.FAULTY):
                progress.console.print(f"{result.verdict.value}: {result.file}:{result.line}")


def tell(session: Session, folder: Path, console: Console) -> None:
    """The table, and the survivors, also in a file."""
    results = session.results()
    lines = survivors(results)
    (folder / "survivors.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    console.print(table(results))
    console.print("\nSurvived:" if lines else "\nNone survived.")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
