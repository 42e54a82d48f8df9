"""`python -m lab.papers.capping.searched`: what a search over orders is worth once jobs end
before their limits.

Jobs are drawn as in `arrivals.py`, with seeds of which no other table is. List schedules by
walltime are beside those of the cheapest orders that the search finds, with and without the cap
being shared by what runs.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from math import sqrt
from multiprocessing import get_context
from statistics import fmean, stdev
from typing import Final, NamedTuple

import typer

from cli.failures import ReportingGroup
from cli.progress import progress_of
from lab.papers.capping.arrivals import Case, drawn
from lab.papers.capping.caps import constant_cap
from lab.papers.capping.document import put
from lab.papers.capping.instances import own_caps_w, read_instances
from lab.papers.options import Data, Into
from lab.papers.placement.markdown import table
from lab.papers.published_data import DATA
from lab.simulation.capping import (
    CappingMethod,
    CappingRules,
    by_walltime,
    impossible_under,
    planned_shares,
    planned_starts,
)
from lab.simulation.eurora import figures_of, play, table_of
from lab.workloads.eurora import EuroraJob, EuroraMachine, expected_waits_s, read_queues
from shared.planning.order_search import OrderSearch
from shared.planning.searches import Searches
from shared.scheduling.dispatch import Dispatcher
from shared.scheduling.list_scheduling import StartPlanner
from shared.scheduling.problem import NodeTable

app = typer.Typer(cls=ReportingGroup)

_CASES: Final = (Case(100, 900), Case(400, 300))
_CAPS_PCT: Final = (100, 50)
_SEEDS: Final = range(61, 69)
_FACTOR: Final = 0.5
# How what is planned is played, by the method whose rules hold for it.
_Playing = Callable[[NodeTable, Sequence[EuroraJob], CappingRules, StartPlanner], Dispatcher]
_PLAYINGS: Final[dict[CappingMethod, _Playing]] = {
    CappingMethod.HYBRID: planned_starts,
    CappingMethod.HYBRID_RAPL: planned_shares,
}
_COLUMNS: Final = ("by walltime", "searched", "searched is higher by, %")
HEADER: Final = (
    *("jobs", "window, s", "cap, %", "seeds"),
    *(f"{under}, {name}" for under in ("alone", "shared") for name in _COLUMNS),
)


class Pool(NamedTuple):
    """What workloads are drawn from."""

    machine: EuroraMachine
    jobs: Sequence[EuroraJob]
    queues: dict[str, float]


def means(pool: Pool, of: tuple[Case, int, int]) -> list[float]:
    """Return the mean bounded slowdowns (60 s) of one case, cap and seed: by walltime and searched,
    of jobs that draw what they want, and of those that share the cap."""
    case, cap_pct, seed = of
    _, jobs = drawn(case, pool.jobs, pool.machine, seed)
    waits_s, nodes = expected_waits_s(jobs, pool.queues), table_of(pool.machine)
    cap = constant_cap(own_caps_w(pool.machine, jobs, waits_s)[cap_pct])
    found = []
    for method, playing in _PLAYINGS.items():
        rules = CappingRules(method, cap, waits_s, [_FACTOR] * len(jobs))
        for planner in (by_walltime(jobs), OrderSearch(Searches())):
            dispatcher = playing(nodes, jobs, rules, planner)
            run = play(jobs, dispatcher, lambda served: jobs[served[1].arrival].runtime_s)
            wrong = impossible_under(rules, run, pool.machine)
            assert not wrong, wrong[0]
            found.append(figures_of(run).bounded_slowdown)
    return found


def row(case: Case, cap_pct: int, of_seeds: Sequence[Sequence[float]]) -> list[str]:
    """Return means over the seeds, and by how much the search changes them, with its standard
    error."""
    cells = [f"{case.jobs}", f"{case.window_s:,}", f"{cap_pct}", f"{len(of_seeds)}"]
    for first in (0, 2):
        pairs = [found[first : first + 2] for found in of_seeds]
        higher = [100 * (searched / plain - 1) for plain, searched in pairs]
        error = stdev(higher) / sqrt(len(higher))
        cells += [f"{fmean(column):.3f}" for column in zip(*pairs, strict=True)]
        cells.append(f"{fmean(higher):.1f} ± {error:.1f}")
    return cells


@app.callback(invoke_without_command=True)
def bench(data: Data = DATA, into: Into = None) -> None:
    """Play all cases under all caps with all seeds, on two cores."""
    machine, instances = read_instances(data / "eurora", ["rndm_"])
    jobs = [job for instance in instances for job in instance.jobs]
    pool = Pool(machine, jobs, read_queues(data / "eurora" / "queues.txt"))
    plays = [*product(_CASES, _CAPS_PCT, _SEEDS)]
    by_row: dict[tuple[Case, int], list[list[float]]] = {}
    with (
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers,
        progress_of(len(plays), "plays") as tell,
    ):
        found = zip(plays, workers.map(partial(means, pool), plays), strict=True)
        for done, ((case, cap_pct, _), slowdowns) in enumerate(found, 1):
            by_row.setdefault((case, cap_pct), []).append(slowdowns)
            tell(done)
    text = table(HEADER, [row(*of, of_seeds) for of, of_seeds in by_row.items()])
    put({"capping searched": text}, into)
    typer.echo(text)


if __name__ == "__main__":
    app()
