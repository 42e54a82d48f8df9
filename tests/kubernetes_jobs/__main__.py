"""Figures of the adapter that the chart installs, on a real API server with simulated nodes.

    python -m tests.kubernetes_jobs waits --jobs 100
    python -m tests.kubernetes_jobs kills --jobs 400 --kills 100
    python -m tests.kubernetes_jobs memory --jobs 10000 --nodes 5000

`waits` is from the creation of a Job to its first pod on a node, by turns with the queue's label
and without, with the time of each step. `kills` kills the adapter and the API server (kill -9) at
random moments; 1 unless each Job was started once and its charge is what the nodes saw. `memory` is
that of the adapter, with its calls.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import psutil
from aiohttp import ClientError

from lab.benchmarks.kubernetes.cluster import CallError, call
from services.kubernetes.model.names import QUEUE_NAME
from shared.kubernetes.objects import mapping_of
from tests.kubernetes_jobs.installed import JOBS, InstalledAdapter, is_complete, user_job
from tests.kubernetes_jobs.kubelets import FOR_EVER, persistent
from tests.kubernetes_jobs.timeline import requests_of, table

_AT_REST_S: Final = 120.0
_FREE: Final = {
    "metadata": {"labels": {QUEUE_NAME: None}},
    "spec": {"suspend": False},
}


def waits(arguments: argparse.Namespace, installed: InstalledAdapter) -> int:
    """Print how long Jobs waited for their first pod, by turns without the label and with it."""
    found: dict[str, list[float]] = {"plain": [], "queue": []}
    submitted: list[Mapping[str, float]] = []
    calls = _calls(installed)
    for turn, kind in enumerate(("plain", "queue", "queue", "plain")):
        patch = _FREE if kind == "plain" else {}
        names = [f"{kind}{turn}-{number:03}" for number in range(arguments.jobs)]
        before_s = _cpu_s(installed)
        asked_s = asyncio.run(
            installed.submit(*(user_job(name, "1", 3, **patch) for name in names))
        )
        asyncio.run(installed.complete(*names, within_s=arguments.within_s))
        begun_s = installed.kubelets["alpha"].begun_s
        waited = sorted(begun_s[name] - asked_s[name] for name in names)
        found[kind] += waited
        submitted.append(asked_s)
        cpu_ms = (_cpu_s(installed) - before_s) / arguments.jobs * 1e3
        words = f"adapter {cpu_ms:.0f} ms of CPU a Job; load {os.getloadavg()[0]:.1f}"
        print(f"turn {turn}, {kind}: {_quantiles(waited)}; {words}", flush=True)
    more, all_jobs = _calls(installed) - calls, 2 * arguments.jobs
    words = ", ".join(f"{kind} {count / all_jobs:.1f}" for kind, count in more.most_common())
    print(f"the adapter asks for, a Job: {words}")
    for asked_s in submitted[1:3]:
        print(f"with the label, after their creation:\n{table(installed, asked_s)}")
    both = {kind: _quantile(sorted(times), 0.99) for kind, times in found.items()}
    for kind, times in found.items():
        print(f"{kind}: {_quantiles(sorted(times))}")
    print(f"the label costs {both['queue'] - both['plain']:.2f} s at p99")
    return 0


def _cpu_s(installed: InstalledAdapter) -> float:
    """Return what CPU time the adapters have taken, s."""
    pids = [installed.servers.pid(name) for name in installed.names]
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def _quantiles(ordered: Sequence[float]) -> str:
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "most": 1.0}
    words = ", ".join(f"{name} {_quantile(ordered, at):.2f} s" for name, at in shares.items())
    return f"{words}, mean {statistics.fmean(ordered):.2f} s of {len(ordered)}"


def kills(arguments: argparse.Namespace, installed: InstalledAdapter) -> int:
    """Print what became of Jobs while processes were killed; 1 where one did not run once."""
    rng = Random(arguments.seed)
    names = [f"kill-{number:04}" for number in range(arguments.jobs)]

    async def play() -> None:
        pause_s = arguments.every_s * arguments.kills / arguments.jobs
        submitting = asyncio.create_task(_submit(installed, names, rng, pause_s))
        killed = await _kill(installed, rng, arguments.kills, arguments.every_s)
        print(f"killed: {dict(killed)}; load {os.getloadavg()[0]:.1f}", flush=True)
        await submitting
        await _until_complete(installed, frozenset(names), arguments.within_s)
        await asyncio.sleep(10)  # prices follow ends

    asyncio.run(play())
    own, charges = installed.kubelets["alpha"], installed.charges()
    ran = Counter(len(own.ready[name]) for name in names)
    wrong = [name for name in names if charges.get(name) != [own.run_s(name, 1)]]
    starts = Counter(_starts(installed).values())
    print(f"Jobs: {len(names)}; by how often each was started: {dict(starts)}")
    print(f"by how many pods ever ran of each: {dict(ran)}")
    for name in wrong[:20]:
        print(f"{name}: ran {own.run_s(name, 1)} s, charged {charges.get(name)}")
    print(f"charged other than what the nodes saw: {len(wrong)}")
    return 0 if starts == {1: len(names)} and not wrong else 1


def _starts(installed: InstalledAdapter) -> Counter[str]:
    """Count how often the adapter let each Job run. One that has two pods all the same has them of
    the Job controller, which creates another where the answer on the first was lost."""
    asked = (each for each in requests_of(installed) if each.kind == "patch jobs" and each.is_done)
    bodies = ((each.name, mapping_of(each.body.get("spec"))) for each in asked)
    return Counter(name for name, spec in bodies if spec.get("suspend") is False)


async def _submit(
    installed: InstalledAdapter, names: Sequence[str], rng: Random, pause_s: float
) -> None:
    """Create Jobs one by one, over the ends of the API server."""
    async with installed.clusters["alpha"].client() as client:
        for name in names:
            body = user_job(name, "1", rng.choice((1, 3, 6)))
            try:
                await persistent(client, "POST", JOBS, body)
            except CallError as error:
                if "already exists" not in str(error):  # the answer was lost
                    raise
            await asyncio.sleep(pause_s)


async def _kill(
    installed: InstalledAdapter, rng: Random, kills: int, every_s: float
) -> Counter[str]:
    """Kill what is drawn at random moments; returns how often what was killed."""
    found: Counter[str] = Counter()
    while found.total() < kills:
        await asyncio.sleep(rng.uniform(0.2, 2 * every_s - 0.2))
        who = rng.choice((*installed.names, "the API server"))
        if who == "the API server":
            await asyncio.to_thread(installed.clusters["alpha"].restart_api)
        elif installed.servers.pid(who):
            await asyncio.to_thread(installed.servers.kill, who)
        else:  # it has not begun again
            continue
        found[who] += 1
    return found


async def _until_complete(
    installed: InstalledAdapter, names: frozenset[str], within_s: float
) -> None:
    deadline_s = time.monotonic() + within_s
    complete = set[str]()
    while time.monotonic() < deadline_s and not names <= complete:
        await asyncio.sleep(2)
        with suppress(CallError, ClientError, OSError):
            told = (await call(installed.clusters["alpha"], "GET", JOBS))["items"]
            complete = {each["metadata"]["name"] for each in told if is_complete(each)}
    if left := names - complete:
        print(f"not complete: {sorted(left)}")


def memory(arguments: argparse.Namespace, installed: InstalledAdapter) -> int:
    """Print the adapter's memory with no Job, with all, and its calls a minute then."""
    [name] = installed.names
    print(f"with no Job: {_memory(installed, name)}", flush=True)
    cpu = str(installed.cores)
    jobs = (user_job(f"many-{number:05}", cpu, FOR_EVER) for number in range(arguments.jobs))
    began_s = time.monotonic()
    asyncio.run(installed.submit(*jobs))
    print(
        f"submitted in {time.monotonic() - began_s:.0f} s: {_memory(installed, name)}", flush=True
    )
    own, least = installed.kubelets["alpha"], min(arguments.jobs, arguments.nodes)
    deadline_s = time.monotonic() + arguments.within_s
    while len(own.begun_s) < least and time.monotonic() < deadline_s:
        time.sleep(5)
    took_s = time.monotonic() - began_s
    print(f"{len(own.begun_s)} run after {took_s:.0f} s: {_memory(installed, name)}", flush=True)
    calls = _calls(installed)
    print(f"calls so far: {calls.total()}: {dict(calls.most_common())}")
    time.sleep(_AT_REST_S)
    more = _calls(installed) - calls
    print(f"at rest: {more.total() / _AT_REST_S * 60:.0f} calls a minute: {dict(more)}")
    print(f"at rest: {_memory(installed, name)}; load {os.getloadavg()[0]:.1f}")
    installed.servers.restart(name, None)
    installed.servers.wait_ready(name, 300)
    time.sleep(20)
    print(f"after a restart with all of it there: {_memory(installed, name)}")
    return 0


def _memory(installed: InstalledAdapter, name: str) -> str:
    process = psutil.Process(installed.servers.pid(name))
    told = dict(
        line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
    )
    most = int(told["VmHWM"].split()[0]) / 1024
    return f"{process.memory_info().rss / 2**20:.0f} MiB (most {most:.0f})"


def _calls(installed: InstalledAdapter) -> Counter[str]:
    """Count what the adapter asked for, by verb and resource."""
    return Counter(each.kind for each in requests_of(installed))


_PLAYS: Final = {"waits": waits, "kills": kills, "memory": memory}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("play", choices=_PLAYS)
    parser.add_argument("--programs", type=Path, required=True, help="of Kubernetes")
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--adapters", type=int, default=1)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--every-s", type=float, default=4.0, help="between kills, in the mean")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within-s", type=float, default=900.0)
    parser.add_argument("--keep", type=Path, help="a folder for logs")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = arguments.keep
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jobs-")))
        nodes: dict[str, int] = {"alpha": arguments.nodes}
        installed: Any = InstalledAdapter(
            folder, arguments.programs, nodes, adapters=arguments.adapters
        )
        return _PLAYS[arguments.play](arguments, stack.enter_context(installed))


if __name__ == "__main__":
    sys.exit(main())
