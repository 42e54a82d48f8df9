"""`coplace simulate --swf`: a log on one pool of processors."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console

from cli.simulate import report
from cli.simulate.progress import progress_of
from cli.telling import TABLE_WIDTH, note
from shared.domain.errors import UnusableError
from shared.scheduling.runtimes import Runtimes
from shared.simulation.files import write_jobs
from shared.simulation.log import LoggedJobs, read_log
from shared.simulation.metrics import Summary, summarise
from shared.simulation.one_pool import Machine, play_log
from shared.simulation.policy import SimulatedPolicy


@dataclass(frozen=True, slots=True)
class Options:
    """What the command was told. Raises UnusableError for what contradicts itself."""

    swf: Path
    policies: tuple[SimulatedPolicy, ...]
    procs: int | None
    jobs_csv: Path | None
    out: Path | None
    kill_at_limit: bool
    runtimes: Runtimes
    cap_w: float
    proc_w: float
    idle_w: float
    workers: int | None

    def __post_init__(self) -> None:
        if self.jobs_csv is not None and len(self.policies) > 1:
            raise UnusableError("--jobs-csv holds one schedule: give one policy")
        if self.cap_w < float("inf") and not self.proc_w:
            raise UnusableError("--cap-w needs --proc-w: a log names no power")


def run(options: Options) -> None:
    """Play, print and write. Raises OSError or UnusableError for a log that cannot be played."""
    logged = read_log(
        options.swf,
        options.procs,
        kill_at_limit=options.kill_at_limit,
        proc_w=options.proc_w,
        cap_w=options.cap_w,
    )
    note(_doubts(logged))
    machine = Machine(logged.procs, options.idle_w, options.cap_w)
    lines = list(_lines(options, logged, machine))
    Console(width=TABLE_WIDTH).print(
        report.table(lines, f"{options.swf.name}, {machine.procs} processors")
    )
    if options.out is not None and len(lines) > 1:
        report.write_comparison(options.out, lines)


def _lines(options: Options, logged: LoggedJobs, machine: Machine) -> Iterator[report.Line]:
    if len(options.policies) == 1:
        (policy,) = options.policies
        yield _line(options, policy, _one(options, logged, machine, policy))
        return
    play = partial(_summary, logged, machine, options.runtimes)
    with (
        progress_of(len(options.policies), "simulations") as done,
        ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool,
    ):
        for number, (policy, summary) in enumerate(
            zip(options.policies, pool.map(play, options.policies), strict=True), 1
        ):
            done(number)
            yield _line(options, policy, summary)


def _one(
    options: Options, logged: LoggedJobs, machine: Machine, policy: SimulatedPolicy
) -> Summary:
    with progress_of(1, "simulations") as done:
        played = play_log(logged, machine, policy, options.runtimes)
        done(1)
    summary = summarise(played)
    if options.jobs_csv is not None:
        write_jobs(options.jobs_csv, played, logged.job_id)
    if options.out is not None:
        report.write_run(options.out, played, logged.job_id, summary)
    return summary


def _summary(
    logged: LoggedJobs, machine: Machine, runtimes: Runtimes, policy: SimulatedPolicy
) -> Summary:
    return summarise(play_log(logged, machine, policy, runtimes))


def _line(options: Options, policy: SimulatedPolicy, summary: Summary) -> report.Line:
    return report.Line(policy, {"policy": policy, "workload": options.swf.name}, summary)


def _doubts(logged: LoggedJobs) -> list[str]:
    left_out = [f"{count} left out: {reason}" for reason, count in logged.left_out.items()]
    if not logged.out_of_order:
        return left_out
    return [*left_out, f"{logged.out_of_order} jobs stand behind later ones: sorted by submission"]
