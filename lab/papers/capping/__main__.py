"""`python -m lab.papers.capping`: dispatchers under a power cap on Eurora's instances."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli.failures import ReportingGroup
from cli.main import Out
from coplace_client.errors import UnusableError
from lab.papers.capping.document import Solvers, put, require_solvers
from lab.papers.capping.figure import write_figure
from lab.papers.capping.instances import Instance, read_instances
from lab.papers.capping.outcomes import appended, read_outcomes
from lab.papers.capping.plays import CONTENDERS, DEC, SOLVERS, Contender, Outcome, play_all
from lab.papers.capping.tables import (
    LISTS,
    Row,
    beside_lists,
    beside_published,
    equal_waits,
    headline,
    rows_of,
    searches,
    slowdowns,
)
from lab.papers.options import Caps, Data, InstanceNames, Into
from lab.papers.published_data import DATA

app = typer.Typer(cls=ReportingGroup)
# The published method beside each dispatcher.
_PUBLISHED = {
    "LS": "LS",
    "LS by walltime": "LS",
    **{name: name for name in ("BF", "DynShare_0", "DynShare_0.5", "DynShare_1")},
    **{
        f"{planner}+RAPL_{factor}": f"DynShare_{factor}"
        for planner in ("hybrid", "DEC")
        for factor in ("0.5", "1")
    },
}
_DRAWN = (
    *("LS", "LS by walltime", "hybrid", "BF", "DVFS"),
    *("DynShare_0", "DynShare_mixed", "hybrid+RAPL_mixed"),
)


@app.callback(invoke_without_command=True)
def bench(
    data: Data = DATA,
    instance: InstanceNames = None,
    contender: Annotated[
        list[str] | None,
        typer.Option(help="Name of a dispatcher, such as LS; again; else all but DEC, DEC+RAPL."),
    ] = None,
    solvers: Solvers = False,
    cap: Caps = None,
    resume: Annotated[
        bool, typer.Option(help="Play only what is not in outcomes.csv yet, of the same code.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    out: Out = Path("out/capping"),
    into: Into = None,
) -> None:
    """Play every instance under every cap by every dispatcher."""
    chosen = chosen_of(contender or (), solvers=solvers)
    if not contender:
        require_solvers(into, solvers)
    out.mkdir(parents=True, exist_ok=True)
    machine, instances = read_instances(data / "eurora", instance or ())
    if not chosen or not instances:
        raise UnusableError("no such instance or dispatcher: see lab/papers/capping")
    instances = [each.under(cap) for each in instances] if cap else instances
    path = out / "outcomes.csv"
    known = read_outcomes(path) if resume else []
    found = play_all(machine, instances, chosen, workers, known)
    played = [*appended(path, known, found)]
    wanted = {(i.name, cap_pct, c.name) for i in instances for cap_pct in i.caps_w for c in chosen}
    outcomes = [outcome for outcome in played if outcome.play in wanted]
    rows, names = rows_of(instances, outcomes), [each.name for each in chosen]
    write_figure(out / "power-capping.png", rows, [name for name in names if name in _DRAWN])
    tables = tables_of(rows, names, instances, outcomes)
    put(tables, into)
    typer.echo("\n\n".join(f"## {name}\n\n{text}" for name, text in tables.items()))


def chosen_of(named: Sequence[str], *, solvers: bool) -> list[Contender]:
    """Return the dispatchers of these names; where nothing is named all, those that solve on
    demand. Raises UnusableError for both."""
    if named and solvers:
        raise UnusableError("--solvers adds DEC and DEC+RAPL to all: leave out --contender")
    every = (*CONTENDERS, *SOLVERS)
    return [c for c in every if (c.name in named if named else solvers or c not in SOLVERS)]


def tables_of(
    rows: Sequence[Row],
    chosen: Sequence[str],
    instances: Sequence[Instance],
    outcomes: Sequence[Outcome],
) -> dict[str, str]:
    """Return tables by the names of their places in the document. DEC is beside the lists where all
    of them were played, and else among the others."""
    is_beside = {DEC, *LISTS} <= {*chosen}
    names = [name for name in chosen if name != DEC or not is_beside]
    tables = {
        "capping slowdowns": slowdowns(rows, names, "bounded_slowdown"),
        "capping slowdowns 300 s": slowdowns(rows, names, "bounded_slowdown_300s"),
        "capping published": beside_published(
            rows, {name: of for name, of in _PUBLISHED.items() if name in names}
        ),
        "capping headline": headline(rows, names),
        "capping weighted": slowdowns(rows, names, "weighted_queue_time_s"),
    }
    if is_beside:
        tables["capping dec"] = beside_lists(rows, DEC)
    if solving := [c.name for c in SOLVERS if c.name in names]:
        tables["capping searches"] = searches(rows, solving)
    tables["capping equal"] = equal_waits(instances, outcomes, "LS by walltime", "LS")
    return tables


if __name__ == "__main__":
    app()
