"""`python -m lab.papers.capping.backfill`: what could be otherwise in the published backfill.

It is above or below the figure of EASY here, on historical instances. Each column changes one thing
that was not published: what backfilling knows of run times, if anything is reserved, and the order
of the queue.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import typer

from cli.failures import ReportingGroup
from lab.papers.capping.caps import constant_cap
from lab.papers.capping.document import put
from lab.papers.capping.instances import CAPS_PCT, Instance, read_instances
from lab.papers.options import Data, InstanceNames, Into
from lab.papers.placement.markdown import table
from lab.papers.published_data import DATA
from lab.simulation.capping import CappingMethod, CappingRules, planned_starts, ranks
from lab.simulation.eurora import easy_of, entries_of, figures_of, play, table_of
from lab.workloads.eurora import EuroraJob, EuroraMachine
from shared.scheduling.backfill import Backfill
from shared.scheduling.dispatch import Dispatcher, Served
from shared.scheduling.list_scheduling import PriorityRule
from shared.scheduling.power import PowerBudget
from shared.scheduling.wait_queue import order_of

app = typer.Typer(cls=ReportingGroup)

_TELLING: Final = 0.1
HEADER: Final = (
    *("instance", "cap, %", "BF published", "LS published", "EASY", "run times known"),
    *("nothing reserved", "queue by walltime", "queue by expected waits"),
)


def row(machine: EuroraMachine, instance: Instance, cap_pct: int) -> tuple[str, ...]:
    """Return the mean bounded slowdown (60 s) of each."""
    jobs, cap_w = instance.jobs, instance.caps_w[cap_pct]
    arrivals = range(len(jobs))
    known = [replace(job, walltime_s=max(1.0, job.runtime_s)) for job in jobs]
    found = (
        instance.published[cap_pct, "BF"],
        instance.published[cap_pct, "LS"],
        _slowdown(jobs, _easy(machine, jobs, cap_w, arrivals)),
        _slowdown(known, _easy(machine, known, cap_w, arrivals)),
        _slowdown(jobs, _first_fit(machine, instance, cap_w)),
        *(
            _slowdown(jobs, _easy(machine, jobs, cap_w, ranks(keys)))
            for keys in ([job.walltime_s for job in jobs], instance.waits_s)
        ),
    )
    return instance.name, f"{cap_pct}", *(f"{each:.3f}" for each in found)


def _easy(
    machine: EuroraMachine, jobs: Sequence[EuroraJob], cap_w: float, rank: Sequence[int]
) -> Dispatcher:
    """EASY with a queue in the order of these ranks."""
    nodes = table_of(machine)
    scheduler = easy_of(nodes, jobs, [PowerBudget(constant_cap(cap_w))])
    entries = (
        entry._replace(order=order_of(0, rank[entry.arrival], 0))
        for entry in entries_of(nodes, jobs)
    )
    return Backfill([scheduler], (((0, entry),) for entry in entries))


def _first_fit(machine: EuroraMachine, instance: Instance, cap_w: float) -> Dispatcher:
    """Whoever fits starts, in the order of arrivals."""
    jobs = instance.jobs
    rules = CappingRules(CappingMethod.LS, constant_cap(cap_w), instance.waits_s, [0.0] * len(jobs))
    return planned_starts(table_of(machine), jobs, rules, PriorityRule(range(len(jobs))))


def _slowdown(jobs: Sequence[EuroraJob], dispatcher: Dispatcher) -> float:
    def runs_s(served: Served) -> float:
        return jobs[served[1].arrival].runtime_s

    return figures_of(play(jobs, dispatcher, runs_s)).bounded_slowdown


def is_changed(line: Sequence[str]) -> bool:
    """Return whether anything that is changed in EASY changes its figure by more than a tenth."""
    easy, *others = map(float, line[HEADER.index("EASY") :])
    return any(abs(other / easy - 1) > _TELLING for other in others)


@app.callback(invoke_without_command=True)
def bench(
    data: Data = DATA,
    instance: InstanceNames = None,
    into: Into = None,
) -> None:
    """Play them under every cap for which something was published; the document has the lines that
    show anything."""
    machine, instances = read_instances(data / "eurora", instance or ["hist_100"])
    plays = [(i, cap_pct) for i in instances for cap_pct in CAPS_PCT]
    lines = [row(machine, i, cap) for i, cap in plays if (cap, "BF") in i.published]
    put({"capping backfill": table(HEADER, filter(is_changed, lines))}, into)
    typer.echo(table(HEADER, lines))


if __name__ == "__main__":
    app()
