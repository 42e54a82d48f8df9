"""`python -m lab.papers.capping.decisions`: what one decision takes under a cap, by how many
jobs wait, and what CP-SAT makes of the list schedule within 1 and within 10 s of its work.

Eurora's nodes under a cap of half of what the first instance of 50 jobs draws without one, full as
list scheduling fills them; the waiting jobs are those of all synthetic instances, time and again.
Times are of the processor, so that what else runs on the machine counts little. Needs the data.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, islice
from time import process_time
from typing import Annotated, Final

import typer

from cli.failures import ReportingGroup
from lab.papers.capping.document import put
from lab.papers.options import Data, Into
from lab.papers.placement.markdown import table
from lab.papers.published_data import DATA
from lab.simulation.capping import priority_ranks, wait_weights
from lab.simulation.eurora import kinds_of, table_of
from lab.workloads.eurora import (
    EuroraJob,
    EuroraMachine,
    expected_waits_s,
    read_jobs,
    read_machine,
    read_queues,
)
from shared.planning.decomposition import DecompositionPlanner
from shared.planning.order_search import OrderSearch
from shared.planning.searches import Searches
from shared.scheduling.list_scheduling import (
    CappedSituation,
    FreeNodes,
    ListSchedule,
    PriorityRule,
    Using,
    Wanted,
    list_schedule,
)
from shared.scheduling.power import milliwatts

app = typer.Typer(cls=ReportingGroup)
_QUEUED: Final = (50, 400, 1_000, 5_000)
_CAP_W: Final = 2_849.0
# What the solver may work, in units of about a second.
_LIMITS_S: Final = (1.0, 10.0)
TIMES: Final = ("jobs that wait", "LS, what starts now, ms", "LS, whole schedule, ms", "hybrid, ms")
SOLVED: Final = (
    *("jobs that wait", "LS (equation 2)"),
    *(f"within {limit_s:g} s, %; CPU s" for limit_s in _LIMITS_S),
)


@app.callback(invoke_without_command=True)
def bench(
    data: Data = DATA,
    queued: Annotated[
        list[int] | None, typer.Option(help="Jobs that wait; again; else 50, 400, 1,000, 5,000.")
    ] = None,
    most_solved: Annotated[int, typer.Option(help="CP-SAT is asked for no more jobs.")] = 1_000,
    into: Into = None,
) -> None:
    """Print a table of CPU times and one of what CP-SAT finds."""
    folder = data / "eurora"
    machine, queues = read_machine(folder / "nodes_64.csv"), read_queues(folder / "queues.txt")
    paths = sorted(folder.glob("synthetic/*.log_crypt"))
    every = [job for path in paths for job in read_jobs(path, {}) if job.power_w <= _CAP_W]
    times, solved = [], []
    for count in queued or _QUEUED:
        at, rule = situation(machine, list(islice(cycle(every), count)), queues)
        deciding = rule.plan, partial(_listed, rule), OrderSearch(Searches()).plan
        times.append([f"{count:,}", *(f"{1000 * _cpu_s(each, at):,.2f}" for each in deciding)])
        if count <= most_solved:
            solved.append([f"{count:,}", *_solved(at, rule)])
            typer.echo(" | ".join(solved[-1]), err=True)
    tables = {"capping decisions": table(TIMES, times), "capping solved": table(SOLVED, solved)}
    put(tables, into)
    typer.echo("\n\n".join(tables.values()))


def situation(
    machine: EuroraMachine, jobs: Sequence[EuroraJob], queues: dict[str, float]
) -> tuple[CappedSituation, PriorityRule]:
    """Return a situation with all nodes free and all jobs waiting, but those that list scheduling
    starts at once, which run since then; with LS's rule."""
    nodes, waits_s = table_of(machine), expected_waits_s(jobs, queues)
    kinds, weights = kinds_of(nodes, jobs), wait_weights(waits_s)
    wanted = [
        Wanted(
            arrival=number,
            units=job.units,
            needs=kinds[job.unit].shape.needs,
            draw_mw=milliwatts(job.power_w),
            limit_s=job.walltime_s,
            weight=weight,
        )
        for number, (job, weight) in enumerate(zip(jobs, weights, strict=True))
    ]
    rule, free = PriorityRule(priority_ranks(nodes, jobs, waits_s)), FreeNodes.build(nodes.amounts)
    empty = CappedSituation(0.0, milliwatts(_CAP_W), free, [], wanted)
    using, started = list[Using](), set[int]()
    for _, place in rule.plan(empty):
        job = wanted[place]
        allocation = free.take(job.needs, job.units)
        assert allocation is not None
        using.append(Using(job.limit_s, job.arrival, job.needs, allocation, job.draw_mw))
        started.add(place)
    left = [job for place, job in enumerate(wanted) if place not in started]
    return empty._replace(free=free, using=using, waiting=left), rule


def _solved(at: CappedSituation, rule: PriorityRule) -> list[str]:
    listed = _listed(rule, at)
    cells = [f"{listed.cost:,.0f}"]
    for limit_s in _LIMITS_S:
        searches, began_s = Searches(), process_time()
        planner = DecompositionPlanner(rule, searches, limit_s, rounds=1, longest_s=limit_s)
        found = planner.schedule(at)
        assert found.cost <= listed.cost
        below = f"{100 * (1 - found.cost / listed.cost):.2f} below"
        told = "no answer" if searches.unanswered else below
        cells.append(f"{told}; {process_time() - began_s:.1f}")
    return cells


def _listed(rule: PriorityRule, at: CappedSituation) -> ListSchedule:
    found = list_schedule(at, rule.order(at))
    assert found is not None
    return found


def _cpu_s(decide: Callable[[CappedSituation], object], at: CappedSituation) -> float:
    """The least of three."""
    taken_s = []
    for _ in range(3):
        began_s = process_time()
        decide(at)
        taken_s.append(process_time() - began_s)
    return min(taken_s)


if __name__ == "__main__":
    app()
