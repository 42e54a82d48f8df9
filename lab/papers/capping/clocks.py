"""`python -m lab.papers.capping.clocks`: how much longer DVFS may let a job take by its
clock, beside EASY with watts (BF)."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from statistics import fmean
from typing import Final

import typer

from cli.failures import ReportingGroup
from coplace_client.errors import UnusableError
from lab.papers.capping.caps import constant_cap
from lab.papers.capping.document import put
from lab.papers.capping.instances import CAPS_PCT, Instance, read_instances
from lab.papers.options import Data, InstanceNames, Into
from lab.papers.placement.markdown import table
from lab.papers.published_data import DATA
from lab.simulation.capping import CappingMethod, CappingRules, play_capped
from lab.simulation.eurora import figures_of
from lab.simulation.power_reduction import mixed_factor
from lab.workloads.eurora import EuroraMachine

app = typer.Typer(cls=ReportingGroup)

# Times as long as at its own clock.
THRESHOLDS: Final = (1.1, 1.2, 1.3, 1.5, 2.0, inf)
HEADER: Final = (
    *("set", "cap, %", "instances", "BF"),
    *("any clock" if most == inf else f"at most {most:g}" for most in THRESHOLDS),
)


def rows(machine: EuroraMachine, instances: Sequence[Instance]) -> list[tuple[str, ...]]:
    """Return mean bounded slowdowns (60 s) by set and cap, of the instances that all solved."""
    groups = dict.fromkeys(instance.group for instance in instances)
    found = []
    for group in groups:
        for cap_pct in CAPS_PCT:
            played = (_slowdowns(machine, i, cap_pct) for i in instances if i.group == group)
            solved = [slowdowns for slowdowns in played if slowdowns]
            means = (f"{fmean(each):.3f}" for each in zip(*solved, strict=True))
            found.append((group, f"{cap_pct}", f"{len(solved)}", *means))
    return found


def _slowdowns(machine: EuroraMachine, instance: Instance, cap_pct: int) -> list[float]:
    """BF's, then DVFS's by threshold; empty where a job alone draws more than the cap."""
    jobs = instance.jobs
    factors = [mixed_factor(job.job_id) for job in jobs]
    cap = constant_cap(instance.caps_w[cap_pct])
    bf = CappingRules(CappingMethod.BF, cap, instance.waits_s, factors)
    dvfs = replace(bf, method=CappingMethod.DVFS)
    every = bf, *(replace(dvfs, most_slowdown=most) for most in THRESHOLDS)
    try:
        return [figures_of(play_capped(machine, jobs, each)).bounded_slowdown for each in every]
    except UnusableError:
        return []


@app.callback(invoke_without_command=True)
def bench(data: Data = DATA, instance: InstanceNames = None, into: Into = None) -> None:
    """Play them under every cap at every threshold."""
    machine, instances = read_instances(data / "eurora", instance or ())
    text = table(HEADER, rows(machine, instances))
    put({"capping clocks": text}, into)
    typer.echo(text)


if __name__ == "__main__":
    app()
