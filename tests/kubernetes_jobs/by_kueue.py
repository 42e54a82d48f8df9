"""Jobs of a real home cluster at a real worker, whose own Kueue lets them run: by turns by way of
MultiKueue, and by Coplace, which creates the copies itself.

    python -m tests.kubernetes_jobs.by_kueue --programs FOLDER --kueue FOLDER --jobs 100

With `--by-executor` nobody has a way into the worker: an executor there creates the copies, and
answers the check. Nodes are simulated. It says how many Jobs a second began, and how long after the
first was submitted all were complete at home; 1 where one did not run once, or was charged
otherwise than the nodes saw.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml
from aiohttp import ClientError
from coplace.v1.pricing_pb2 import ChargeMade

from cli.kafka_topics import KafkaTopics
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from lab.benchmarks.kubernetes.cluster import MANAGER, ROOT, CallError, call
from services.kubernetes.model.names import MANAGED_BY, QUEUE_NAME
from shared.kueue.names import GRANTED_CHECK, QUEUE_LABEL
from shared.streams.on_kafka.deployment import Deployment
from tests.helm.chart import render_executor
from tests.kubernetes_jobs.installed import JOBS, is_complete, user_job
from tests.kubernetes_jobs.kubelets import ObservingKubelets
from tests.kueue.cluster import API, KueueCluster
from tests.kueue.fleet import kubeconfig
from tests.kueue.kinds import definitions
from tests.kueue.plays import play_parser, run_play
from tests.kueue.region import programs, region

_FILES: Final = ROOT / "helm/coplace/files"
_ALL_AT_ONCE: Final = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
_TURNS: Final = ("multikueue", "coplace", "coplace", "multikueue")
_CORES: Final = 4
_SITE: Final = "site-worker"
_EXECUTOR: Final = "executor"


async def play(arguments: argparse.Namespace, folder: Path, stack: AsyncExitStack) -> int:
    """Play the turns, then one with kills."""
    home, worker = await _clusters(arguments, folder, stack)
    servers = stack.enter_context(LocalServers(folder / "servers", redis=False))
    deployment = region(servers)
    by_executor = arguments.by_executor
    way = {"executor": _SITE} if by_executor else {"kubeconfig": str(worker.kubeconfig())}
    there = {
        "clusters": [
            {"name": home.name, "kubeconfig": str(home.kubeconfig()), **_traits()},
            {"name": worker.name, "kueue_queue": "main", **way, **_traits()},
        ]
    }
    kubelets, problems = ObservingKubelets(worker), list[str]()
    async with asyncio.TaskGroup() as tasks:
        nodes = tasks.create_task(kubelets.run())
        own = programs(there, folder, adapter="kubernetes")
        own += [_executor(home, worker)] if by_executor else []
        await asyncio.to_thread(servers.start, own)
        for number, kind in enumerate(_TURNS if arguments.turns else ()):
            names = [f"{kind}{number}-{each:05}" for each in range(arguments.jobs)]
            problems += await _turn(arguments, home, kubelets, kind, names)
        if arguments.kills:
            names = [f"kill0-{each:05}" for each in range(arguments.jobs)]
            killing = tasks.create_task(_kill(arguments, servers, worker))
            problems += await _turn(arguments, home, kubelets, "coplace", names)
            killing.cancel()
        await asyncio.sleep(5)  # prices follow ends
        nodes.cancel()
    problems += _charges(deployment, kubelets)
    for each in problems[:20]:
        print(each)
    print(f"problems: {len(problems)}")
    return 1 if problems else 0


async def _turn(
    arguments: argparse.Namespace,
    home: KueueCluster,
    kubelets: ObservingKubelets,
    kind: str,
    names: Sequence[str],
) -> list[str]:
    """Submit all at once, and wait for each at home; return what went wrong."""
    began_s = time.time()
    async with home.client() as client:
        waiting = iter(names)

        async def some() -> None:
            for name in waiting:
                await _created(client, _job(kind, name, arguments.run_s))

        await asyncio.gather(*(some() for _ in range(8)))
        left, deadline_s = set(names), time.monotonic() + arguments.within_s
        while left and time.monotonic() < deadline_s:
            told = (await call(client, "GET", JOBS))["items"]
            left -= {each["metadata"]["name"] for each in told if is_complete(each)}
            await asyncio.sleep(0.5)
    begun = sorted(kubelets.begun_s[name] - began_s for name in names if name in kubelets.begun_s)
    if not begun:
        return [f"{kind}: nothing ran"]
    rate = (len(begun) - 1) / (begun[-1] - begun[0]) if len(begun) > 1 else 0.0
    print(
        f"{kind}: first pods after {begun[0]:.1f}, {statistics.median(begun):.1f} (median), "
        f"{begun[-1]:.1f} s: {rate:.1f} a second; complete at home after "
        f"{time.time() - began_s:.1f} s; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    ran = {name: len(kubelets.ready[name]) for name in names}
    wrong = [f"{name}: {count} pods ever ran" for name, count in ran.items() if count != 1]
    return [*(f"{name} is not complete at home" for name in left), *wrong]


def _job(kind: str, name: str, run_s: float) -> Any:
    """One core more than a node of the home cluster has."""
    more: dict[str, Any] = {"spec": {"managedBy": MANAGED_BY}}
    if kind == "multikueue":
        labels = {QUEUE_NAME: None, QUEUE_LABEL: "remote"}
        spec = {"managedBy": "kueue.x-k8s.io/multikueue"}
        more = {"metadata": {"labels": labels}, "spec": spec}
    found = user_job(name, "2", run_s, **more)
    [container] = found["spec"]["template"]["spec"]["containers"]
    del container["resources"]["requests"]["memory"]  # the queues share out cores alone
    return found


async def _created(client: Any, body: Any) -> None:
    """Create a Job, over ends of what its API server asks."""
    for attempt in range(100):
        try:
            await call(client, "POST", JOBS, body)
        except CallError as error:
            if "already exists" in str(error):
                return
            if attempt == 99:
                raise
        except (ClientError, OSError):
            pass
        else:
            return
        await asyncio.sleep(0.3)


async def _kill(arguments: argparse.Namespace, servers: LocalServers, worker: KueueCluster) -> None:
    """Kill -9 of a process of Coplace, or of the worker's Kueue, at random moments."""
    rng = Random(arguments.seed)
    own = ("kubernetes", _EXECUTOR) if arguments.by_executor else ("kubernetes",)
    for _ in range(arguments.kills):
        await asyncio.sleep(rng.uniform(0.5, 2 * arguments.every_s))
        if rng.random() < 0.5:
            await asyncio.to_thread(worker.restart_kueue)
            print("killed Kueue", flush=True)
        elif servers.pid(who := rng.choice(own)):
            await asyncio.to_thread(servers.kill, who)
            print(f"killed {who}", flush=True)


def _charges(deployment: Deployment, kubelets: ObservingKubelets) -> list[str]:
    """What was charged otherwise than the nodes saw; what MultiKueue sends is charged nothing."""
    charged: dict[str, list[float]] = {}
    for each in KafkaTopics(deployment).topic("prices.charges"):
        if isinstance(each.payload, ChargeMade):
            name = each.payload.job_id.split("/")[3]
            charged.setdefault(name, []).append(each.payload.runtime_s)
    wrong = []
    for name in (each for each in kubelets.ended if each):
        real = [] if name.startswith("multikueue") else [kubelets.run_s(name)]
        if charged.get(name, []) != real:
            wrong.append(f"{name}: ran {real} s, charged {charged.get(name)}")
    print(f"charges other than what ran: {len(wrong)} of {len(kubelets.ended)}")
    return wrong


async def _clusters(
    arguments: argparse.Namespace, folder: Path, stack: AsyncExitStack
) -> tuple[KueueCluster, KueueCluster]:
    """The cluster of the users, which is a manager of MultiKueue too, and the worker."""
    made = [
        stack.enter_context(
            KueueCluster(
                name,
                folder / name,
                arguments.programs,
                True,
                kueue=arguments.kueue,
                dispatcher=dispatcher,
            )
        )
        for name, dispatcher in (("home", _ALL_AT_ONCE), ("worker", ""))
    ]
    home, worker = made
    for each in made:
        await each.wait()
        await each.install(
            [
                *definitions(),
                *(yaml.safe_load((_FILES / f"{kind}.yaml").read_text()) for kind in _KINDS),
            ]
        )
        await _grant(each, _rules(each is worker, by_executor=arguments.by_executor))
    if arguments.by_executor:
        await call(home, "POST", "/api/v1/namespaces", {"metadata": {"name": _SITE}})
    await home.nodes(1, 1)
    await worker.nodes(arguments.nodes, _CORES)
    await worker.queue("main", GRANTED_CHECK)
    await worker.queue("remote")
    await home.manage({worker.name: kubeconfig(worker, worker.port, "kueue")})
    await home.queue("remote", "workers")
    await _reached(home)
    return home, worker


_KINDS: Final = ("jobrecords", "jobqueues", "jobassignments", "executornodes")


def _traits() -> Mapping[str, Any]:
    """What a file of clusters says of nodes; it has no aliases."""
    power = {"idle_power_w": 110, "peak_bandwidth_gbps": 140}
    return {"node_model": "gold-6254", "pstates_ghz": [1.2, 2.0, 3.1], **power}


def _rules(is_worker: bool, *, by_executor: bool) -> Sequence[Mapping[str, Any]]:
    """The rights of the adapter and of the executor in a cluster, as their charts have them."""
    if is_worker and by_executor:
        sets = ("cluster=worker", f"home.namespace={_SITE}", "home.kubeconfigSecret=home")
        installed = render_executor(*sets, "kueue.enabled=true")
        roles = [each for each in installed if each["kind"] == "ClusterRole"]
        return [rule for each in roles for rule in each["rules"]]
    own = yaml.safe_load((_FILES / "kubernetes-rules.yaml").read_text())
    if not by_executor:
        return [*own["own"], *own["kueue"]]
    there = yaml.safe_load((_FILES / "executor-rules.yaml").read_text())
    return [*own["own"], *there["executor"], *there["manager"]]


async def _grant(cluster: KueueCluster, rules: Sequence[Mapping[str, Any]]) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{MANAGER}"
    await call(cluster, "PATCH", path, {"rules": rules})


def _executor(home: KueueCluster, worker: KueueCluster) -> Program:
    """The executor of the worker."""
    [port] = free_ports(1)
    environment = {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COPLACE_HTTP_PORT": str(port),
        "COPLACE_EXECUTOR_CLUSTER": worker.name,
        "COPLACE_EXECUTOR_NAMESPACE": _SITE,
        "COPLACE_EXECUTOR_HOME_KUBECONFIG": str(home.kubeconfig()),
        "COPLACE_EXECUTOR_KUBECONFIG": str(worker.kubeconfig()),
        "COPLACE_EXECUTOR_KUEUE": "true",
    }
    command = [sys.executable, "-m", "services.kubernetes.executor"]
    return Program(_EXECUTOR, command, environment, f"http://127.0.0.1:{port}/readyz")


async def _reached(home: KueueCluster) -> None:
    """Return when MultiKueue reaches the worker."""
    for _ in range(240):
        told = (await call(home, "GET", f"{API}/multikueueclusters"))["items"]
        conditions = [
            one for each in told for one in (each.get("status") or {}).get("conditions", ())
        ]
        if any(each["type"] == "Active" and each["status"] == "True" for each in conditions):
            return
        await asyncio.sleep(0.5)
    raise TimeoutError("MultiKueue does not reach the worker")


def main() -> int:
    """Run the command."""
    parser = play_parser(__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--run-s", type=float, default=3.0)
    parser.add_argument("--no-turns", dest="turns", action="store_false")
    parser.add_argument("--by-executor", action="store_true")
    parser.add_argument("--every-s", type=float, default=4.0, help="between kills, in the mean")
    return run_play(play, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
