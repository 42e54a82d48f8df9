"""Jobs in a real Kueue with Coplace's check, beside the same Kueue without it.

    python -m tests.kueue --programs FOLDER --kueue FOLDER --jobs 100

The API server, its Job controller and scheduler, Kueue, Kafka and Coplace are real, the nodes
simulated. It says how long Jobs waited for their admission, that each ran once, and whether charges
equal what the nodes saw; 1 where something is wrong.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml
from coplace.v1.pricing_pb2 import ChargeMade

from cli.kafka_topics import KafkaTopics
from cli.stages import create_topics
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from lab.benchmarks.kubernetes.cluster import call
from services.kueue.adapters.api import RECORDS
from shared.kubernetes.api import ApiServer
from shared.kubernetes.objects import condition_of, time_us
from shared.kubernetes.reflector import reflect
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.kueue.cluster import API, NAMESPACE, KueueCluster, job
from tests.kueue.control import control
from tests.kueue.kubelets import KueueKubelets

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


async def submit(
    cluster: KueueCluster, queue: str, arguments: argparse.Namespace
) -> dict[str, float]:
    """Submit Jobs at a rate; return when each was, by its name, s since 1970."""
    rng, found = Random(arguments.seed), dict[str, float]()
    began_s = time.monotonic()
    async with cluster.client() as client:
        for number in range(arguments.jobs):
            name = f"{queue}-{number:05}"
            pods, cpu = rng.choice([(1, 1), (1, 4), (2, 2), (4, 1)])
            seconds = rng.uniform(arguments.run_s / 2, arguments.run_s * 1.5)
            body = job(name, queue, pods=pods, cpu=cpu, seconds=seconds)
            found[name] = time.time()
            await call(client, "POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", body)
            next_s = began_s + (number + 1) / arguments.rate
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))
    return found


class Admissions:
    """Watches Workloads: when each was admitted first, and how often, by the name of its Job."""

    def __init__(self) -> None:
        self.first_s: dict[str, float] = {}
        self._admitted: dict[str, str] = {}
        self.count: dict[str, int] = {}
        self.versions: dict[str, int] = {}

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Take all Workloads."""
        for each in found:
            self.changed(cluster, each)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Take a Workload that is new, or has changed."""
        name = found["metadata"]["ownerReferences"][0]["name"]
        self.versions[name] = self.versions.get(name, 0) + 1
        admitted = condition_of(found.get("status", {}), "Admitted")
        at = str(admitted["lastTransitionTime"]) if admitted else ""
        if at and self._admitted.get(name) != at:
            self.first_s.setdefault(name, time.time())
            self.count[name] = self.count.get(name, 0) + 1
            self._admitted[name] = at

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Ignore a Workload that was deleted."""


async def ended(cluster: KueueCluster, queue: str, jobs: int, within_s: float) -> bool:
    """Whether all Jobs of a queue are complete within a time, and their Workloads let go."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        told = await call(cluster, "GET", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
        own = [each for each in told["items"] if each["metadata"]["name"].startswith(queue)]
        done = [each for each in own if condition_of(each.get("status", {}), "Complete")]
        if len(done) == jobs and not await kept(cluster, queue):
            return True
        await asyncio.sleep(1)
    print(f"{queue}: {len(done)} of {jobs} complete, kept: {await kept(cluster, queue)}")
    return False


async def kept(cluster: KueueCluster, queue: str) -> list[str]:
    """The Workloads of a queue of which Coplace waits for the end."""
    told = await call(cluster, "GET", RECORDS)
    names = [str(each["spec"]["workload"]["name"]) for each in told["items"]]
    return [name for name in names if name.startswith(f"job-{queue}-")]


async def round_of(
    cluster: KueueCluster,
    queue: str,
    arguments: argparse.Namespace,
    admissions: Admissions,
) -> bool:
    """Play the Jobs through one queue, and print what came of it."""
    before, asked = cluster.cpu_s(), cluster.calls()
    at = await submit(cluster, queue, arguments)
    is_done = await ended(cluster, queue, arguments.jobs, arguments.within_s)
    used = {name: cpu_s - before[name] for name, cpu_s in cluster.cpu_s().items()}
    waits = sorted(
        admissions.first_s[name] - since for name, since in at.items() if name in admissions.first_s
    )
    again = {name for name, count in admissions.count.items() if name in at and count > 1}
    if waits:
        late = waits[int(0.95 * (len(waits) - 1))]
        words = f"admitted {len(waits)}, median {statistics.median(waits):.2f} s, p95 {late:.2f} s"
        print(f"{queue}: {words}; more than once: {len(again)}")
    writes = sum(admissions.versions[name] for name in at) / len(at)
    cpu = {name: round(cpu_s / len(at) * 1e3, 1) for name, cpu_s in used.items()}
    print(f"{queue}: versions of a Workload seen: {writes:.1f}; CPU a Job, ms: {cpu}", flush=True)
    calls = {name: round(n / len(at), 1) for name, n in (cluster.calls() - asked).items()}
    print(f"{queue}: calls of the API server a Job: {calls}", flush=True)
    return is_done and len(waits) == arguments.jobs and not again


def charged(deployment: Deployment, kubelets: KueueKubelets, queue: str) -> int:
    """Print how charges differ from what the nodes saw; how many differ."""
    runs: dict[str, list[float]] = {}
    for each in KafkaTopics(deployment).topic(_CHARGES):
        if isinstance(each.payload, ChargeMade):
            name = each.payload.job_id.split("/")[3]
            runs.setdefault(name, []).append(each.payload.runtime_s)
    wrong = 0
    for name, ready in kubelets.ready.items():
        if not name.startswith(queue):
            continue
        real = (time_us(max(kubelets.ended[name].values())) - time_us(max(ready.values()))) / 1e6
        told = [found for job_name, found in runs.items() if job_name.startswith(f"job-{name}-")]
        if told != [[real]]:
            wrong += 1
            print(f"{name}: ran {real} s, charged {told}")
    print(f"{queue}: charges of {len(runs)} Workloads, other than what ran: {wrong}")
    return wrong


async def play(arguments: argparse.Namespace, folder: Path, stack: ExitStack) -> int:
    """Play both queues by turns."""
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
    await cluster.install()
    await cluster.nodes(arguments.nodes, _CORES)
    await cluster.queue("plain")
    await cluster.queue("control", "control")
    await cluster.queue("coplace", "placement")
    kubelets, admissions = KueueKubelets(cluster), Admissions()
    async with asyncio.TaskGroup() as tasks:
        playing = [
            tasks.create_task(kubelets.run()),
            tasks.create_task(_watch(cluster, admissions)),
            tasks.create_task(control(cluster)),
        ]
        is_right = await round_of(cluster, "plain", arguments, admissions)
        is_right &= await round_of(cluster, "control", arguments, admissions)
        await asyncio.to_thread(servers.start, programs(cluster, folder))
        killing = tasks.create_task(kill(servers, admissions, arguments))
        is_right &= await round_of(cluster, "coplace", arguments, admissions)
        killing.cancel()
        for task in playing:
            task.cancel()
    await asyncio.sleep(5)  # prices follow ends
    return 0 if is_right and not charged(deployment, kubelets, "coplace") else 1


async def kill(
    servers: LocalServers, admissions: Admissions, arguments: argparse.Namespace
) -> None:
    """Kill the adapter (kill -9) whenever so many more Jobs were admitted."""
    already = len(admissions.first_s)
    for number in range(1, arguments.kills + 1):
        least = already + number * arguments.jobs // (arguments.kills + 1)
        while len(admissions.first_s) < least:  # noqa: ASYNC110 as a watch has them
            await asyncio.sleep(0.1)
        await asyncio.to_thread(servers.kill, "kueue")
        print(f"killed the adapter after {len(admissions.first_s) - already} admissions")


async def _watch(cluster: KueueCluster, admissions: Admissions) -> None:
    async with cluster.client() as client:
        api = ApiServer(cluster.name, client)
        await reflect(api, f"{API}/workloads", "", admissions, lambda: None)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True, help="of Kubernetes")
    parser.add_argument("--kueue", type=Path, required=True, help="its program and sources")
    parser.add_argument("--jobs", type=int, default=100, help="in each queue")
    parser.add_argument("--rate", type=float, default=5.0, help="Jobs a second")
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--run-s", type=float, default=5.0, help="of a Job, in the mean")
    parser.add_argument("--within-s", type=float, default=600.0)
    parser.add_argument("--kills", type=int, default=0, help="of the adapter")
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
