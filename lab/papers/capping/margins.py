"""`python -m lab.papers.capping.margins`: what a share of the cap that is kept free costs in
bounded slowdown where predictions are right.

Means over the instances of a set and its caps, where no job draws more than any margin leaves; the
paper has 4.2 % for LS and 4.4 % for DEC at a margin of 1 %, and 6 to 7 % at 5 %. DEC plays the
first set under two of its caps, where it is asked for.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean
from time import process_time
from typing import Annotated, Final, NamedTuple

import typer

from cli.failures import ReportingGroup
from cli.progress import progress_of
from coplace_client.errors import UnusableError
from lab.papers.capping.caps import constant_cap
from lab.papers.capping.document import Solvers, put, require_solvers
from lab.papers.capping.instances import Instance, read_instances
from lab.papers.capping.uncertain import MARGINS
from lab.papers.options import Caps, Data, InstanceNames, Into
from lab.papers.placement.markdown import table
from lab.papers.published_data import DATA
from lab.simulation.capping import CappingMethod, CappingRules, play_capped
from lab.simulation.eurora import figures_of
from lab.workloads.eurora import EuroraMachine

app = typer.Typer(cls=ReportingGroup)

_SETS: Final = ("rndm_50_300", "rndm_100_900", "hist_100")
HEADER: Final = (
    *("set", "caps, %", "by"),
    *(f"margin {100 * margin:g} %" for margin in MARGINS),
    "CPU, s",
)
_METHODS: Final = (CappingMethod.LS, CappingMethod.LS_WALLTIME, CappingMethod.HYBRID)
_SOLVED_CAPS_PCT: Final = (75, 50)


class Line(NamedTuple):
    """A line of the table: the caps are all where none are said."""

    instances: str
    method: CappingMethod
    caps_pct: Sequence[int] = ()


def lines_of(
    sets: Sequence[str],
    methods: Sequence[CappingMethod],
    caps_pct: Sequence[int],
    *,
    solvers: bool,
) -> Iterator[Line]:
    """Yield the lines of the table, in its order."""
    for name in sets:
        yield from (Line(name, method, caps_pct) for method in methods)
        if solvers and name == _SETS[0]:
            yield Line(name, CappingMethod.DEC, _SOLVED_CAPS_PCT)


@app.callback(invoke_without_command=True)
def bench(
    data: Data = DATA,
    instance: InstanceNames = None,
    method: Annotated[
        list[CappingMethod] | None, typer.Option(help="Again; else those of orders.")
    ] = None,
    cap: Caps = None,
    solvers: Solvers = False,
    into: Into = None,
) -> None:
    """Play every set by every method under caps that are so much lower."""
    require_solvers(into, solvers)
    wanted = [*lines_of(instance or _SETS, method or _METHODS, cap or (), solvers=solvers)]
    rows = []
    with progress_of(len(wanted), "means") as tell:
        for name, by, caps_pct in wanted:
            machine, instances = read_instances(data / "eurora", [name])
            instances = [each.under(caps_pct) for each in instances] if caps_pct else instances
            caps = ", ".join(f"{each}" for each in instances[0].caps_w)
            rows.append([name, caps, f"{by}", *cells(machine, instances, by)])
            tell(len(rows))
    tables = {"capping margins": table(HEADER, rows)}
    put(tables, into)
    typer.echo(tables["capping margins"])


def cells(
    machine: EuroraMachine, instances: Sequence[Instance], method: CappingMethod
) -> list[str]:
    """Return the mean bounded slowdown (60 s) by margin, and how much above that of none it is."""
    began_s = process_time()
    plays = [(each, cap_w) for each in instances for cap_w in each.caps_w.values()]
    found = [[_slowdown(machine, *play, method, margin) for margin in MARGINS] for play in plays]
    solved = [[s for s in of_play if s is not None] for of_play in found]
    solved = [of_play for of_play in solved if len(of_play) == len(MARGINS)]
    without, *means = [fmean(column) for column in zip(*solved, strict=True)]
    above = [f"{mean:.3f} ({100 * (mean / without - 1):+.1f} %)" for mean in means]
    return [f"{without:.3f}", *above, f"{process_time() - began_s:,.0f}"]


def _slowdown(
    machine: EuroraMachine, instance: Instance, cap_w: float, method: CappingMethod, margin: float
) -> float | None:
    """None where a job draws more than what is left of the cap."""
    cap, factors = constant_cap(cap_w * (1 - margin)), [0.0] * len(instance.jobs)
    try:
        run = play_capped(
            machine, instance.jobs, CappingRules(method, cap, instance.waits_s, factors)
        )
    except UnusableError:
        return None
    return figures_of(run).bounded_slowdown


if __name__ == "__main__":
    app()
