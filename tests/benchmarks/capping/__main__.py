"""`python -m tests.benchmarks.capping`: dispatchers under a power cap on Eurora's instances."""

from pathlib import Path
from typing import Annotated

import typer

from cli.failures import TellingGroup
from cli.main import Out
from shared.domain.errors import UnusableError
from tests.benchmarks.capping.figure import write_figure
from tests.benchmarks.capping.instances import read_instances
from tests.benchmarks.capping.outcomes import appended, read_outcomes
from tests.benchmarks.capping.plays import CONTENDERS, SOLVERS, play_all
from tests.benchmarks.capping.tables import (
    beside_published,
    equal_waits,
    headline,
    rows_of,
    searches,
    slowdowns,
)
from tests.benchmarks.options import Caps, Data, InstanceNames, Into
from tests.benchmarks.placement.markdown import filled
from tests.support.data import DATA

app = typer.Typer(cls=TellingGroup)
# Who stands beside which published method.
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
    cap: Caps = None,
    resume: Annotated[
        bool, typer.Option(help="Play only what is not in outcomes.csv yet, of the same code.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    out: Out = Path("out/capping"),
    into: Into = None,
) -> None:
    """Play every instance under every cap by every dispatcher."""
    out.mkdir(parents=True, exist_ok=True)
    machine, instances = read_instances(data / "eurora", instance or ())
    named = [each for each in (*CONTENDERS, *SOLVERS) if contender and each.name in contender]
    chosen = named or ([] if contender else [*CONTENDERS])
    if not chosen or not instances:
        raise UnusableError("no such instance or dispatcher: see tests/benchmarks/capping")
    instances = [each.under(cap) for each in instances] if cap else instances
    path = out / "outcomes.csv"
    known = read_outcomes(path) if resume else []
    found = play_all(machine, instances, chosen, workers, known)
    played = [*appended(path, known, found)]
    wanted = {(i.name, cap_pct, c.name) for i in instances for cap_pct in i.caps_w for c in chosen}
    outcomes = [outcome for outcome in played if outcome.play in wanted]
    rows, names = rows_of(instances, outcomes), [each.name for each in chosen]
    write_figure(out / "power-capping.png", rows, [name for name in names if name in _DRAWN])
    tables = {
        "capping slowdowns": slowdowns(rows, names, "bounded_slowdown"),
        "capping slowdowns 300 s": slowdowns(rows, names, "bounded_slowdown_300s"),
        "capping published": beside_published(
            rows, {name: of for name, of in _PUBLISHED.items() if name in names}
        ),
        "capping headline": headline(rows, names),
        "capping weighted": slowdowns(rows, names, "weighted_queue_time_s"),
    }
    if any(each in SOLVERS for each in chosen):
        tables["capping searches"] = searches(rows, [c.name for c in SOLVERS if c in chosen])
    tables["capping equal"] = equal_waits(instances, outcomes, "LS by walltime", "LS")
    if into is not None:
        into.write_text(filled(into.read_text(encoding="utf-8"), tables), encoding="utf-8")
    typer.echo("\n\n".join(f"## {name}\n\n{text}" for name, text in tables.items()))


if __name__ == "__main__":
    app()
