"""The tables of the benchmark, as Markdown by name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lab.papers.placement.claims import CLAIMS, Claim
from lab.papers.placement.demotions import WEIGHINGS, changed_shares, read
from lab.papers.placement.intervals import Measure, gain, interval
from lab.papers.placement.logs import LogRun, ScaleRun
from lab.papers.placement.markdown import table
from lab.papers.placement.measures import GAINS, HOUR_S, MEASURES
from lab.papers.placement.rows import (
    BASE,
    HALF,
    LOOK_AHEAD,
    MIN_ENERGY,
    MIN_RUNTIME,
    NOMINAL,
    PRIORITY_V,
    ROWS,
    UNIFORM,
    WORKLOADS,
    Grid,
    Row,
)
from lab.papers.placement.sensitivity import PRIORITY
from lab.simulation.epm import Epm
from lab.simulation.policy import SimulatedPolicy
from lab.workloads.table1 import APPS
from shared.domain.eamc_policy import Reading
from shared.eamc.frequency import Weighing

_NAMES: Final = {str(app.number): f"{app.number} {app.app_id}" for app in APPS.values()}


def means(grid: Grid) -> str:
    """Return every measure of every row."""
    return table(
        ["workload, policy", *MEASURES],
        (
            [
                f"{workload}, {row.label}",
                *(
                    interval(grid.of(workload, row), measure).shown(digits)
                    for measure, digits in MEASURES.values()
                ),
            ]
            for workload in WORKLOADS
            for row in ROWS
        ),
    )


def gains(grid: Grid) -> str:
    """Return what each row saves over Min_runtime and over Min_energy, percent."""
    names = [f"{name}, over {over.policy}" for over in (MIN_RUNTIME, MIN_ENERGY) for name in GAINS]
    return table(
        ["workload, policy", *names],
        (
            [f"{workload}, {row.label}", *_saved(grid, workload, row)]
            for workload in WORKLOADS
            for row in ROWS
            if row not in (MIN_RUNTIME, MIN_ENERGY)
        ),
    )


def beyond(grid: Grid) -> str:
    """Return what look-ahead saves over the policy that it starts from, percent."""
    return table(
        ["workload", *GAINS],
        (
            [workload, *(_over_priority(grid, workload, measure) for measure in GAINS.values())]
            for workload in WORKLOADS
        ),
    )


def _over_priority(grid: Grid, workload: str, measure: Measure) -> str:
    return gain(grid.of(workload, LOOK_AHEAD), grid.of(workload, PRIORITY_V), measure).shown(1)


def _saved(grid: Grid, workload: str, row: Row) -> Iterator[str]:
    for over in (MIN_RUNTIME, MIN_ENERGY):
        for measure in GAINS.values():
            yield gain(grid.of(workload, row), grid.of(workload, over), measure).shown(1)


def claims(easy: Grid, slurm: Grid) -> str:
    """Return the paper's figures beside ours under both disciplines, percent.

    The best of the means over seeds, the mean of the best cell of each seed, and the first if
    Min_runtime took nominal P-states.
    """
    columns = ("", ", best of each seed", ", nominal")
    seeds = f"seeds {easy.seeds[0]} to {easy.seeds[-1]}"
    return table(
        [f"figure ({seeds})", "section", "paper"]
        + [f"{discipline}{column}" for discipline in ("easy", "slurm") for column in columns],
        (
            [
                f"{each.text} (fitted)" if each.is_fitted else each.text,
                *(each.where, each.paper),
                *(cell for grid in (easy, slurm) for cell in _claimed(each, grid)),
            ]
            for each in CLAIMS
        ),
    )


def _claimed(claim: Claim, grid: Grid) -> Iterator[str]:
    best = claim.best_of_each(grid)
    yield claim.best_mean(grid).shown(1)
    yield "" if best is None else best.shown(1)
    yield claim.best_mean(grid.replaced(MIN_RUNTIME, NOMINAL)).shown(1)


def demoted(epm: Epm) -> str:
    """Return how far the worse cluster of each application is above the better one, by reading."""
    found = [read(epm, weighing) for weighing in WEIGHINGS]
    header = [f"{weighing.reading} w={weighing.t_weight:g}" for weighing in WEIGHINGS]
    rows = []
    for index, app in enumerate(epm.apps):
        cells = []
        for weighing, each in zip(WEIGHINGS, found, strict=True):
            is_share = weighing.reading is not Reading.AUTHORS
            above = (each.share_above if is_share else each.above)[index]
            shown = f"{above:.1%}" if is_share else f"{above:.3f}"
            cells.append(f"**{shown}**" if each.demoted[index] else shown)
        rows.append([_NAMES.get(app, app), *cells])
    return table(["application", *header], rows)


def changed(epm: Epm, grid: Grid, read_grids: Mapping[Weighing, Grid]) -> str:
    """Return what the other readings change: jobs in percent, and what PriorityInc-V then saves
    over itself as read by default with the same weight."""
    rows = []
    for weighing, theirs in read_grids.items():
        row = Row(SimulatedPolicy.PRIORITY_INC_V, weighing.t_weight)
        for workload in WORKLOADS:
            shares = changed_shares(epm, weighing, workload, grid.seeds)
            saved = (
                gain(theirs.of(workload, row), grid.of(workload, row), measure).shown(1)
                for measure in list(GAINS.values())[:3]
            )
            label = f"{weighing.reading} w={weighing.t_weight:g}, {workload}"
            rows.append([label, *(f"{share:.0%}" for share in shares), *saved])
    header = ["reading, workload", "other P-state", "other rank", "other tier"]
    return table([*header, "makespan", "response", "energy"], rows)


def sensitivity(grids: Mapping[str, Grid]) -> str:
    """Return what the gains depend on; see the header."""
    header = [
        "variation",
        "makespans but Base's, d",
        "Min_runtime over Base, 13 %: makespan, response",
        "PriorityInc over Min_runtime: response 13, 33, 50 %",
        "the same, 50 %: makespan, energy",
        "PriorityInc over Min_energy, 50 %: makespan, response, energy",
    ]
    return table(header, ([name, *_variation(grid)] for name, grid in grids.items()))


def _variation(grid: Grid) -> Iterator[str]:
    makespan, response, energy = (GAINS[name] for name in ("makespan", "response", "energy"))
    rows = (MIN_RUNTIME, MIN_ENERGY, PRIORITY)
    days = [interval(grid.of(w, row), makespan).mean for w in WORKLOADS for row in rows]
    yield f"{min(days):.1f} to {max(days):.1f}"

    def saved(ours: Row, over: Row, workload: str, *measures: Measure) -> str:
        pair = grid.of(workload, ours), grid.of(workload, over)
        return ", ".join(f"{gain(*pair, measure).mean:.0f}" for measure in measures)

    yield saved(MIN_RUNTIME, BASE, UNIFORM, makespan, response)
    yield ", ".join(saved(PRIORITY, MIN_RUNTIME, w, response) for w in WORKLOADS)
    yield saved(PRIORITY, MIN_RUNTIME, HALF, makespan, energy)
    yield saved(PRIORITY, MIN_ENERGY, HALF, makespan, response, energy)


def logs(runs: Sequence[LogRun]) -> str:
    """Return the waits of real logs on one pool."""
    tail = ("99 %, h", "99.9 %, h", "longest, h", "widest 1 %, h")
    header = ["log, policy", "jobs", "left out", "mean wait, s", *tail]
    return table(
        [*header, "bounded slowdown, 10 s", "60 s"],
        (
            [
                f"{run.log}, {run.policy}",
                f"{run.jobs:,}",
                f"{run.left_out:,}",
                f"{run.wait_s:,.1f}",
                *(f"{seconds / HOUR_S:.2f}" for seconds in run.tail_s),
                f"{run.slowdown_10s:,.2f}",
                f"{run.slowdown_60s:,.2f}",
            ]
            for run in runs
        ),
    )


def log_speed(runs: Sequence[LogRun]) -> str:
    """Return how fast real logs are played, and in how much memory."""
    return table(
        ["log, policy", "jobs/s, loop", "jobs/s, with reading", "peak memory, MiB"],
        (
            [
                f"{run.log}, {run.policy}",
                f"{run.jobs / run.loop_s:,.0f}",
                f"{run.jobs / run.whole_s:,.0f}",
                f"{run.peak_mib:.0f}",
            ]
            for run in runs
        ),
    )


def scale(runs: Sequence[ScaleRun]) -> str:
    """Return the cost of a job by their number."""
    return table(
        ["jobs", "loop, s", "us a job", "over the first"],
        (
            [
                f"{run.jobs:,}",
                f"{run.loop_s:.2f}",
                f"{run.job_us:.2f}",
                f"{run.job_us / runs[0].job_us:.2f}",
            ]
            for run in runs
        ),
    )
