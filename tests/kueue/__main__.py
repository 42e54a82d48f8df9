"""Workloads of six kinds in a real Kueue, by turns without a check, with one that answers at once,
and with Coplace's.

    python -m tests.kueue --programs FOLDER --kueue FOLDER --jobs 100

The API server, its Job controller and scheduler, Kueue, Kafka and Coplace are real. Nodes are
simulated, and so are the operators of JobSets and PyTorchJobs. It says how long Workloads waited,
that each ran once, and whether charges equal what the nodes saw; 1 where something is wrong.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

import yaml
from coplace.v1.pricing_pb2 import ChargeMade

from cli.kafka_topics import KafkaTopics
from cli.stages import create_topics
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from lab.benchmarks.kubernetes.cluster import call
from shared.kubernetes.objects import time_us
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.kueue.cluster import NAMESPACE, KueueCluster
from tests.kueue.control import control
from tests.kueue.kinds import definitions
from tests.kueue.kubelets import KueueKubelets
from tests.kueue.operators import Operators
from tests.kueue.report import print_all, print_round
from tests.kueue.rounds import Admissions, Player, Round, name_in
from tests.kueue.ways_out import release, silence

_QUEUES: Final = ("plain", "control", "coplace")
_DEPLOYMENT: Final = "kueue"
_CORES: Final = 16
_TRAITS: Final = {
    "node_model": "gold-6254",
    "pstates_ghz": [1.2, 2.0, 3.1],
    "idle_power_w": 110,
    "peak_bandwidth_gbps": 140,
}
_CHARGES: Final = "prices.charges"


def programs(cluster: KueueCluster, folder: Path) -> list[Program]:
    """Return ingest, placement, pricing and the adapter."""
    told = [{"name": cluster.name, "kubeconfig": str(cluster.kubeconfig()), **_TRAITS}]
    (folder / "clusters.yaml").write_text(yaml.safe_dump({"clusters": told}))
    ports = free_ports(6)
    environment = {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COPLACE_NAMESPACE": _DEPLOYMENT,
        "COPLACE_KAFKA_PARTITIONS": "2",
        "COPLACE_SESSION_TIMEOUT_S": "120",
        "COPLACE_INGEST_PORT": str(ports[0]),
        "COPLACE_PLACEMENT_PORT": str(ports[1]),
        "COPLACE_PRICING_GRACE_S": "0",
        "COPLACE_KUEUE_SITE": "north",
        "COPLACE_KUEUE_DEFAULT_WALLTIME_S": "600",
        "COPLACE_KUEUE_CLUSTERS_FILE": str(folder / "clusters.yaml"),
        "COPLACE_KUEUE_INGEST_ADDRESS": f"127.0.0.1:{ports[0]}",
        "COPLACE_KUEUE_PLACEMENT_ADDRESS": f"127.0.0.1:{ports[1]}",
    }
    return [
        Program(
            name,
            [sys.executable, "-m", f"services.{name}"],
            {**environment, "COPLACE_HTTP_PORT": str(port)},
            f"http://127.0.0.1:{port}/readyz",
        )
        for name, port in zip(("ingest", "placement", "pricing", "kueue"), ports[2:], strict=True)
    ]


def charged(deployment: Deployment, kubelets: KueueKubelets, found: Round) -> int:
    """Print how charges differ from what the nodes saw; how many differ. What Coplace has no say on
    is charged nothing."""
    runs: dict[str, list[float]] = {}
    for each in KafkaTopics(deployment).topic(_CHARGES):
        if isinstance(each.payload, ChargeMade):
            runs.setdefault(name_in(each.payload.job_id), []).append(each.payload.runtime_s)
    wrong = 0
    for name in found.wait_s:
        ready, ended = kubelets.ready[name], kubelets.ended.get(name, {})
        real = (time_us(max(ended.values())) - time_us(max(ready.values()))) / 1e6 if ended else 0
        told = runs.get(name, [])
        is_its = found.queue in ("coplace", "silence") or (found.queue == "release" and told)
        if told != ([real] if is_its else []):
            wrong += 1
            print(f"{name}, a {found.submitted[name][0].kind}: ran {real} s, charged {told}")
    print(f"{found.queue}: charges other than what ran: {wrong} of {len(found.wait_s)}")
    return wrong


async def play(arguments: argparse.Namespace, folder: Path, stack: ExitStack) -> int:
    """Play rounds by turns."""
    cluster = stack.enter_context(
        KueueCluster("alpha", folder / "alpha", arguments.programs, True, kueue=arguments.kueue)
    )
    servers = stack.enter_context(LocalServers(folder / "servers", redis=False))
    settings = Settings(
        kafka_bootstrap=servers.kafka_bootstrap, namespace=_DEPLOYMENT, kafka_partitions=2
    )
    deployment = Deployment.from_settings(settings)
    create_topics(deployment)
    await cluster.wait()
    await cluster.install(list(definitions()))
    await cluster.nodes(arguments.nodes, _CORES)
    quota = arguments.nodes * _CORES
    await cluster.queue("plain", quota=quota)
    await cluster.queue("control", "control", quota)
    for name in ("coplace", "silence", "release"):
        await cluster.queue(name, "placement", quota)
    player, own = Player(cluster, KueueKubelets(cluster), Admissions()), programs(cluster, folder)
    async with asyncio.TaskGroup() as tasks:
        playing = [
            tasks.create_task(player.kubelets.run()),
            tasks.create_task(Operators(cluster).run()),
            tasks.create_task(player.admissions.run(cluster)),
            tasks.create_task(control(cluster)),
        ]
        await asyncio.to_thread(servers.start, own)
        rounds = [await _played(player, servers, arguments, at) for at in _turns(arguments)]
        print_all(rounds)
        others = []
        if arguments.ways_out:
            others = [await way(player, servers, own) for way in (silence, release)]
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True, help="of Kubernetes")
    parser.add_argument("--kueue", type=Path, required=True, help="its program and sources")
    parser.add_argument("--jobs", type=int, default=100, help="in each queue")
    parser.add_argument("--rate", type=float, default=5.0, help="Jobs a second")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--run-s", type=float, default=5.0, help="of a Job, in the mean")
    parser.add_argument("--within-s", type=float, default=600.0)
    parser.add_argument("--kills", type=int, default=0, help="in each round of Coplace")
    parser.add_argument(
        "--ways-out", action="store_true", help="then be silent, and be uninstalled"
    )
    parser.add_argument(
        "--turns", nargs="+", choices=_QUEUES, default=_QUEUES, help="then the other way round"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for logs")
    arguments = parser.parse_args()
    os.environ["PATH"] = f"{arguments.programs}{os.pathsep}{os.environ['PATH']}"
    with ExitStack() as stack:
        folder = arguments.keep
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kueue-")))
        return asyncio.run(play(arguments, folder, stack))


if __name__ == "__main__":
    sys.exit(main())
