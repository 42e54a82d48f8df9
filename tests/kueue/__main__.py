"""Workloads of six kinds in a real Kueue, by turns without a check, with one that answers at once,
and with Coplace's.

    python -m tests.kueue --programs FOLDER --kueue FOLDER --jobs 100

The API server, its Job controller and scheduler, Kueue, Kafka and Coplace are real. Nodes are
simulated, and so are the operators of JobSets and PyTorchJobs. It says how long Workloads waited,
that each ran once, and whether charges equal what the nodes saw; 1 where something is wrong.
"""

import argparse
import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Final

from deploy.local.servers import LocalServers
from lab.benchmarks.kubernetes.cluster import call
from tests.kueue.cluster import NAMESPACE, KueueCluster
from tests.kueue.control import control
from tests.kueue.kinds import definitions
from tests.kueue.kubelets import KueueKubelets
from tests.kueue.operators import Operators
from tests.kueue.plays import play_parser, run_play
from tests.kueue.region import charged, programs, region
from tests.kueue.report import print_all, print_round
from tests.kueue.rounds import Admissions, Player, Round
from tests.kueue.ways_out import release, silence, upgrade

_QUEUES: Final = ("plain", "control", "coplace")
_CORES: Final = 16
_TRAITS: Final = {
    "node_model": "gold-6254",
    "pstates_ghz": [1.2, 2.0, 3.1],
    "idle_power_w": 110,
    "peak_bandwidth_gbps": 140,
}


async def play(arguments: argparse.Namespace, folder: Path, stack: AsyncExitStack) -> int:
    """Play rounds by turns."""
    cluster = stack.enter_context(
        KueueCluster("alpha", folder / "alpha", arguments.programs, True, kueue=arguments.kueue)
    )
    servers = stack.enter_context(LocalServers(folder / "servers", redis=False))
    deployment = region(servers)
    await cluster.wait()
    await cluster.install(list(definitions()))
    await cluster.nodes(arguments.nodes, _CORES)
    quota = arguments.nodes * _CORES
    await cluster.queue("plain", quota=quota)
    await cluster.queue("control", "control", quota=quota)
    for name in ("coplace", "silence", "upgrade", "release"):
        await cluster.queue(name, "placement", quota=quota)
    kubelets = KueueKubelets(cluster)
    player = Player(cluster, kubelets, Admissions())
    entry = {"name": cluster.name, "kubeconfig": str(cluster.kubeconfig()), **_TRAITS}
    own = programs({"clusters": [entry]}, folder)
    async with asyncio.TaskGroup() as tasks:
        playing = [
            tasks.create_task(kubelets.run()),
            tasks.create_task(Operators(cluster).run()),
            tasks.create_task(player.admissions.run(cluster)),
            tasks.create_task(control(cluster)),
        ]
        await asyncio.to_thread(servers.start, own)
        rounds = [await _played(player, servers, arguments, at) for at in _turns(arguments)]
        print_all(rounds)
        others = list[Round]()
        if arguments.ways_out:
            others.append(await silence(player, servers, own))
        if arguments.earlier:
            others.append(await upgrade(player, servers, own, arguments.earlier))
        if arguments.ways_out:
            others.append(await release(player, servers, own))
        for task in playing:
            task.cancel()
    for found in others:
        print_round(found)
    await asyncio.sleep(5)  # prices follow ends
    await _read_by_users(cluster)
    wrong = sum(charged(deployment, player.kubelets, each) for each in (*rounds, *others))
    return 1 if wrong or any(each.problems for each in (*rounds, *others)) else 0


async def _read_by_users(cluster: KueueCluster) -> None:
    """Print how many Workloads say what their run cost."""
    events = await call(cluster, "GET", f"/api/v1/namespaces/{NAMESPACE}/events")
    told = [each for each in events["items"] if each["reason"] == "Charged"]
    names = {each["involvedObject"]["name"] for each in told}
    words = told[-1]["message"] if told else ""
    print(f"{len(names)} Workloads say what they cost: {words}", flush=True)


def _turns(arguments: argparse.Namespace) -> list[tuple[int, str]]:
    """As they come, then the other way round."""
    return list(enumerate([*arguments.turns, *reversed(arguments.turns)]))


async def _played(
    player: Player, servers: LocalServers, arguments: argparse.Namespace, turn: tuple[int, str]
) -> Round:
    """Play one round; the later turn of a queue is with other Workloads than its first."""
    number, queue = turn
    killing = asyncio.create_task(kill(player, servers, arguments)) if queue == "coplace" else None
    seed = arguments.seed + number // len(arguments.turns)
    words = (arguments.jobs, arguments.rate, arguments.run_s, seed, arguments.within_s)
    found = await player.play(queue, f"{queue}{number}", *words)
    if killing is not None:
        killing.cancel()
    print_round(found)
    return found


async def kill(player: Player, servers: LocalServers, arguments: argparse.Namespace) -> None:
    """Kill the adapter or Kueue (kill -9), whichever is drawn, at random moments: after so many
    admissions."""
    rng, already = Random(arguments.seed), len(player.admissions.first_s)
    for after in sorted(rng.sample(range(1, arguments.jobs), arguments.kills)):
        least = already + after
        while len(player.admissions.first_s) < least:  # noqa: ASYNC110 as a watch has them
            await asyncio.sleep(0.1)
        who = rng.choice(("the adapter", "Kueue"))
        if who == "Kueue":
            await asyncio.to_thread(player.cluster.restart_kueue)
        else:
            await asyncio.to_thread(servers.kill, "kueue")
        print(f"killed {who} after {len(player.admissions.first_s) - already} admissions")


def main() -> int:
    """Run the command."""
    parser = play_parser(__doc__)
    parser.add_argument("--jobs", type=int, default=100, help="in each queue")
    parser.add_argument("--rate", type=float, default=5.0, help="Jobs a second")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--run-s", type=float, default=5.0, help="of a Job, in the mean")
    parser.add_argument(
        "--ways-out", action="store_true", help="then be silent, and be uninstalled"
    )
    parser.add_argument("--earlier", default="", help="a commit to be upgraded from in flight")
    parser.add_argument(
        "--turns", nargs="+", choices=_QUEUES, default=_QUEUES, help="then the other way round"
    )
    return run_play(play, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
