"""`make e2e-slurm`: jobs of every kind under Coplace and under plain Slurm, side by side: the same
lines at the same seconds on two Slurms of one machine, each with slurmdbd, MariaDB and eight slurmd.

A seed fails where a job did not run once, where it may, when it may; where a node was idle for long
beside a job that it fits; and where charges differ from Slurm's accounts.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Final, NamedTuple

from deploy.local.kafka.broker import KAFKA
from deploy.local.servers import LocalServers
from lab.benchmarks.by_turns.__main__ import interval
from tests.slurm.lines import drawn
from tests.slurm.play import Play
from tests.slurm.site import CLUSTERS, accounting_slurm, reserve
from tests.slurm.verdict import MOST_HELD_SHARE, MOST_WASTED_S, Outcome
from tests.support.accounts_region import AccountsRegion
from tests.support.slurm_accounting import AccountingSlurm
from tests.support.slurm_region import Region, connected
from tests.support.snippets import REPOSITORY

_KILL_EVERY_S: Final = 20.0
# As the process has them by itself.
_DEFAULTS: Final = {
    "COPLACE_SLURM_LOOKS_EVERY_S": "1",
    "COPLACE_SLURM_IDLE_LOOKS_EVERY_S": "3",
    "COPLACE_SLURM_NODES_EVERY_S": "15",
    "COPLACE_SLURM_DECLARES_EVERY_S": "60",
}


class SeedResult(NamedTuple):
    """What one seed showed: Coplace's makespan and mean wait as parts of plain Slurm's."""

    makespan_ratio: float
    wait_ratio: float
    problems: Sequence[str]


def played(given: argparse.Namespace, seed: int, root: Path | None) -> SeedResult:
    """Play the lines of a seed on both."""
    lines = drawn(Random(seed), given.jobs, given.over_s, given.longest_s, is_full=True)
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
        region = stack.enter_context(connected(servers, slurm, namespace, CLUSTERS, **_DEFAULTS))
        pricing = region.pricing()
        servers.start([pricing])
        stack.callback(servers.remove, [pricing])
        region.until(region.is_ready, "the clusters")
        print(region.ask("policy", "set", f"order={given.order}", "--reason", "as Slurm has it"))
        for each in (plain, slurm):
            prepare(each)
        region.until(lambda: "kept" in region.ask("reservation", "list"), "the reservation")
        accounts = AccountsRegion(servers, slurm, namespace)
        plays = (
            Play(plain, lines, lambda number: plain.say("scontrol", "release", str(number))),
            Play(slurm, lines, lambda number: region.ask("release", region.id_of(number))),
        )
        kills = list(_kills(servers, slurm, region, namespace)) if given.kills else []
        run_both(plays, given.over_s + given.within_s, kills)
        return judged(Outcome(plays[0]), Outcome(plays[1]), accounts, is_killed=bool(kills))


def prepare(slurm: AccountingSlurm) -> None:
    """Make what lines ask for beside nodes."""
    reserve(slurm)
    slurm.run("sacctmgr", "-i", "add", "qos", "short")
    slurm.run("sacctmgr", "-i", "modify", "user", "root", "set", "qos+=short")


def run_both(
    plays: Sequence[Play], within_s: float, kills: Sequence[tuple[str, Callable[[], object]]]
) -> None:
    """Run plays at once, and end things hard meanwhile."""
    begin_s = time.monotonic() + 1.0
    threads = [threading.Thread(target=play.run, args=(begin_s, within_s)) for play in plays]
    for each in threads:
        each.start()
    at = 0
    while any(each.is_alive() for each in threads):
        time.sleep(_KILL_EVERY_S if kills else 1.0)
        if kills and threads[-1].is_alive():
            name, kill = kills[at % len(kills)]
            print(f"{time.monotonic() - begin_s:.0f} s: kill {name}", flush=True)
            kill()
            at += 1


def _kills(
    servers: LocalServers, slurm: AccountingSlurm, region: Region, namespace: str
) -> Iterator[tuple[str, Callable[[], object]]]:
    def again() -> None:
        region.kill()
        region.start(CLUSTERS, **_DEFAULTS)

    yield "the process slurm", again
    for name in ("ingest", "placement", "watch", "pricing"):
        yield name, lambda name=name: servers.kill(f"{namespace}-{name}")  # type: ignore[misc]
    yield KAFKA, lambda: servers.kill(KAFKA)
    for program in ("slurmctld", "slurmdbd", "slurmd"):
        yield program, lambda program=program: slurm.kill(program)  # type: ignore[misc]


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
        if not own.lines[place].cancel_s
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
    """Return what charges and accounts do not agree on."""
    deadline_s = time.monotonic() + within_s
    while True:
        code, left = accounts.reconcile()
        if code == 0 or time.monotonic() > deadline_s:
            break
        time.sleep(2.0)
    in_accounts, charged = accounts.core_s()
    print(f"{in_accounts:g} core s in Slurm's accounts, {charged:g} charged")
    return [f"charge: {each}" for each in left]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--over-s", type=float, default=240.0, help="they are submitted over")
    parser.add_argument("--within-s", type=float, default=400.0, help="and have ended by, behind")
    parser.add_argument("--longest-s", type=int, default=10, help="the longest job")
    parser.add_argument("--order", default="manager", help="Coplace's setting of the policy")
    parser.add_argument("--kills", action="store_true", help="end everything hard in turn")
    parser.add_argument("--slurm", choices=("22.05", "24.11"), default="22.05")
    given = parser.parse_args()
    root = None
    if given.slurm == "24.11":
        script = REPOSITORY / "deploy" / "build-slurm.sh"
        built = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=True)
        root = Path(built.stdout.strip())
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
