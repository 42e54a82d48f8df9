"""`make e2e-slurm`: jobs of every kind under Coplace and under plain Slurm, side by side: the same
lines at the same seconds on two Slurms of one machine, each with slurmdbd, MariaDB, eight slurmd.

A seed fails where a job did not run once, where it may, when it may; where a node was idle for long
beside a job that it fits; and where charges differ from Slurm's accounts.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Final, NamedTuple

from deploy.local.kafka.broker import KAFKA
from deploy.local.servers import LocalServers
from lab.benchmarks.by_turns.__main__ import interval
from tests.slurm.lines import drawn
from tests.slurm.play import Play, run_all
from tests.slurm.site import CLUSTERS, accounting_slurm, reserve
from tests.slurm.verdict import MOST_HELD_SHARE, MOST_WASTED_S, Outcome
from tests.support.accounts_region import AccountsRegion
from tests.support.slurm import BUILT, built_slurm
from tests.support.slurm_accounting import AccountingSlurm
from tests.support.slurm_region import DEFAULTS, Region, connected

_KILL_EVERY_S: Final = 20.0
_SERVICES: Final = ("ingest", "placement", "watch", "pricing")
_DAEMONS: Final = ("slurmctld", "slurmdbd", "slurmd")


class SeedResult(NamedTuple):
    """What one seed showed: Coplace's makespan and mean wait as parts of plain Slurm's."""

    makespan_ratio: float
    wait_ratio: float
    problems: Sequence[str]


def played(given: argparse.Namespace, seed: int, root: Path | None) -> SeedResult:
    """Play the lines of a seed on both."""
    lines = drawn(Random(seed), given.jobs, given.over_s, given.longest_s, is_full=True)
    if given.no_het:
        lines = [replace(line, beside="") for line in lines]
    if given.on_one_node:
        lines = [replace(line, nodes=max(line.nodes, 1)) for line in lines]
    with ExitStack() as stack:
        within = str(root / "tmp") if root else None
        folders = [
            Path(stack.enter_context(tempfile.TemporaryDirectory(dir=within))) for _ in range(2)
        ]
        servers = stack.enter_context(
            LocalServers(Path(stack.enter_context(tempfile.TemporaryDirectory()), "run"))
        )
        plain = stack.enter_context(accounting_slurm(folders[0], root, holds=False))
        slurm = accounting_slurm(folders[1], root, holds=True)
        namespace = f"e2e-slurm-{seed}"
        region = stack.enter_context(connected(servers, slurm, namespace, CLUSTERS, **DEFAULTS))
        pricing = region.pricing()
        servers.start([pricing])
        stack.callback(servers.remove, [pricing])
        region.until(region.is_ready, "the clusters")
        rules = f"order={given.order}", *given.policy
        print(region.ask("policy", "set", *rules, "--reason", "as Slurm has it"))
        for each in (plain, slurm):
            prepare(each)
        region.until(lambda: "kept" in region.ask("reservation", "list"), "the reservation")
        accounts = AccountsRegion(servers, slurm, namespace, region.ingest)
        plays = Play(plain, lines, plain.release), Play(slurm, lines, region.release)
        kills = Kills(servers, (plain, slurm), region, namespace)
        run_all(plays, given.over_s + given.within_s, kills if given.kills else int)
        if given.keep:
            for each, name in ((plain, "plain"), (slurm, "coplace")):
                keep(each, given.keep / f"{seed}-{name}")
            shutil.copytree(servers.run_dir / "log", given.keep / f"{seed}-services")
            (given.keep / f"{seed}-services" / "inputs.jsonl").write_text(accounts.record())
        alone, own = (Outcome(play, kills.of_slurmctld_s) for play in plays)
        return judged(alone, own, accounts, is_killed=given.kills)


def prepare(slurm: AccountingSlurm) -> None:
    """Make what lines ask for beside nodes."""
    reserve(slurm)
    slurm.run("sacctmgr", "-i", "add", "qos", "short")
    slurm.run("sacctmgr", "-i", "modify", "user", "root", "set", "qos+=short")


def keep(slurm: AccountingSlurm, folder: Path) -> None:
    """Keep what a Slurm and what is beside it noted, and its accounts."""
    folder.mkdir(parents=True)
    for file in (*slurm.folder.glob("*.log"), slurm.folder / "journal"):
        shutil.copy(file, folder)
    options = ("--allusers", "--duplicates", "--allocations", "--starttime=now-1hour")
    columns = "--format=jobid,submit,eligible,start,end,suspended,alloccpus,nodelist,state,qos"
    (folder / "sacct").write_text(slurm.say("sacct", *options, "--parsable2", columns))


class Kills:
    """Ends things hard in turn, each some time behind the one before, and daemons of Slurm on both:
    what plain Slurm does then is the control."""

    def __init__(
        self,
        servers: LocalServers,
        slurms: Sequence[AccountingSlurm],
        region: Region,
        namespace: str,
    ) -> None:
        names = (*(f"{namespace}-{each}" for each in _SERVICES), KAFKA)
        kills: list[tuple[str, Callable[[], object]]] = [
            ("the process slurm", partial(self._again, region)),
            *((name, partial(servers.kill, name)) for name in names),
            *((name, partial(self._kill, name)) for name in _DAEMONS),
        ]
        self._turn = cycle(kills)
        self._slurms = slurms
        # In seconds since 1970.
        self.of_slurmctld_s: list[float] = []
        self._next_s = time.monotonic() + _KILL_EVERY_S

    def __call__(self) -> None:
        """End the next, if it is time."""
        if time.monotonic() >= self._next_s:
            name, kill = next(self._turn)
            print(f"kill {name}", flush=True)
            self._resume()
            kill()
            self._next_s = time.monotonic() + _KILL_EVERY_S

    def _resume(self) -> None:
        """As an operator would: Slurm drains a node to which it sent a job again after a kill."""
        for slurm in self._slurms:
            for node in slurm.names:
                with suppress(AssertionError, subprocess.TimeoutExpired):  # it is not drained
                    slurm.say("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def _kill(self, daemon: str) -> None:
        for slurm in self._slurms:
            if daemon == "slurmctld":
                self.of_slurmctld_s.append(time.time())
            slurm.kill(daemon)

    def _again(self, region: Region) -> None:
        region.kill()
        region.start(CLUSTERS, **DEFAULTS)


def judged(
    plain: Outcome, own: Outcome, accounts: AccountsRegion, *, is_killed: bool
) -> SeedResult:
    """Compare both, and say what is wrong."""
    print(f"plain:   {plain.summary()}\nCoplace: {own.summary()}")
    print(*(f"plain:   {each}" for each in plain.wrong()), sep="\n")
    problems = list(own.wrong())
    missing = plain.began - own.began
    problems += [
        f"line {place} ({own.lines[place].kind}) ran under plain Slurm alone"
        for place in sorted(missing)
        if not own.lines[place].cancel_s and not own.is_lost(place)
    ]
    held = {job.number for job in own.jobs if not job.is_over}
    if len(held) > MOST_HELD_SHARE * len(own.lines):
        problems.append(f"{len(held)} jobs were left")
    wasted_s = own.watcher.longest_wasted_s
    if not is_killed and wasted_s > MOST_WASTED_S:
        problems.append(f"a node was idle for {wasted_s:.1f} s beside a job that it fits")
    problems += reconciled(accounts)
    of_plain, of_own = plain.waits_s(), own.waits_s()
    both = of_plain.keys() & of_own.keys()
    waits = [fmean(of[key] for key in both) for of in (of_plain, of_own)]
    print(f"{len(both)} waits in both: plain {waits[0]:.2f} s, Coplace {waits[1]:.2f} s")
    return SeedResult(own.makespan_s / plain.makespan_s, waits[1] / waits[0], problems)


def reconciled(accounts: AccountsRegion, within_s: float = 60.0) -> list[str]:
    """Return what charges and accounts do not agree on, once what was not seen was caught up."""
    before = _differences(accounts, within_s)
    print(f"charges other than Slurm's accounts: {len(before)}", *before, sep="\n  ")
    if not before:
        return []
    print("caught up, and refused: {} {}".format(*accounts.catch_up()))
    return [f"charge: {each}" for each in _differences(accounts, within_s)]


def _differences(accounts: AccountsRegion, within_s: float) -> list[str]:
    deadline_s = time.monotonic() + within_s
    while True:
        _, left = accounts.reconcile()
        if not left or time.monotonic() > deadline_s:
            return left
        time.sleep(2.0)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--over-s", type=float, default=240.0, help="they are submitted over")
    parser.add_argument("--within-s", type=float, default=400.0, help="and have ended by, behind")
    parser.add_argument("--longest-s", type=int, default=10, help="the longest job")
    parser.add_argument("--order", default="manager", help="Coplace's setting of the policy")
    parser.add_argument("--policy", nargs="*", default=[], help="more of them: discipline=slurm")
    parser.add_argument("--no-het", action="store_true", help="their first parts alone")
    parser.add_argument("--on-one-node", action="store_true", help="all that ask for no number")
    parser.add_argument("--kills", action="store_true", help="end everything hard in turn")
    parser.add_argument("--keep", type=Path, help="a folder for logs, accounts, inputs")
    parser.add_argument("--slurm", choices=("22.05", *BUILT), default="22.05")
    given = parser.parse_args()
    root = built_slurm(given.slurm) if given.slurm in BUILT else None
    found = {}
    for seed in given.seeds:
        print(f"seed {seed}: {given.jobs} jobs on Slurm {given.slurm}", flush=True)
        found[seed] = played(given, seed, root)
        print(*found[seed].problems, sep="\n", flush=True)
    for seed, result in found.items():
        print(
            f"seed {seed}: makespan {result.makespan_ratio:.3f} of plain Slurm's, mean wait "
            f"{result.wait_ratio:.3f}, {len(result.problems)} problems"
        )
    if len(found) > 1:
        for name in ("makespan_ratio", "wait_ratio"):
            low, mean, high = interval([getattr(result, name) for result in found.values()])
            print(f"{name}: {mean:.3f} [{low:.3f}, {high:.3f}]")
    return 1 if any(result.problems for result in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
