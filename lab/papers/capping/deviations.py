"""`python -m lab.papers.capping.deviations FOLDER`: how far predictions of power said that
they may be off, and how far they were, in what `coplace demo --out FOLDER` left.

Of starts on whole nodes that kept their P-state to the end. Deviations are of the logarithm of what
was drawn over what was predicted.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from math import log, sqrt
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final, NamedTuple

import typer

from cli.failures import ReportingGroup
from lab.papers.placement.markdown import table
from shared.process.user_files import lines

app = typer.Typer(cls=ReportingGroup)

# Of a node of the demo's clusters.
_CORES: Final = {"p1": 48, "p2": 36}


class Start(NamedTuple):
    """What its prediction said of its own deviation, and the error."""

    said_sd: float
    error: float


def starts(decisions: Iterable[str], jobs: Iterable[str]) -> Iterator[Start]:
    """Yield starts from lines of decisions.jsonl and jobs.csv."""
    ended = {row["job_id"]: row for row in csv.DictReader(jobs)}
    for line in decisions:
        decided: dict[str, Any] = json.loads(line)
        row = ended.get(decided["job_id"])
        if decided["verdict"] != "VERDICT_START" or row is None:
            continue
        [on] = [c for c in decided["candidates"] if c["cluster"] == decided["cluster"]]
        is_whole = decided["cores_per_node"] == _CORES[decided["cluster"]]
        if is_whole and float(row["freq_ghz"]) == decided["freq_ghz"]:
            ran_s = float(row["end_s"]) - float(row["start_s"])
            drawn_w = float(row["energy_j"]) / ran_s
            error = log(drawn_w / (on["power_w"] * on["nodes"]))
            yield Start(on.get("power_sd", 0.0), error)


def _row(name: str, found: Sequence[Start]) -> tuple[str, ...]:
    said = sqrt(fmean(each.said_sd * each.said_sd for each in found))
    true = sqrt(fmean(each.error * each.error for each in found))
    return name, f"{len(found):,}", f"{said:.3f}", f"{true:.3f}"


@app.callback(invoke_without_command=True)
def bench(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Of a demo.")],
) -> None:
    """Print deviations by whether a prediction says anything of its deviation."""
    found = [*starts(lines(folder / "decisions.jsonl"), lines(folder / "jobs.csv"))]
    parts = {
        "at the P-state of the signature": [each for each in found if not each.said_sd],
        "projected from another one": [each for each in found if each.said_sd],
        "all": found,
    }
    header = ("prediction", "starts", "deviation predicted", "deviation measured")
    typer.echo(table(header, [_row(name, part) for name, part in parts.items() if part]))


if __name__ == "__main__":
    app()
