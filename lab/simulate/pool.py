"""`coplace simulate --swf`: a log on one pool of processors."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import inf
from multiprocessing import get_context

from rich.console import Console

from cli.notes import TABLE_WIDTH, note
from cli.progress import progress_of
from coplace_client.errors import UnusableError
from lab.simulate import report
from lab.simulate.scenarios import PoolScenario
from lab.simulation.files import write_jobs
from lab.simulation.log import LoggedJobs, UnknownSizeError, read_log
from lab.simulation.metrics import Summary, summarise
from lab.simulation.one_pool import PoolMachine, play_log
from lab.simulation.policy import SimulatedPolicy
from shared.domain.runtimes import Runtimes


def run(scenario: PoolScenario) -> None:
    """Play, print and write. Raises OSError or UnusableError for a log that cannot be played."""
    logged = _read(scenario)
    note(_doubts(logged))
    machine = PoolMachine(
        logged.procs,
        scenario.idle_w,
        _cap_w(scenario),
        scenario.slurm.backfill,
        scenario.cap_counts_idle,
    )
    lines = list(_lines(scenario, logged, machine))
    Console(width=TABLE_WIDTH).print(
        report.table(lines, f"{scenario.swf.name}, {machine.procs} processors")
    )
    if scenario.out is not None and len(lines) > 1:
        report.write_comparison(scenario.out, lines)


def _read(scenario: PoolScenario) -> LoggedJobs:
    try:
        return read_log(
            scenario.swf,
            scenario.procs,
            kill_at_limit=scenario.kill,
            proc_w=scenario.proc_w,
            cap_w=_cap_w(scenario),
            idle_w=scenario.idle_w,
            cap_counts_idle=scenario.cap_counts_idle,
        )
    except UnknownSizeError as error:
        raise UnusableError(f"{error}: give --procs, or procs in the scenario") from error


def _lines(
    scenario: PoolScenario, logged: LoggedJobs, machine: PoolMachine
) -> Iterator[report.ComparisonRow]:
    if len(scenario.policy) == 1:
        (policy,) = scenario.policy
        yield _line(scenario, policy, _one(scenario, logged, machine, policy))
        return
    play = partial(_summary, logged, machine, scenario.runtimes, scenario.passing_share)
    with (
        progress_of(len(scenario.policy), "simulations") as done,
        ProcessPoolExecutor(scenario.workers, mp_context=get_context("spawn")) as pool,
    ):
        for number, (policy, summary) in enumerate(
            zip(scenario.policy, pool.map(play, scenario.policy), strict=True), 1
        ):
            done(number)
            yield _line(scenario, policy, summary)


def _one(
    scenario: PoolScenario, logged: LoggedJobs, machine: PoolMachine, policy: SimulatedPolicy
) -> Summary:
    with progress_of(1, "simulations") as done:
        runtimes = scenario.runtimes, scenario.passing_share
        played = play_log(logged, machine, policy, *runtimes)
        done(1)
    summary = summarise(played)
    if scenario.jobs_csv is not None:
        write_jobs(scenario.jobs_csv, played, logged.job_id)
    if scenario.out is not None:
        report.write_run(scenario.out, played, logged.job_id, summary)
    return summary


def _summary(
    logged: LoggedJobs,
    machine: PoolMachine,
    runtimes: Runtimes,
    passing_share: float,
    policy: SimulatedPolicy,
) -> Summary:
    return summarise(play_log(logged, machine, policy, runtimes, passing_share))


def _line(
    scenario: PoolScenario, policy: SimulatedPolicy, summary: Summary
) -> report.ComparisonRow:
    return report.ComparisonRow(policy, {"policy": policy, "workload": scenario.swf.name}, summary)


def _doubts(logged: LoggedJobs) -> list[str]:
    left_out = [f"{count:,} left out: {reason}" for reason, count in logged.left_out.items()]
    if not logged.out_of_order:
        return left_out
    return [
        *left_out,
        f"{logged.out_of_order:,} jobs come after later ones: sorted by submission",
    ]


def _cap_w(scenario: PoolScenario) -> float:
    return inf if scenario.cap_w is None else scenario.cap_w
