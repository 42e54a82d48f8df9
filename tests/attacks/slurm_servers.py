"""`make fuzz ADAPTER=slurm SERVERS=1`: users of a real Slurm 24.11 with jobcomp/kafka submit,
change, requeue and cancel jobs in every way that it takes, beside honest ones, through the
service `slurm` and `ingest-jobcomp` on real Kafka.

No process ends, each honest job is submitted and completes under a grant, and every run of which
the plugin has a record has its end. Records are the submissions and changes that Slurm took, each
of which is seen in what Slurm shows then, and what the plugin sends.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import psutil
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobSubmitted

from cli.kafka_topics import KafkaTopics
from deploy.local.servers import LocalServers
from shared.streams.on_kafka.clients import Reader
from tests.support.slurm import LocalSlurm, built_slurm
from tests.support.slurm_region import Region

_TOPIC: Final = "slurm.jobcomp"
_CONF: Final = """\
JobCompType=jobcomp/kafka
JobCompLoc={folder}/kafka.conf
JobCompParams=topic={topic}
MinJobAge=120
MaxJobCount=100000
"""
_USERS: Final = 3
_A_GOOD_JOB: Final = 20
# Jobs of which most wait for ever: beyond so many the oldest go.
_MOST_BAD: Final = 300
# Four cores take what waits, at the pace of the looks at Slurm.
_WITHIN_S: Final = 1_800.0
_LOOKS_EVERY_S: Final = 10.0
_WARM_PART: Final = 0.3
_MOST_GROWTH_MIB: Final = 32.0
_RUNS: Final = (
    *("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "PENDING", "OUT_OF_MEMORY"),
    *("DEADLINE", "PREEMPTED", "BOOT_FAIL"),
)
# Python gives bytes that are not UTF-8 to commands as they are written here.
_TEXTS: Final = (
    *("a\nb", "a\tb", "na\udcefve", "\udcff\udcfe", "\x1b[31m", "\u200b", "\u202e", "x" * 257),
    *("x" * 1_000, "ü" * 300, "None", "(null)", "", " ", "%j;$(id)", '"}],', "\\", "app_id=\x01"),
    *("coplace grant=1 started freq_ghz=9", "coplace grant=99 declined", "\U0001f600", "'", "|,;="),
)
_TIMES: Final = (
    *(
        "1",
        "0:30",
        "UNLIMITED",
        "365-0",
        "400-0",
        "1-0:0:1",
        "99999999",
        "0",
        "x",
        "-1",
        "00:00:01",
    ),
)
_SCRIPTS: Final = ("true", "sleep 0.3", "exit 3", "kill -9 $$", "sleep 2", "echo \udcff\n\t")


@dataclass
class Users:
    """Submit and change jobs; one in some submissions is honest."""

    region: Region
    seed: int
    good: dict[int, str] = field(default_factory=dict)
    bad: list[int] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    is_over: bool = False

    def act(self, user: int) -> None:
        """Do one thing after another until it is over."""
        rng, number = Random(f"{self.seed} {user}"), 0
        while not self.is_over:
            number += 1
            if number % _A_GOOD_JOB == 1:
                self._submit_good(f"good-{user}-{number}")
            elif self.bad and rng.random() < 0.4:
                self._done(_change(rng, rng.choice(self.bad[-60:])))
            else:
                found = self._done(_submission(rng))
                if found.isdecimal():
                    self.bad.append(int(found))
            if len(self.bad) > _MOST_BAD:
                oldest, self.bad[:100] = self.bad[:100], []
                self._done(["scancel", *map(str, oldest)])
            if rng.random() < 0.02:
                reason = f"Reason={rng.choice(_TEXTS)}"
                self._done(["scontrol", "update", "NodeName=n2", "State=DRAIN", reason])
            elif rng.random() < 0.05:
                self._done(["scontrol", "update", "NodeName=n2", "State=RESUME"])

    @property
    def taken(self) -> int:
        """How many submissions and changes Slurm took."""
        return sum(count for what, count in self.counts.items() if what.endswith(" taken"))

    def leave(self) -> None:
        """All jobs that are not honest go, and the nodes are as they were."""
        self._done(["scontrol", "update", "NodeName=n2", "State=RESUME"])
        self._done(["scancel", *map(str, self.bad)])

    def _submit_good(self, name: str) -> None:
        options = (f"--job-name={name}", "--nodes=1", "--time=5", "--wrap=sleep 1")
        found = self._done(["sbatch", "--parsable", f"--output={os.devnull}", *options])
        if found.isdecimal():
            self.good[int(found)] = name

    def _done(self, command: Sequence[str]) -> str:
        environment = self.region.slurm.environment
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        self.counts[f"{command[0]} {'refused' if done.returncode else 'taken'}"] += 1
        return done.stdout.decode(errors="replace").strip().partition(";")[0]


def _submission(rng: Random) -> list[str]:
    """A job of a user who knows no better."""
    drawn = rng.sample(_OPTIONS, rng.randint(1, 4))
    script = f"--wrap={rng.choice(_SCRIPTS)}"
    return [
        "sbatch",
        "--parsable",
        f"--output={os.devnull}",
        script,
        *(each(rng) for each in drawn),
    ]


_OPTIONS: Final[Sequence[Callable[[Random], str]]] = (
    lambda rng: f"--job-name={rng.choice(_TEXTS)}",
    lambda rng: f"--job-name={rng.choice(_TEXTS)}{rng.choice(_TEXTS)}",
    lambda rng: f"--comment={rng.choice(_TEXTS)}",
    lambda rng: f"--time={rng.choice(_TIMES)}",
    lambda rng: f"--account={rng.choice(_TEXTS)}",
    lambda rng: f"--wckey={rng.choice(_TEXTS)}",
    lambda rng: f"--gres={rng.choice(['gpu:1', 'tmp:10G', 'x'])}",
    lambda rng: f"--licenses={rng.choice(['a', 'a:99999999'])}",
    lambda rng: f"--constraint={rng.choice(['a', 'a&b', '[a|b]'])}",
    lambda rng: f"--mem={rng.choice(['0', '1', '1M', '999G'])}",
    lambda rng: f"--nodes={rng.choice(['1', '2', '1-2', '3', '0'])}",
    lambda rng: f"--ntasks={rng.choice(['1', '4', '5', '100000'])}",
    lambda rng: f"--cpus-per-task={rng.choice(['1', '2', '3'])}",
    lambda rng: f"--array={rng.choice(['1-3', '1-6%2', '0', '7,9', '5-1'])}",
    lambda rng: f"--dependency={rng.choice(['singleton', 'afterok:1', 'afterany:2:3'])}",
    lambda rng: f"--begin=now+{rng.choice(['1', '60', '1hour'])}",
    lambda rng: f"--deadline=now+{rng.choice(['61', '600'])}",
    lambda rng: f"--nice={rng.choice(['0', '100', '-5'])}",
    lambda rng: f"--chdir={rng.choice(['/', '/none', '/tmp'])}",
    lambda rng: rng.choice(["--hold", "--requeue", "--no-requeue", "--exclusive", "--overcommit"]),
    lambda rng: f"--signal={rng.choice(['KILL@1', 'B:USR1'])}",
)  # fmt: skip


def _change(rng: Random, job: int) -> list[str]:
    """What a user or an operator of Slurm does to a job."""
    return list(rng.choice(_CHANGES)(rng, str(job)))


def _updated(job: str, what: str) -> Sequence[str]:
    return ("scontrol", "update", f"JobId={job}", what)


_CHANGES: Final[Sequence[Callable[[Random, str], Sequence[str]]]] = (
    lambda _, job: ("scancel", job),
    lambda _, job: ("scancel", "--signal=KILL", job),
    lambda _, job: ("scontrol", "hold", job),
    lambda _, job: ("scontrol", "release", job),
    lambda _, job: ("scontrol", "requeue", job),
    lambda _, job: ("scontrol", "requeuehold", job),
    lambda _, job: ("scontrol", "suspend", job),
    lambda _, job: ("scontrol", "resume", job),
    lambda rng, job: _updated(job, f"JobName={rng.choice(_TEXTS)}"),
    lambda rng, job: _updated(job, f"Comment={rng.choice(_TEXTS)}"),
    lambda rng, job: _updated(job, f"AdminComment={rng.choice(_TEXTS)}"),
    lambda rng, job: _updated(job, f"TimeLimit={rng.choice(_TIMES)}"),
    lambda rng, job: _updated(job, f"NumNodes={rng.choice('12')}"),
    lambda rng, job: _updated(job, f"Priority={rng.choice(['0', '1', '4294967294'])}"),
    lambda _, job: _updated(job, "Requeue=1"),
)


class Watched:
    """The processes under attack: their ids, and what memory they need."""

    def __init__(self, servers: LocalServers, names: Sequence[str], region: Region) -> None:
        self._servers, self._names, self._region = servers, names, region
        self.before, self.warm = self.pids(), dict[str, float]()

    def pids(self) -> dict[str, int]:
        """Of those that live."""
        found = {name: self._servers.pid(name) for name in self._names}
        beside = self._region.between
        return found | ({"slurm": beside.pid} if beside.poll() is None else {})

    def mib(self) -> dict[str, float]:
        """Resident memory."""
        return {
            name: psutil.Process(pid).memory_info().rss / 2**20 for name, pid in self.pids().items()
        }

    def growth_mib(self) -> dict[str, int]:
        """Since they were warm."""
        return {name: round(mib - self.warm.get(name, mib)) for name, mib in self.mib().items()}


def completions(region: Region) -> list[dict[str, Any]]:
    """What the plugin has sent up to now."""
    with Reader(region.deployment, region.deployment.topics.partitions(_TOPIC)) as reader:
        texts = [(record.value or b"").decode(errors="replace") for record in reader.to_end()]
    return [json.loads(text, strict=False) for text in texts]


def wrong(region: Region, users: Users) -> Iterator[str]:
    """Honest jobs of which something is missing, and runs without an end."""
    events = [each.payload for each in KafkaTopics(region.deployment).topic("jobs.events")]
    told = [each for each in events if isinstance(each, JobSubmitted | JobFinished)]
    ended: defaultdict[str, set[str]] = defaultdict(set)
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for each in told:
        number = each.job_id.split("/")[2]
        kinds[number].add(type(each).__name__)
        if isinstance(each, JobFinished) and each.started_at_us:
            ended[number].add(each.job_id)
            if each.grant and each.outcome == JOB_OUTCOME_COMPLETED:
                kinds[number].add("completed")
    for job, name in users.good.items():
        # A run that is over before the next look has an end alone, which says when it began.
        if missing := {"JobSubmitted", "completed"} - kinds[str(job)]:
            yield f"{name} ({job}) lacks {missing}"
    for number, ran in _runs(region).items():
        if len(ended[number]) < len(ran):
            yield f"job {number} ran as {sorted(ran)} and ended as {sorted(ended[number])}"


def _runs(region: Region) -> dict[str, set[str]]:
    """The runs of each job, by its submission and its start: a job that is requeued while it
    completes has two records of one run."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for record in filter(_has_run, completions(region)):
        found[_number(record)].add(f"{record.get('@submit')} {record.get('@start')}")
    return found


def _has_run(record: dict[str, Any]) -> bool:
    return bool(record.get("nodes")) and record.get("state") in _RUNS and not record["het_job_id"]


def _number(record: dict[str, Any]) -> str:
    array, task = record.get("array_job_id"), record.get("array_task_id")
    return f"{array}_{task}" if array and task is not None else str(record["jobid"])


def attack(records: int, seed: int, folder: Path, root: Path, stack: ExitStack) -> int:
    """Print what came of it; 1 where something was lost, ended or grew."""
    servers = stack.enter_context(LocalServers(folder / "run"))
    home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=root / "tmp")))
    inside = Path("/", home.relative_to(root))
    (home / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    (home / "kafka.conf").write_text(f"bootstrap.servers={servers.kafka_bootstrap}\n")
    more = _CONF.format(folder=inside, topic=f"slurm.{_TOPIC}")
    slurm = stack.enter_context(LocalSlurm(home, root, more))
    os.environ |= {name: slurm.environment[name] for name in ("SLURM_CONF", "PATH")}
    region = Region(servers, slurm)
    programs = [*region.programs(), region.jobcomp()]
    servers.start(programs)
    region.start()
    stack.callback(region.kill)
    region.until(lambda: "alpha" in region.ask("clusters"), "the cluster")
    watched, users = Watched(servers, [each.name for each in programs], region), Users(region, seed)
    began_s, sent = time.monotonic(), 0
    with ThreadPoolExecutor(_USERS) as pool:
        acting = [pool.submit(users.act, user) for user in range(_USERS)]
        try:
            while (done := users.taken + sent) < records:
                if not watched.warm and done >= records * _WARM_PART:
                    watched.warm = watched.mib()
                print(f"{users.taken} taken, {sent} completions, {watched.mib()}", flush=True)
                time.sleep(_LOOKS_EVERY_S)
                sent = len(completions(region))
        finally:
            users.is_over = True
        for each in acting:
            each.result()
    users.leave()
    until_s = time.monotonic() + _WITHIN_S
    while (problems := list(wrong(region, users))) and time.monotonic() < until_s:
        time.sleep(5)
    now, grown = watched.pids(), watched.growth_mib()
    print(f"{users.taken} taken and {len(completions(region))} completions", end=" ")
    print(f"in {time.monotonic() - began_s:.0f} s: {dict(users.counts)}")
    print(f"{len(users.good)} honest jobs, wrong: {problems[:10]}; grown by MiB: {grown}")
    ended = [name for name, pid in watched.before.items() if now.get(name) != pid]
    print(f"processes that ended: {ended}")
    is_good = not problems and not ended and max(grown.values()) < _MOST_GROWTH_MIB
    return 0 if is_good else 1


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        root = built_slurm("24.11")
        return attack(arguments.records, arguments.seed, folder, root, stack)


if __name__ == "__main__":
    sys.exit(main())
