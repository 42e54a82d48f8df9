"""`coplace simulate --clusters`: jobs of known applications on clusters of known energy."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Final

from rich.console import Console

from cli.notes import TABLE_WIDTH, note
from cli.progress import progress_of
from coplace_client.errors import UnusableError
from lab.simulate import report
from lab.simulate.scenarios import UNIFORM, ClustersScenario
from lab.simulation.epm import NodeModels
from lab.simulation.jobs import WorkloadSpec
from lab.simulation.metrics import summarise
from lab.simulation.sweep import Case, Result, Setup, combinations, play_case, sweep
from lab.simulation.system import System, built_in_system, read_system
from services.energy.adapters.matching import read_matched
from shared.process.tariff_files import read_tariffs

# What is of caps alone, by field, as options say it.
_OF_CAPS: Final = {"cap_slowdown": "--cap-slowdown", "cap_counts_idle": "--no-cap-counts-idle"}


def system_of(scenario: ClustersScenario) -> System:
    """Return its clusters at its tariffs. Raises OSError or UnusableError for invalid ones."""
    system = _clusters_of(scenario)
    if scenario.tariffs is None:
        return system
    return replace(system, tariff_of=read_tariffs(scenario.tariffs))


def _clusters_of(scenario: ClustersScenario) -> System:
    counts_idle = scenario.cap_counts_idle
    if scenario.system is not None:
        system = read_system(scenario.system, cap_counts_idle=counts_idle)
        if not system.is_capped:
            _refuse_what_is_of_caps(scenario)
        return system
    cap_w = inf if scenario.cap_w is None else scenario.cap_w
    region_cap_w = inf if scenario.region_cap_w is None else scenario.region_cap_w
    return built_in_system(
        [*scenario.clusters], cap_w, cap_counts_idle=counts_idle, region_cap_w=region_cap_w
    )


def _refuse_what_is_of_caps(scenario: ClustersScenario) -> None:
    """Raise UnusableError for an option that nothing reads where there is no cap."""
    if said := scenario.of_caps:
        option = f"{_OF_CAPS[said[0]]} ({said[0]})"
        problem = f"{option} is of no use on {scenario.system}, which has no cap"
        raise UnusableError(f"{problem}: leave it out, or give cap_w or caps there")


def cases_of(scenario: ClustersScenario) -> list[Case]:
    """Return all combinations. Raises UnusableError for a speed of 0 and a share above 1."""
    workloads = [
        WorkloadSpec(scenario.workload, scenario.jobs, share, scenario.counts, scenario.speed)
        for share in scenario.shares
    ]
    return combinations(
        scenario.policy,
        scenario.t_weight,
        workloads,
        scenario.seeds,
        threshold=scenario.threshold,
        reading=scenario.reading,
        kill_at_limit=scenario.kill,
        ahead=scenario.look_ahead.ahead,
        slurm=scenario.slurm.backfill,
        cap_slowdown=scenario.cap_slowdown,
        discipline=scenario.discipline,
    )


def setup_of(system: System, coefficients: Path) -> Setup:
    """Return a system with the tables and signatures of a folder, which each cluster's module
    names.

    Raises OSError or UnusableError for files that cannot be used, and a module without any.
    """
    tables = sorted(coefficients.glob("*_coefficients.csv"))
    if not tables:
        raise UnusableError(
            f"{coefficients} holds no *_coefficients.csv: give the folder that does"
        )
    known = {each.module: each for each in read_matched(tables, coefficients / "apps.csv")}
    if missing := sorted({c.module for c in system.clusters} - known.keys()):
        problem = f"{coefficients} knows no module {', '.join(missing)}"
        raise UnusableError(f"{problem}: it has {', '.join(sorted(known))}")
    matched = [known[cluster.module] for cluster in system.clusters]
    return Setup(
        system,
        tuple(NodeModels(m.coefficients, {s.app_id: s for s in m.signatures}) for m in matched),
    )


def run(scenario: ClustersScenario) -> None:
    """Play, print and write. Raises OSError or UnusableError for what cannot be played."""
    system, cases = system_of(scenario), cases_of(scenario)
    system.require_kept_by(scenario.policy, scenario.discipline)
    setup = setup_of(system, scenario.coefficients)
    results = (
        [_one(setup, cases[0], scenario.out)]
        if len(cases) == 1
        else _all(setup, cases, scenario.workers)
    )
    lines = [_line(result) for result in results]
    names = ", ".join(cluster.name for cluster in system.clusters)
    Console(width=TABLE_WIDTH).print(report.table(lines, f"{scenario.workload} on {names}"))
    note(_left_out(results))
    if scenario.out is not None and len(lines) > 1:
        report.write_comparison(scenario.out, lines)


def _one(setup: Setup, case: Case, out: Path | None) -> Result:
    with progress_of(1, "simulations") as done:
        outcome = play_case(setup, case)
        done(1)
    summary = summarise(outcome.played)
    if out is not None:
        report.write_run(out, outcome.played, outcome.job_id, summary)
    return Result(case, summary, outcome.left_out)


def _all(setup: Setup, cases: Sequence[Case], workers: int | None) -> list[Result]:
    results: list[Result] = []
    with progress_of(len(cases), "simulations") as done:
        for result in sweep(setup, cases, workers):
            results.append(result)
            done(len(results))
    return results


def _line(result: Result) -> report.ComparisonRow:
    case = result.case
    parameters = {
        "policy": case.policy,
        "t_weight": case.t_weight,
        "workload": Path(case.workload.source).name,
        "mix": UNIFORM if case.workload.share is None else case.workload.share,
        "seed": case.seed,
        "left_out": result.left_out,
    }
    return report.ComparisonRow(f"{case.workload.label}, {case.label}", parameters, result.summary)


def _left_out(results: Sequence[Result]) -> Iterator[str]:
    most = max(results, key=lambda result: result.left_out)
    if most.left_out:
        yield f"up to {most.left_out} jobs fit on no cluster and were left out ({most.case.label})"
