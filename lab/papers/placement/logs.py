"""Real logs on one pool: how long jobs wait, how fast and in how much memory that is computed."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from timeit import repeat
from typing import Any, Final

import numpy as np

from lab.simulation.log import LoggedJobs, read_log
from lab.simulation.metrics import summarise
from lab.simulation.one_pool import PoolMachine, play_log
from lab.simulation.policy import SimulatedPolicy
from lab.workloads.rigid import lublin_jobs
from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.timeline import play
from shared.scheduling.workload import Workload

KTH: Final = "KTH-SP2"
LOGS: Final[Mapping[str, str]] = {
    KTH: "KTH-SP2.swf.gz",
    "CTC-SP2": "CTC-SP2-1996-3.1-cln.swf.gz",
    "HPC2N": "HPC2N-2002-2.2-cln.swf.gz",
}
RUNS: Final = (
    *((log, SimulatedPolicy.EASY) for log in LOGS),
    (KTH, SimulatedPolicy.FCFS),
    (KTH, SimulatedPolicy.SJF),
    (KTH, SimulatedPolicy.CONSERVATIVE),
)
SIZES: Final = (10_000, 20_000, 50_000, 100_000, 200_000)
POOL_NODES: Final = 256
OFFERED_LOAD: Final = 0.8
# A log names no power: any makes the energy of each job be counted.
PROC_W, IDLE_W = 100.0, 40.0
_REPEATS: Final = 3


@dataclass(frozen=True, slots=True)
class LogRun:
    """One log under one policy: waits, of which `tail_s` is the 99th and 99.9th percentile, the
    longest and the mean of the widest 1 %; seconds of the simulation loop with the energy of each
    job, of all from the file to the measures, and the most memory that the process had."""

    log: str
    policy: SimulatedPolicy
    jobs: int
    left_out: int
    wait_s: float
    tail_s: tuple[float, float, float, float]
    slowdown_10s: float
    slowdown_60s: float
    loop_s: float
    whole_s: float
    peak_mib: float


@dataclass(frozen=True, slots=True)
class ScaleRun:
    """So many jobs of the Lublin-Feitelson model at one offered load under EASY."""

    jobs: int
    loop_s: float

    @property
    def job_us(self) -> float:
        """Return the cost of one job."""
        return self.loop_s / self.jobs * 1e6


def measured(folder: Path, log: str, policy: SimulatedPolicy) -> LogRun:
    """Measure one log in a process of its own: memory that others had does not count.

    Raises subprocess.CalledProcessError for a log that cannot be read, which the process reports.
    """
    return LogRun(**_alone(LogRun.__name__, log, str(folder / LOGS[log]), policy))


def scaled(jobs: int) -> ScaleRun:
    """Measure one size in a process of its own."""
    return ScaleRun(**_alone(ScaleRun.__name__, str(jobs)))


def _alone(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", __name__, *arguments]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    found: dict[str, Any] = json.loads(printed)
    return found


def main(kind: str, *arguments: str) -> None:
    """Measure here and print it as JSON."""
    if kind == ScaleRun.__name__:
        found: LogRun | ScaleRun = _scale_run(int(arguments[0]))
    else:
        log, path, policy = arguments
        found = _log_run(log, Path(path), SimulatedPolicy(policy))
    print(json.dumps(asdict(found)))


def _log_run(log: str, path: Path, policy: SimulatedPolicy) -> LogRun:
    began_s = time.perf_counter()
    logged = read_log(path, proc_w=PROC_W)
    machine = PoolMachine(logged.procs, IDLE_W)
    summary = summarise(play_log(logged, machine, policy))
    whole_s = time.perf_counter() - began_s
    peak_mib, waits = _peak_mib(), summary.wait_s
    return LogRun(
        log=log,
        policy=policy,
        jobs=summary.jobs,
        left_out=sum(logged.left_out.values()),
        wait_s=waits.mean,
        tail_s=(waits.p99, waits.p999, waits.longest, summary.widest_wait_s),
        slowdown_10s=summary.bounded_slowdown_10s.mean,
        slowdown_60s=summary.bounded_slowdown_60s.mean,
        loop_s=_least_s(lambda: _energy_j(logged, machine, policy)),
        whole_s=whole_s,
        peak_mib=peak_mib,
    )


def _scale_run(jobs: int) -> ScaleRun:
    workload = _lublin(jobs)
    pools = [Pool(POOL_NODES)]
    return ScaleRun(jobs, _least_s(lambda: play(pools, workload, Discipline.EASY)))


def _lublin(jobs: int) -> Workload:
    drawn = lublin_jobs(1, jobs, POOL_NODES, POOL_NODES, OFFERED_LOAD)
    return Workload(
        submit_s=drawn.submit_s,
        order=np.arange(jobs)[:, np.newaxis],
        units=drawn.nodes[:, np.newaxis],
        limit_s=drawn.requested_s[:, np.newaxis],
        run_s=drawn.run_s[:, np.newaxis],
        power_w=PROC_W * drawn.nodes[:, np.newaxis].astype(np.float64),
    ).killed_at_limit()


def _energy_j(logged: LoggedJobs, machine: PoolMachine, policy: SimulatedPolicy) -> float:
    return float(play_log(logged, machine, policy).energy_j.sum())


def _least_s(function: Callable[[], object]) -> float:
    """The least seconds of a few runs: what others do on the machine only adds."""
    return min(repeat(function, number=1, repeat=_REPEATS))


def _peak_mib() -> float:
    """The largest resident set of this process.

    getrusage would be larger where the process that started this one was: Linux keeps that figure
    when a program is replaced by another.
    """
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM: memory is measured on Linux only")


if __name__ == "__main__":
    main(*sys.argv[1:])
