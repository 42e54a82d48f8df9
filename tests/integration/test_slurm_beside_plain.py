"""Jobs of many kinds, drawn by a seed, on Debian's Slurm with Coplace. A watcher of squeue and
sinfo, which knows nothing of Coplace, finds that each runs once where it may, and no node idle for
long beside a job that waits for nothing else."""

import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

import pytest

from deploy.local.servers import LocalServers
from shared.domain.hostlist import expand
from tests.support.slurm import LocalSlurm, require_installed
from tests.support.slurm_region import Region, connected

JOBS: Final = 60
_WITHIN_S: Final = 90.0
# Between the end of a job and the start of the next there are looks of the adapter and rounds.
_MOST_IDLE_S: Final = 10.0
NODES: Final = """\
NodeName=a[1-2] CPUs=4 RealMemory=4000 Feature=skylake,ib
NodeName=b[1-2] CPUs=8 RealMemory=8000 Feature=rome
PartitionName=small Nodes=a[1-2] Default=YES MaxTime=INFINITE State=UP
PartitionName=big Nodes=b[1-2] MaxTime=INFINITE State=UP
PartitionName=both Nodes=a2,b1 MaxTime=INFINITE State=UP
"""
# What was released starts in the next second, also behind one whose nodes are not free yet.
MORE: Final = """\
DefMemPerCPU=200
Licenses=matlab:2
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
"""
CLUSTERS: Final = """\
clusters:
- {name: gold, nodes: "a[1-2]", node_model: gold-6254, pstates_ghz: [1.2, 3.1], idle_power_w: 110,
   peak_bandwidth_gbps: 140}
- {name: rome, feature: rome, node_model: rome-7742, pstates_ghz: [1.5, 2.2], idle_power_w: 130,
   peak_bandwidth_gbps: 200}
"""
_WAITS: Final = frozenset(
    {"(None)", "(JobHeldUser)", "(JobHeldAdmin)", "(Priority)", "(Resources)"}
)
_NODES_OF: Final = {"small": {"a1", "a2"}, "big": {"b1", "b2"}, "both": {"a2", "b1"}}


@pytest.fixture(scope="module")
def region(servers: LocalServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    require_installed()
    folder = tmp_path_factory.mktemp("beside-plain")
    slurm = LocalSlurm(folder, None, MORE, NODES, "CR_Core_Memory")
    with connected(servers, slurm, "beside-plain-", CLUSTERS) as found:
        found.until(found.is_ready, "the clusters")
        yield found


def drawn(rng: Random, before: Sequence[int]) -> list[str]:
    """The options of a job; `before` are those that it may wait for."""
    partition = rng.choice(["small", "small", "big", "both", "small,big"])
    options = [f"--partition={partition}", f"--ntasks={rng.choice([1, 1, 1, 2, 3])}", "--time=2"]
    kind = rng.randrange(10)
    if kind == 0:
        options.append(f"--array=1-{rng.randint(2, 4)}%{rng.randint(1, 3)}")
    elif kind == 1 and before:
        options.append(f"--dependency=afterany:{rng.choice(before)}")
    elif kind == 2:
        options.append("--licenses=matlab:1")
    elif kind == 3:
        options.append(f"--begin=now+{rng.randint(1, 8)}")
    elif kind == 4:
        options.append("--exclusive")
    elif kind == 5:
        options.append(f"--mem={rng.choice([300, 900])}")
    elif kind == 6:
        options.append("--job-name=gr\udcf6\udcdfe\nx" + "y" * 257)
    return options


class Watcher:
    """What squeue and sinfo show over time."""

    def __init__(self, slurm: LocalSlurm) -> None:
        self._slurm = slurm
        self.starts = Counter[str]()
        self.nodes: dict[str, tuple[str, set[str]]] = {}
        self.reasons: set[str] = set()
        self.longest_idle_s = 0.0
        self._running: set[str] = set()
        self._idle_since_s: dict[str, float] = {}

    def look(self) -> int:
        """How many jobs wait or run."""
        shown = self._said("squeue", "--array", "--noheader", "--format=%i|%T|%P|%N|%R|%C|%L|%S")
        jobs = [line.split("|") for line in shown.splitlines()]
        running = {job[0] for job in jobs if job[1] == "RUNNING"}
        self.starts.update(running - self._running)
        self._running = running
        for number, state, partition, nodes, reason, *_ in jobs:
            if state == "RUNNING":
                self.nodes[number] = (
                    partition,
                    set(self._said("scontrol", "show", "hostnames", nodes).split()),
                )
            self.reasons.add(reason)
        self._note_idle(jobs)
        return len(jobs)

    def _note_idle(self, jobs: Sequence[Sequence[str]]) -> None:
        """Note nodes on which nothing runs while a job of one core that is eligible waits there."""
        has_job = {name for job in jobs for name in (expand(job[3]) if job[3] else ())}
        shown = self._said("sinfo", "--noheader", "--Node", "--format=%N %t").splitlines()
        idle = {name for name, state in map(str.split, shown) if state == "idle"} - has_job
        plain = self._plain() if idle else set()
        wanted: set[str] = set()
        for job in jobs:
            if job[1] == "PENDING" and job[4] in _WAITS and job[5] == "1" and job[0] in plain:
                wanted |= set().union(*(_NODES_OF[name] for name in job[2].split(",")))
        now_s = time.monotonic()
        self._idle_since_s = {name: self._idle_since_s.get(name, now_s) for name in idle & wanted}
        longest_s = max((now_s - since_s for since_s in self._idle_since_s.values()), default=0.0)
        self.longest_idle_s = max(self.longest_idle_s, longest_s)

    def _plain(self) -> set[str]:
        """Those that wait for nothing but nodes."""
        found = set()
        for line in self._said("scontrol", "show", "job", "--oneliner").splitlines():
            fields = dict(each.partition("=")[::2] for each in line.split())
            is_eligible = fields.get("EligibleTime", "") <= time.strftime("%Y-%m-%dT%H:%M:%S")
            waits_for = fields.get("Dependency") != "(null)" or fields.get("Licenses") != "(null)"
            if is_eligible and not waits_for and "ArrayTaskId" not in fields:
                found.add(fields.get("JobId", ""))
        return found

    def _said(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self._slurm.environment, capture_output=True, check=False, timeout=30
        )
        return done.stdout.decode(errors="replace")


@pytest.mark.parametrize("seed", [1])
def test_jobs_of_many_kinds_run_once_where_they_may_and_leave_no_node_idle(
    region: Region, seed: int
) -> None:
    rng, watcher = Random(seed), Watcher(region.slurm)
    numbers: list[int] = []
    while len(numbers) < JOBS:
        numbers.append(region.slurm.submit("sleep 2", *drawn(rng, numbers)))
    deadline_s = time.monotonic() + _WITHIN_S
    while watcher.look() and time.monotonic() < deadline_s:
        time.sleep(0.3)
    left = watcher.look()
    assert not left, region.slurm.say("squeue")
    states = Counter(job.state for job in region.jobs())
    assert set(states) == {"COMPLETED"}
    assert states.total() >= JOBS
    assert set(watcher.starts.values()) == {1}
    for partition, nodes in watcher.nodes.values():
        assert nodes <= set().union(*(_NODES_OF[name] for name in partition.split(",")))
    assert "(BadConstraints)" not in watcher.reasons
    assert watcher.longest_idle_s <= _MOST_IDLE_S
