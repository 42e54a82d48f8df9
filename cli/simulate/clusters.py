"""`coplace simulate --clusters`: jobs of known applications on clusters of known energy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from rich.console import Console

from cli.simulate import report
from cli.simulate.progress import progress_of
from cli.telling import TABLE_WIDTH, note
from services.energy.adapters.matching import read_matched
from shared.domain.errors import UnusableError
from shared.eamc.frequency import Reading
from shared.simulation.epm import NodeModels
from shared.simulation.jobs import WorkloadSpec
from shared.simulation.lookahead import Ahead
from shared.simulation.metrics import summarise
from shared.simulation.policy import SimulatedPolicy
from shared.simulation.sweep import Case, Result, Setup, combinations, play_case, sweep
from shared.simulation.system import System, Unit, built_in_system, read_system
from shared.workloads.tariff_files import read_tariffs

UNIFORM = "uniform"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command was told."""

    system: System
    coefficients: Path
    policies: tuple[SimulatedPolicy, ...]
    workload: str
    counts: Unit
    jobs: int | None
    speed: float
    mixes: tuple[str, ...]
    t_weights: tuple[float, ...]
    seeds: tuple[int, ...]
    threshold: float
    reading: Reading
    ahead: Ahead
    kill_at_limit: bool
    out: Path | None
    workers: int | None

    @property
    def workloads(self) -> list[WorkloadSpec]:
        """One of each mix. Raises UnusableError for a mix that is no share."""
        return [
            WorkloadSpec(self.workload, self.jobs, _share(mix), self.counts, self.speed)
            for mix in self.mixes
        ]

    @property
    def cases(self) -> list[Case]:
        """All combinations."""
        return combinations(
            self.policies,
            self.t_weights,
            self.workloads,
            self.seeds,
            threshold=self.threshold,
            reading=self.reading,
            kill_at_limit=self.kill_at_limit,
            ahead=self.ahead,
        )


def system_of(
    clusters: str | None, file: Path | None, cap_w: float | None, tariffs: Path | None = None
) -> System:
    """The clusters by name or of a file, at the tariffs of another.

    Raises OSError or UnusableError for what are none.
    """
    system = _clusters_of(clusters, file, cap_w)
    return system if tariffs is None else replace(system, tariff_of=read_tariffs(tariffs))


def _clusters_of(clusters: str | None, file: Path | None, cap_w: float | None) -> System:
    if file is None:
        names = [name.strip() for name in (clusters or "").split(",")]
        return built_in_system(names, inf if cap_w is None else cap_w)
    if clusters is not None or cap_w is not None:
        raise UnusableError(
            "--system says clusters and caps itself: leave out --clusters and --cap-w"
        )
    return read_system(file)


def setup_of(system: System, coefficients: Path) -> Setup:
    """A system with the tables and signatures of a folder, which each cluster's module names.

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


def run(options: Options) -> None:
    """Play, print and write. Raises OSError or UnusableError for what cannot be played."""
    setup, cases = setup_of(options.system, options.coefficients), options.cases
    results = [_one(setup, cases[0], options.out)] if len(cases) == 1 else _all(setup, options)
    lines = [_line(result) for result in results]
    names = ", ".join(cluster.name for cluster in options.system.clusters)
    Console(width=TABLE_WIDTH).print(report.table(lines, f"{options.workload} on {names}"))
    note(_left_out(results))
    if options.out is not None and len(lines) > 1:
        report.write_comparison(options.out, lines)


def _one(setup: Setup, case: Case, out: Path | None) -> Result:
    with progress_of(1, "simulations") as done:
        outcome = play_case(setup, case)
        done(1)
    summary = summarise(outcome.played)
    if out is not None:
        report.write_run(out, outcome.played, outcome.job_id, summary)
    return Result(case, summary, outcome.left_out)


def _all(setup: Setup, options: Options) -> list[Result]:
    cases = options.cases
    results: list[Result] = []
    with progress_of(len(cases), "simulations") as done:
        for result in sweep(setup, cases, options.workers):
            results.append(result)
            done(len(results))
    return results


def _line(result: Result) -> report.Line:
    case = result.case
    parameters = {
        "policy": case.policy,
        "t_weight": case.t_weight,
        "workload": Path(case.workload.source).name,
        "mix": UNIFORM if case.workload.share is None else case.workload.share,
        "seed": case.seed,
        "left_out": result.left_out,
    }
    return report.Line(f"{case.workload.label}, {case.label}", parameters, result.summary)


def _left_out(results: Sequence[Result]) -> Iterator[str]:
    most = max(results, key=lambda result: result.left_out)
    if most.left_out:
        yield f"up to {most.left_out} jobs fit on no cluster and were left out ({most.case.label})"


def _share(mix: str) -> float | None:
    try:
        return None if mix == UNIFORM else float(mix)
    except ValueError as error:
        raise UnusableError(f"--mix must be {UNIFORM} or a share, got {mix!r}") from error
