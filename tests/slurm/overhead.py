"""`make bench-slurm`: what Coplace adds to a Slurm: time from submission to start beside a Slurm
without it, calls to slurmctld, and with `--nodes` CPU and memory where many jobs wait.

Both Slurms get the same jobs at the same moments, so that what else runs slows both.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import psutil

from deploy.local.servers import LocalServers
from tests.slurm.site import CLUSTERS, held_slurm, plain_slurm
from tests.support.slurm import LocalSlurm
from tests.support.slurm_region import DEFAULTS, Region, connected

_CALLS: Final = re.compile(r"^coplace_slurm_calls_total\{.*?\} (\S+)$", re.MULTILINE)
_JOURNAL: Final = "echo {place} $(date +%s.%N) >>{journal}"
_MINUTE_S: Final = 60.0
_QUIET_S: Final = 40.0
_MANY: Final = 500
_WITHIN_S: Final = 120.0


class Load(NamedTuple):
    """What a minute took: CPU seconds of slurmctld and of Coplace's process, the memory of that
    one, MiB, and its calls."""

    slurmctld_s: float
    own_s: float
    own_mib: float
    calls: float

    def __str__(self) -> str:
        return (
            f"slurmctld {self.slurmctld_s:.2f} s of CPU, the process slurm {self.own_s:.2f} s and "
            f"{self.own_mib:.0f} MiB, {self.calls:.0f} calls"
        )


def calls(region: Region) -> float:
    """How many commands of Slurm the process has called."""
    return sum(map(float, _CALLS.findall(region.page("metrics"))))


def minute(region: Region, *, has_process: bool = True) -> Load:
    """What happens in a minute."""
    ctld = psutil.Process(region.slurm.pid("slurmctld"))
    own = psutil.Process(region.between.pid) if has_process else None
    before_s, before = _cpu_s(ctld), (_cpu_s(own), calls(region)) if own else (0.0, 0.0)
    time.sleep(_MINUTE_S)
    own_mib = own.memory_info().rss / 2**20 if own else 0.0
    after = (_cpu_s(own), calls(region)) if own else (0.0, 0.0)
    return Load(_cpu_s(ctld) - before_s, after[0] - before[0], own_mib, after[1] - before[1])


def _cpu_s(process: psutil.Process | None) -> float:
    """With the commands that it ran and waited for."""
    if process is None:
        return 0.0
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def delays_s(
    slurms: Sequence[LocalSlurm], bursts: Sequence[tuple[float, int]]
) -> list[list[float]]:
    """From submission to start of jobs on each Slurm; a burst is the pause before it, s, and how
    many jobs."""
    submitted_s: list[list[float]] = [[] for _ in slurms]
    for pause_s, jobs in bursts:
        time.sleep(pause_s)
        for _ in range(jobs):
            for slurm, times_s in zip(slurms, submitted_s, strict=True):
                place = len(times_s)
                times_s.append(time.time())
                _submit(slurm, _JOURNAL.format(place=place, journal=slurm.inside / "journal"))
    return [_began(slurm, times_s) for slurm, times_s in zip(slurms, submitted_s, strict=True)]


def _began(slurm: LocalSlurm, submitted_s: Sequence[float]) -> list[float]:
    deadline_s = time.monotonic() + _WITHIN_S
    file = slurm.folder / "journal"
    while len(rows := file.read_text().split("\n") if file.exists() else []) <= len(submitted_s):
        assert time.monotonic() < deadline_s, f"{len(rows)} of {len(submitted_s)} jobs started"
        time.sleep(0.5)
    began = dict(row.split() for row in rows if row)
    file.unlink()
    return sorted(float(began[str(at)]) - each for at, each in enumerate(submitted_s))


def _submit(slurm: LocalSlurm, script: str, *options: str) -> None:
    slurm.say("sbatch", f"--output={os.devnull}", "--time=5", *options, f"--wrap={script}")


def show(name: str, both: Sequence[Sequence[float]]) -> None:
    """Print what Coplace adds."""
    print(f"{name}: {len(both[0])} jobs", flush=True)
    for share, label in ((0.5, "median"), (0.99, "p99"), (1.0, "most")):
        plain_s, own_s = (each[min(int(share * len(each)), len(each) - 1)] for each in both)
        print(f"  {label}: plain {plain_s:.2f} s, Coplace {own_s:.2f} s, {own_s - plain_s:+.2f} s")


def overhead(jobs: int, seed: int, stack: ExitStack, servers: LocalServers) -> None:
    """Print what Coplace adds to jobs on nodes that are free, and how often it calls."""
    rng = Random(seed)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    slurms = [found(_made(folder / name)) for name, found in _TWO.items()]
    plain = stack.enter_context(slurms[0])
    region = stack.enter_context(connected(servers, slurms[1], "bench", CLUSTERS, **DEFAULTS))
    region.until(region.is_ready, "the clusters")
    time.sleep(_QUIET_S)
    print(f"idle, a minute: {minute(region)}", flush=True)
    both = (plain, region.slurm)
    show("after a while without jobs", delays_s(both, [(_QUIET_S, 1)] * max(1, jobs // 25)))
    singles = [(rng.uniform(1, 2), 1) for _ in range(jobs // 2)]
    show("one at a time", delays_s(both, singles))
    show("four at once", delays_s(both, [(rng.uniform(3, 4), 4) for _ in range(jobs // 8)]))
    for _ in range(_MANY):
        _submit(region.slurm, "sleep 10")
    print(f"with {_MANY} jobs that wait or run, a minute: {minute(region)}", flush=True)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


_TWO: Final[Mapping[str, Callable[[Path], LocalSlurm]]] = {"plain": plain_slurm, "held": held_slurm}
_MANY_NODES: Final = """\
NodeName=c[1-{nodes}] CPUs=8 RealMemory=8000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_ONE_CLUSTER: Final = """\
clusters:
- {name: alpha, node_model: gold-6254, pstates_ghz: [1.2, 3.1], idle_power_w: 110,
   peak_bandwidth_gbps: 140}
"""
_SUBMIT_ALL: Final = (
    "for at in $(seq {jobs}); do sbatch -Q -o /dev/null -n1 -t5 --wrap=true || exit 1; done"
)


def large(nodes: int, jobs: int, stack: ExitStack, servers: LocalServers) -> None:
    """Print what a large Slurm costs with and without Coplace's process: one job has all its nodes,
    of which each has a slurmd, and the others wait."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    partitions = _MANY_NODES.format(nodes=nodes)
    slurm = LocalSlurm(folder, None, "", partitions)
    region = stack.enter_context(connected(servers, slurm, "large", _ONE_CLUSTER, **DEFAULTS))
    region.until(region.is_ready, "the cluster")
    print(f"{nodes} nodes, no job, a minute: {minute(region)}", flush=True)
    runs = slurm.submit("sleep 3600", f"--nodes={nodes}", "--exclusive", "--time=120")
    region.until(lambda: region.has_nodes(runs), "the job on all nodes")
    began_s = time.monotonic()
    submitted = ["sh", "-c", _SUBMIT_ALL.format(jobs=jobs)]
    subprocess.run(submitted, env=slurm.environment, check=True)
    print(f"{jobs} jobs submitted in {time.monotonic() - began_s:.0f} s", flush=True)
    time.sleep(_QUIET_S)
    print(f"{jobs} jobs wait, a minute: {minute(region)}", flush=True)
    region.kill()
    print(f"the process slurm is stopped, a minute: {minute(region, has_process=False)}")
    slurm.say("scancel", str(runs))


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=0, help="instead: a Slurm of so many nodes")
    parser.add_argument("--queued", type=int, default=5_000, help="jobs that wait there")
    given = parser.parse_args()
    with ExitStack() as stack:
        run_dir = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = stack.enter_context(LocalServers(run_dir / "run"))
        if given.nodes:
            large(given.nodes, given.queued, stack, servers)
        else:
            overhead(given.jobs, given.seed, stack, servers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
