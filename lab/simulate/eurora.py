"""`coplace simulate --eurora`: instances of the Eurora supercomputer, under a cap too."""

import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from cli.cap.schedule import read_schedule, steps
from cli.notes import TABLE_WIDTH
from cli.times import format_utc
from coplace_client.errors import UnusableError
from lab.simulate.scenarios import OF_CPI, EuroraScenario
from lab.simulation.capping import (
    CappingRules,
    KeptFree,
    applies_within,
    cap_of,
    counting_deviations,
    describe_cap,
    impossible_under,
    leave_out,
    play_capped,
    refusals,
    weighted_queue_time_s,
)
from lab.simulation.eurora import (
    PAPER_THRESHOLD_S,
    EuroraFigures,
    EuroraRun,
    figures_of,
    impossible_in,
    play_eurora,
)
from lab.simulation.files import write_draws, write_placements
from lab.simulation.power_reduction import factor_of_cpi, mixed_factor
from lab.workloads.eurora import (
    EuroraJob,
    EuroraMachine,
    JobColumn,
    expected_waits_s,
    read_cpi,
    read_first_submission_s,
    read_jobs,
    read_machine,
    read_power_deviations,
    read_power_predictions,
    read_queues,
)
from shared.catalogue.policy_settings import CAP_RISK
from shared.process.user_files import lines

# What files are called in the published folders, by the field that gives another one.
_USUAL: Final[Mapping[str, str]] = {
    "nodes": "nodes_64.csv",
    "power": "power_predictions.csv",
    "queues": "queues.txt",
}
_RESULTS: Final = "pa_hpc_sim_results.csv"
# The published methods without a cap: backfill, and list scheduling.
_METHODS: Final = ("BF", "LS")


@dataclass(frozen=True, slots=True)
class _Compared:
    """One row: an instance as played here, or by the authors' simulator."""

    instance: str
    by: str
    figures: EuroraFigures


def run(scenario: EuroraScenario) -> None:
    """Play and print; check each schedule. Raises OSError, and UnusableError for what cannot be
    played or came out impossible."""
    if not scenario.eurora.exists():
        raise UnusableError(f"there is no file or folder {scenario.eurora}: give an instance")
    if scenario.is_capped:
        _cap(scenario)
    else:
        _compare(scenario)


def _compare(scenario: EuroraScenario) -> None:
    """An instance, or all in a folder, beside the published results."""
    path = scenario.eurora
    instances = sorted(path.glob("**/*.log_crypt")) if path.is_dir() else [path]
    if not instances:
        raise UnusableError(f"{path} holds no instance: give a file, or a folder of *.log_crypt")
    files = _files(scenario, instances[0], ("nodes", "power"))
    machine = read_machine(files["nodes"])
    power = read_power_predictions(files["power"])
    published = _published(files["nodes"].parent / _RESULTS)
    rows = [
        row
        for instance in instances
        for row in (_played(instance, machine, power), *published.get(instance.name, ()))
    ]
    Console(width=TABLE_WIDTH).print(_table(rows))


def _cap(scenario: EuroraScenario) -> None:
    """One instance under a cap. Where jobs are refused the others are played, and the exit status
    is 1."""
    if scenario.eurora.is_dir():
        problem = f"{scenario.eurora} is a folder, and a cap is of one instance"
        raise UnusableError(f"{problem}: give one of its files *.log_crypt")
    files = _files(scenario, scenario.eurora, _USUAL)
    machine, case = read_machine(files["nodes"]), _case(scenario, files)
    for why in case.refused:
        typer.echo(f"refused: {why}", err=True)
    played = play_capped(machine, case.jobs, case.rules)
    if wrong := impossible_under(case.rules, played, machine):
        raise UnusableError(f"the schedule of {scenario.eurora} is impossible: {wrong[0]}")
    _require_held(scenario, case.rules, played)
    _write(scenario, played)
    Console(width=TABLE_WIDTH).print(_capped_table(scenario, case, played))
    if case.refused:
        raise typer.Exit(1)


class _Case(NamedTuple):
    """What is played, and why jobs of the instance are refused."""

    rules: CappingRules
    jobs: Sequence[EuroraJob]
    refused: Sequence[str]


def _case(scenario: EuroraScenario, files: Mapping[str, Path]) -> _Case:
    """Without the jobs that are refused. Where the cap refuses all that are left they stay: the
    first of them ends the command. Raises OSError, and UnusableError where no row of a job says
    what it draws."""
    columns = _columns(scenario, files["power"])
    every = read_jobs(scenario.eurora, columns.power.found)
    wrong = {job.job_id: why for job in every if (why := columns.wrong(job.job_id))}
    refused = [*wrong.values()]
    if len(refused) == len(every):
        raise UnusableError(refused[0])
    known = [job for job in every if job.job_id not in wrong]
    rules, jobs = _ruled(scenario, columns, known, read_queues(files["queues"]))
    above = dict(refusals(rules, jobs))
    if len(above) == len(jobs):
        return _Case(rules, jobs, refused)
    refused += [f"job {jobs[number].job_id} {why}" for number, why in above.items()]
    left = [job for number, job in enumerate(jobs) if number not in above]
    return _Case(leave_out(rules, above), left, refused)


class _Columns(NamedTuple):
    """What of the file of powers counts."""

    path: Path
    power: JobColumn
    cpi: JobColumn | None
    deviations: JobColumn | None

    def wrong(self, job_id: str) -> str | None:
        """What is wrong with a job's row."""
        known = (column for column in self[1:] if isinstance(column, JobColumn))
        return next((each.wrong[job_id] for each in known if job_id in each.wrong), None)


def _columns(scenario: EuroraScenario, path: Path) -> _Columns:
    counts_deviations = scenario.cap_risk < CAP_RISK.most and scenario.power_sd is None
    return _Columns(
        path,
        read_power_predictions(path),
        read_cpi(path) if scenario.slowdown == OF_CPI else None,
        read_power_deviations(path) if counts_deviations else None,
    )


def _ruled(
    scenario: EuroraScenario,
    columns: _Columns,
    jobs: Sequence[EuroraJob],
    queues: Mapping[str, float],
) -> tuple[CappingRules, Sequence[EuroraJob]]:
    """The rules, and the jobs with what they count as."""
    waits_s, factors = expected_waits_s(jobs, queues), _factors(scenario, columns, jobs)
    kept = KeptFree(scenario.cap_margin, scenario.cap_risk, _deviations(scenario, columns, jobs))
    steps_w = _steps_w(scenario)
    jobs, left_w = counting_deviations(jobs, [watts for _, watts in steps_w], kept)
    steps_s = [from_s for from_s, _ in steps_w]
    cap = cap_of(*zip(steps_s, left_w, strict=True))
    return CappingRules(scenario.policy, cap, waits_s, factors), jobs


def _steps_w(scenario: EuroraScenario) -> list[tuple[float, float]]:
    """The cap as it was given: from when on, in s since the first submission, how many W:
    infinitely many where no period is. Raises UnusableError for what is no schedule."""
    if scenario.cap_schedule is None:
        assert scenario.cap is not None
        return [(-inf, scenario.cap)]
    periods = read_schedule(scenario.cap_schedule)
    first_s = read_first_submission_s(scenario.eurora)
    return [
        (step.from_us / 1e6 - first_s, step.watts if step.HasField("watts") else inf)
        for step in steps(periods)
    ]


def _require_held(scenario: EuroraScenario, rules: CappingRules, played: EuroraRun) -> None:
    """Raise UnusableError for a schedule of caps none of whose periods any job may have run in."""
    last_s = max(
        max(placed.end_s, placed.start_s + job.walltime_s)
        for placed, job in zip(played.placements, played.jobs, strict=True)
    )
    if scenario.cap_schedule is None or applies_within(rules.cap, 0.0, last_s):
        return
    first_s = read_first_submission_s(scenario.eurora)
    first, last = (format_utc(round(1e6 * (first_s + each_s))) for each_s in (0.0, last_s))
    problem = f"no period falls into the time of {scenario.eurora}, {first} to {last}"
    raise UnusableError(f"{scenario.cap_schedule}: {problem}: nothing would be capped")


def _write(scenario: EuroraScenario, played: EuroraRun) -> None:
    if scenario.jobs_csv is not None:
        write_placements(scenario.jobs_csv, played.placements)
    if scenario.draws_csv is not None:
        write_draws(scenario.draws_csv, played.placements, played.draws)


def _deviations(
    scenario: EuroraScenario, columns: _Columns, jobs: Sequence[EuroraJob]
) -> list[float]:
    """By what share each prediction may err. Raises UnusableError for a job that has none."""
    if columns.deviations is None:
        return [scenario.power_sd or 0.0] * len(jobs)
    found = columns.deviations.found
    if unknown := next((job.job_id for job in jobs if job.job_id not in found), None):
        raise UnusableError(f"{columns.path}: job {unknown} has no power_sd: give --power-sd")
    return [found[job.job_id] for job in jobs]


def _factors(scenario: EuroraScenario, columns: _Columns, jobs: Sequence[EuroraJob]) -> list[float]:
    """How much longer each job takes with less power. Raises UnusableError for one without CPI."""
    if scenario.factor is not None:
        return [scenario.factor] * len(jobs)
    if columns.cpi is None:
        return [mixed_factor(job.job_id) for job in jobs]
    cpi = columns.cpi.found
    if unknown := next((job.job_id for job in jobs if job.job_id not in cpi), None):
        raise UnusableError(f"{columns.path}: job {unknown} has no cpi: take another --slowdown")
    return [factor_of_cpi(cpi[job.job_id]) for job in jobs]


def _files(scenario: EuroraScenario, instance: Path, needed: Collection[str]) -> dict[str, Path]:
    """What is needed, by field: what was given, else what lies beside the instance or above it.
    Raises UnusableError with all that is missing."""
    paths = ((field, getattr(scenario, field) or _beside(instance, field)) for field in needed)
    found = {field: path for field, path in paths if path is not None}
    if missing := [field for field in needed if field not in found]:
        names = " and no ".join(_USUAL[field] for field in missing)
        options = " and ".join(f"--{field}" for field in missing)
        problem = f"keep the published folders, or give {options}"
        raise UnusableError(f"no {names} beside {instance} or above it: {problem}")
    return found


def _beside(instance: Path, field: str) -> Path | None:
    """A file of the published folders, in the folder of an instance or above."""
    paths = (folder / _USUAL[field] for folder in instance.resolve().parents)
    return next((path for path in paths if path.exists()), None)


def _played(instance: Path, machine: EuroraMachine, power: JobColumn) -> _Compared:
    jobs = read_jobs(instance, power.found)
    if why := next((power.wrong[job.job_id] for job in jobs if job.job_id in power.wrong), None):
        raise UnusableError(why)
    played = play_eurora(machine, jobs)
    if wrong := impossible_in(played, machine):
        raise UnusableError(f"the schedule of {instance} is impossible: {wrong[0]}")
    return _Compared(instance.name, "EASY, here", figures_of(played))


def _published(path: Path) -> dict[str, list[_Compared]]:
    """Results without a cap by instance; none where there is no such file."""
    found: dict[str, list[_Compared]] = {}
    if not path.exists():
        return found
    for row in csv.DictReader(lines(path)):
        if row["cap_pct"] == "100" and row["method"] in _METHODS:
            figures = EuroraFigures(
                float(row["bsld"]),
                float(row["makespan_s"]),
                float(row["queue_time_s"]),
                float(row["max_power_w"]),
            )
            compared = _Compared(row["instance"], f"{row['method']}, published", figures)
            found.setdefault(row["instance"], []).append(compared)
    return found


def _table(rows: list[_Compared]) -> Table:
    table = Table(title="Eurora without a cap; each schedule was checked")
    table.add_column("instance")
    table.add_column("by")
    for column in ("bounded slowdown", "makespan, s", "queue time, s", "highest power, W"):
        table.add_column(column, justify="right")
    for row in rows:
        figures = row.figures
        table.add_row(
            row.instance,
            row.by,
            f"{figures.bounded_slowdown:.3f}",
            f"{figures.makespan_s:,.0f}",
            f"{figures.queue_time_s:,.0f}",
            f"{figures.max_power_w:,.0f}",
        )
    return table


def _capped_table(scenario: EuroraScenario, case: _Case, played: EuroraRun) -> Table:
    rules, figures = case.rules, figures_of(played)
    title = f"{scenario.eurora.name} under {describe_cap(rules.cap)}; the schedule was checked"
    table = Table(title=title)
    table.add_column("by")
    table.add_column(rules.method, justify="right")
    table.add_row("jobs played", f"{len(played.jobs):,}")
    table.add_row("jobs refused", f"{len(case.refused):,}")
    table.add_row("bounded slowdown, 60 s", f"{figures.bounded_slowdown:.5f}")
    of_paper = figures_of(played, PAPER_THRESHOLD_S).bounded_slowdown
    table.add_row("bounded slowdown, 300 s", f"{of_paper:.5f}")
    table.add_row("makespan, s", f"{figures.makespan_s:,.0f}")
    table.add_row("queue time, s", f"{figures.queue_time_s:,.0f}")
    weighted_s = weighted_queue_time_s(played, rules.waits_s)
    table.add_row("weighted queue time, s", f"{weighted_s:,.0f}")
    table.add_row("highest power, W", f"{figures.max_power_w:,.0f}")
    searches = played.searches
    if searches.plans:
        table.add_row("plans searched", f"{searches.plans:,}")
        table.add_row("cheaper than the list schedule", f"{searches.improved:,}")
        table.add_row("unanswered in time", f"{searches.unanswered:,}")
    return table
