"""One workload under several schedulers: a few figures of each, what became worse, and advice."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Final, NamedTuple

import numpy as np
from coplace.v1.control_pb2 import ClusterDeclared, PowerCapDeclared
from coplace.v1.jobs_pb2 import JobFinished

from coplace_client.errors import UnusableError
from lab.demo.caps import caps_in_force, drawn_under, metered

_P95: Final = 95
# A figure that is worse by less is not: half a unit of the last digit that is printed.
_LEAST_PERCENT: Final = 0.05


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The figures of one scheduler's run. `energy_j` is that of jobs, `energy_with_idle_j` has all
    nodes that idle until the last end; `above_cap_s` is for how long a cap was exceeded by the
    meters, of the cap where that is most, 0 without any."""

    name: str
    jobs: int
    energy_j: float
    mean_response_s: float
    p95_response_s: float
    price_su: float
    mean_wait_s: float
    p95_wait_s: float
    makespan_s: float
    energy_with_idle_j: float
    above_cap_s: float


class ComparedRun(NamedTuple):
    """What a scheduler's run resulted in: its ended jobs, and what all of them cost."""

    name: str
    finished: Sequence[JobFinished]
    price_su: float


class ShownFigure(NamedTuple):
    """A figure with its name, of which less is better, and how people read it."""

    name: str
    of: Callable[[RunFigures], float]
    text: Callable[[float], str]


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.2f} h"


def _mwh(joules: float) -> str:
    return f"{joules / 3.6e9:,.3f} MWh"


def _su(amount: float) -> str:
    return f"{amount:,.0f} SU"


ENERGY: Final = ShownFigure("energy of jobs", lambda run: run.energy_j, _mwh)
RESPONSE: Final = ShownFigure("mean response", lambda run: run.mean_response_s, _hours)
P95: Final = ShownFigure("p95 of responses", lambda run: run.p95_response_s, _hours)
PRICE: Final = ShownFigure("price", lambda run: run.price_su, _su)
PRINTED: Final = ENERGY, RESPONSE, P95, PRICE
FIGURES: Final = (
    *PRINTED,
    ShownFigure("mean wait", lambda run: run.mean_wait_s, _hours),
    ShownFigure("p95 of waits", lambda run: run.p95_wait_s, _hours),
    ShownFigure("makespan", lambda run: run.makespan_s, _hours),
    ShownFigure("energy with idle nodes", lambda run: run.energy_with_idle_j, _mwh),
)


def figures_of(
    run: ComparedRun, clusters: Sequence[ClusterDeclared], caps: Sequence[PowerCapDeclared]
) -> RunFigures:
    """Return the figures of a run on clusters. Raises UnusableError for one without an end."""
    jobs = [job for job in run.finished if job.started_at_us]
    if not jobs:
        raise UnusableError(f"{run.name}: no job ended, so there is nothing to compare")
    response_s = [(job.ended_at_us - job.submitted_at_us) / 1e6 for job in jobs]
    wait_s = [(job.started_at_us - job.submitted_at_us) / 1e6 for job in jobs]
    first_us = min(job.submitted_at_us for job in jobs)
    makespan_s = (max(job.ended_at_us for job in jobs) - first_us) / 1e6
    energy_j = sum(job.energy_j for job in jobs)
    above_s = (drawn_under(cap, clusters, jobs, metered).above_s for cap in caps_in_force(caps))
    return RunFigures(
        name=run.name,
        jobs=len(jobs),
        energy_j=energy_j,
        mean_response_s=fmean(response_s),
        p95_response_s=float(np.percentile(response_s, _P95)),
        price_su=run.price_su,
        mean_wait_s=fmean(wait_s),
        p95_wait_s=float(np.percentile(wait_s, _P95)),
        makespan_s=makespan_s,
        energy_with_idle_j=energy_j + _idle_j(jobs, clusters, makespan_s),
        above_cap_s=max(above_s, default=0.0),
    )


def _idle_j(
    jobs: Sequence[JobFinished], clusters: Sequence[ClusterDeclared], makespan_s: float
) -> float:
    """Return what nodes, and parts of them, draw that no job has."""
    core_w = {each.cluster: each.idle_power_w / each.cores_per_node for each in clusters}
    all_w = sum(each.nodes * each.idle_power_w for each in clusters)
    used = (core_w[j.cluster] * j.cores * (j.ended_at_us - j.started_at_us) / 1e6 for j in jobs)
    return all_w * makespan_s - sum(used)


def change_percent(figure: ShownFigure, run: RunFigures, base: RunFigures) -> float:
    """Return by how much a figure is above that of another run; 0 where that has nothing of it."""
    before = figure.of(base)
    return 100 * (figure.of(run) / before - 1) if before else 0.0


def changes(run: RunFigures, base: RunFigures) -> str:
    """Return the changes of the printed figures in words."""
    printed = ((each, change_percent(each, run, base)) for each in PRINTED)
    return ", ".join(f"{each.name} {percent:+.1f} %" for each, percent in printed)


def worse(run: RunFigures, base: RunFigures) -> list[str]:
    """Return each figure that is worse than that of another run, in words."""
    found = ((each, change_percent(each, run, base)) for each in FIGURES)
    return [
        f"{each.name} {each.text(each.of(run))}, not {each.text(each.of(base))} ({percent:+.1f} %)"
        for each, percent in found
        if percent >= _LEAST_PERCENT
    ]


def ended_later(run: Sequence[JobFinished], base: Sequence[JobFinished]) -> str:
    """Return how many jobs end later than in another run, and by how much, in words."""
    ends_us = {job.job_id: job.ended_at_us for job in base}
    known = [job for job in run if job.job_id in ends_us]
    later_us = [late for job in known if (late := job.ended_at_us - ends_us[job.job_id]) > 0]
    if not later_us:
        return "no job ends later"
    count = f"{len(later_us):,} of {len(known):,} jobs end later"
    return f"{count}, by {median(later_us) / 60e6:,.1f} min in the median"


def advice(run: RunFigures, capped: RunFigures | None, bases: Sequence[RunFigures]) -> str:
    """Return one sentence that follows from the figures: against the best of `bases` in each."""
    saves = -max(change_percent(ENERGY, run, base) for base in bases)
    longer = max(change_percent(RESPONSE, run, base) for base in bases)
    if saves < _LEAST_PERCENT:
        return (
            "keep plain EASY for jobs like these, since Coplace saves no energy on them; "
            "POLICY=min-energy asks for more."
        )
    if longer >= _LEAST_PERCENT:
        fastest = min(bases, key=lambda base: base.mean_response_s)
        kwh = (fastest.energy_j - run.energy_j) / run.jobs / 3.6e6
        minutes = (run.mean_response_s - fastest.mean_response_s) / 60
        return (
            f"choose by what counts: against {fastest.name} a job saves {kwh:,.1f} kWh "
            f"and ends {minutes:,.0f} min later in the mean; POLICY=min-runtime asks for less time."
        )
    return (
        f"let Coplace choose clusters and frequencies: jobs like these take at least {saves:.1f} % "
        f"less energy, and the mean response is not longer{_dearer(run, bases)}"
        f"{_under_caps(run, capped)}."
    )


def _dearer(run: RunFigures, bases: Sequence[RunFigures]) -> str:
    dearer = max(change_percent(PRICE, run, base) for base in bases)
    return f", but they cost up to {dearer:.1f} % more" if dearer >= _LEAST_PERCENT else ""


def _under_caps(run: RunFigures, capped: RunFigures | None) -> str:
    if capped is None:
        return ""
    longer = change_percent(RESPONSE, capped, run)
    return f"; a cap of power costs response, here {longer:.0f} %" if longer >= 1 else ""


def as_json(runs: Sequence[RunFigures]) -> dict[str, object]:
    """Return plain data for comparison.json: all figures of each run."""
    return {run.name: {k: v for k, v in asdict(run).items() if k != "name"} for run in runs}


def rows(runs: Sequence[RunFigures]) -> Iterator[list[str]]:
    """Yield the name and the printed figures of each run as people read them."""
    for run in runs:
        yield [run.name, *(each.text(each.of(run)) for each in PRINTED)]
