"""`python -m lab.papers.capping.arrivals`: dispatchers under half of the power where jobs
come otherwise than in the published instances, and on a machine that is in use already.

Jobs are drawn from all published synthetic ones, with their queues, walltimes and run times; one
seed. They come within a window evenly, most of them near its beginning (left-skewed, as section 5
of the paper has it: the earliest of three even times), or in bursts (ten instants). With a hot
start jobs that ask for so much of all cores come before the first; they count in no figure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from statistics import fmean
from time import process_time
from typing import Final

import typer

from cli.failures import ReportingGroup
from cli.progress import progress_of
from lab.papers.capping.caps import constant_cap
from lab.papers.capping.document import put
from lab.papers.capping.instances import own_caps_w, read_instances
from lab.papers.options import Data, Into
from lab.papers.placement.markdown import table
from lab.papers.published_data import DATA
from lab.simulation.capping import CappingMethod, CappingRules, impossible_under, play_capped
from lab.simulation.eurora import EuroraRun
from lab.workloads.eurora import EuroraJob, EuroraMachine, expected_waits_s, read_queues
from shared.models.bounded_slowdown import bounded_length_s

app = typer.Typer(cls=ReportingGroup)

_SEED, _CAP_PCT, _FACTOR, _BURSTS, _EARLIEST_OF = 1, 50, 0.5, 10, 3


class Arrivals(StrEnum):
    """How jobs come within their window."""

    UNIFORM = "uniform"
    LEFT_SKEWED = "left-skewed"
    BURSTS = "bursts"


@dataclass(frozen=True, slots=True)
class Case:
    """So many jobs within a window; before them jobs for this share of all cores."""

    jobs: int
    window_s: float
    arrivals: Arrivals = Arrivals.UNIFORM
    hot_share: float = 0.0


_METHODS: Final = (
    *(CappingMethod.LS, CappingMethod.LS_WALLTIME, CappingMethod.HYBRID),
    *(CappingMethod.BF, CappingMethod.DYN_SHARE, CappingMethod.HYBRID_RAPL),
)
HEADER: Final = ("jobs", "window, s", "arrivals", "hot", *(f"{method}" for method in _METHODS))
CASES: Final = (
    *(Case(100, window_s) for window_s in (60, 300, 900, 3_600, 36_000)),
    *(Case(100, 900, arrivals) for arrivals in (Arrivals.LEFT_SKEWED, Arrivals.BURSTS)),
    Case(100, 900, hot_share=0.7),
    *(Case(jobs, 3_600) for jobs in (50, 400, 1_000)),
)


def drawn(
    case: Case, pool: Sequence[EuroraJob], machine: EuroraMachine, seed: int = _SEED
) -> tuple[int, list[EuroraJob]]:
    """Draw how many jobs come before the first, and all of them by their coming."""
    rng = Random(seed)
    cores, hot = case.hot_share * machine.cores_per_node * machine.nodes, list[EuroraJob]()
    while sum(job.units * job.unit.cores for job in hot) < cores:
        hot.append(replace(rng.choice(pool), submit_s=0.0))
    times_s = sorted(_time_s(case, rng) for _ in range(case.jobs))
    coming = [replace(rng.choice(pool), submit_s=1.0 + time_s) for time_s in times_s]
    jobs = [replace(job, job_id=f"{n}") for n, job in enumerate([*hot, *coming])]
    return len(hot), jobs


def _time_s(case: Case, rng: Random) -> float:
    match case.arrivals:
        case Arrivals.UNIFORM:
            return rng.uniform(0.0, case.window_s)
        case Arrivals.LEFT_SKEWED:
            return min(rng.uniform(0.0, case.window_s) for _ in range(_EARLIEST_OF))
        case Arrivals.BURSTS:
            return case.window_s * rng.randrange(_BURSTS) / _BURSTS


def row(
    case: Case, pool: Sequence[EuroraJob], machine: EuroraMachine, queues: dict[str, float]
) -> Iterator[str]:
    """Yield the mean bounded slowdown (60 s) of each method."""
    hot, jobs = drawn(case, pool, machine)
    waits_s = expected_waits_s(jobs, queues)
    cap_w = own_caps_w(machine, jobs, waits_s)[_CAP_PCT]
    yield from (f"{case.jobs:,}", f"{case.window_s:,}", case.arrivals, f"{case.hot_share:.0%}")
    for method in _METHODS:
        rules = CappingRules(method, constant_cap(cap_w), waits_s, [_FACTOR] * len(jobs))
        run = play_capped(machine, jobs, rules)
        wrong = impossible_under(rules, run, machine)
        assert not wrong, wrong[0]
        yield f"{_slowdown(run, hot):.3f}"


def _slowdown(run: EuroraRun, hot: int) -> float:
    counted = [*zip(run.placements, run.jobs, strict=True)][hot:]
    return fmean(
        max(1.0, (placed.end_s - placed.submit_s) / bounded_length_s(job.runtime_s))
        for placed, job in counted
    )


@app.callback(invoke_without_command=True)
def bench(
    data: Data = DATA,
    into: Into = None,
) -> None:
    """Play all cases."""
    machine, instances = read_instances(data / "eurora", ["rndm_"])
    pool = [job for instance in instances for job in instance.jobs]
    queues, began_s = read_queues(data / "eurora" / "queues.txt"), process_time()
    with progress_of(len(CASES), "cases") as tell:
        lines = []
        for done, case in enumerate(CASES, 1):
            lines.append([*row(case, pool, machine, queues)])
            tell(done)
    tables = {"capping arrivals": table(HEADER, lines)}
    put(tables, into)
    typer.echo(tables["capping arrivals"])
    typer.echo(f"{process_time() - began_s:.0f} s of CPU")


if __name__ == "__main__":
    app()
