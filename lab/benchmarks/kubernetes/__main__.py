"""Jobs over three real API servers, with the resource manager killed in the middle.

    python -m lab.benchmarks.kubernetes --programs FOLDER --jobs 5000 [--controllers] [--choosing]

Starts are counted from the audit logs of the API servers. API servers, Kafka, ingest, placement and
the resource manager are real; with `--controllers` the Job controllers and schedulers too, and only
the nodes are simulated (`kubelets.py`), else both (`controller.py`).
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import yaml
from coplace.v1.jobs_pb2 import JobFinished

from cli.kafka_topics import KafkaTopics
from cli.stages import create_topics
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from lab.benchmarks.kubernetes.choosers import DrawnNode, chooser, job_name
from lab.benchmarks.kubernetes.cluster import RealCluster, call
from lab.benchmarks.kubernetes.controller import SimulatedController
from lab.benchmarks.kubernetes.kubelets import SimulatedKubelets
from shared.kubernetes.objects import time_us
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.support.kubernetes_api import merged, suspended_job

CLUSTERS: Final = ("alpha", "beta", "gamma")
KUEUE_JOBS_PER_S: Final = 30
_NAMESPACE: Final = "kubernetes"
_SUBMITTERS: Final = 16
_LOST: Final = 504
_TRAITS: Final = {
    "node_model": "gold-6254",
    "pstates_ghz": [1.2, 2.0, 3.1],
    "idle_power_w": 110,
    "peak_bandwidth_gbps": 140,
}


def deployment(servers: LocalServers) -> Deployment:
    """Return what its services share."""
    bootstrap = servers.kafka_bootstrap
    settings = Settings(kafka_bootstrap=bootstrap, namespace=_NAMESPACE, kafka_partitions=4)
    return Deployment.from_settings(settings)


def programs(clusters: Sequence[RealCluster], folder: Path) -> list[Program]:
    """Return ingest, placement and the resource manager."""
    told = [
        # Of its own: YAML writes a list that several have as an alias, which is refused.
        {"name": each.name, "kubeconfig": str(each.kubeconfig()), **deepcopy(_TRAITS)}
        for each in clusters
    ]
    (folder / "clusters.yaml").write_text(yaml.safe_dump({"clusters": told}))
    ports = free_ports(5)
    environment = {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COPLACE_NAMESPACE": _NAMESPACE,
        "COPLACE_KAFKA_PARTITIONS": "4",
        # All of it shares one machine, with whatever else runs there.
        "COPLACE_SESSION_TIMEOUT_S": "120",
        "COPLACE_INGEST_PORT": str(ports[0]),
        "COPLACE_PLACEMENT_PORT": str(ports[1]),
        "COPLACE_KUBERNETES_SITE": "north",
        "COPLACE_KUBERNETES_CLUSTERS_FILE": str(folder / "clusters.yaml"),
        "COPLACE_KUBERNETES_INGEST_ADDRESS": f"127.0.0.1:{ports[0]}",
        "COPLACE_KUBERNETES_PLACEMENT_ADDRESS": f"127.0.0.1:{ports[1]}",
    }
    return [
        Program(
            name,
            [sys.executable, "-m", f"services.{name}"],
            {**environment, "COPLACE_HTTP_PORT": str(port)},
            f"http://127.0.0.1:{port}/readyz",
        )
        for name, port in zip(("ingest", "placement", "kubernetes"), ports[2:], strict=True)
    ]


async def differ(cluster: RealCluster, nodes: int) -> None:
    """Give nodes labels and taints."""
    async with cluster.client() as client:
        for number in range(nodes):
            name = f"{cluster.name}-{number:04}"
            await call(client, "PATCH", f"/api/v1/nodes/{name}", DrawnNode.named(name).fields())


async def submit(cluster: RealCluster, numbers: Iterable[int], *, choosing: bool) -> None:
    """Submit suspended Jobs, as users create them."""
    waiting = iter(list(numbers))

    async def some(client: Any) -> None:
        for number in waiting:
            body = suspended_job(job_name(number))
            container = body["spec"]["template"]["spec"]["containers"][0]
            container |= {"image": "none", "name": "main"}
            body["spec"]["template"]["spec"]["restartPolicy"] = "Never"
            if choosing:
                body = merged(body, chooser(number).patch)
            await call(client, "POST", "/apis/batch/v1/namespaces/physics/jobs", body)

    async with cluster.client() as client:
        await asyncio.gather(*(some(client) for _ in range(_SUBMITTERS)))


def lets_run(request: Mapping[str, Any]) -> bool:
    """Return whether a request is to let a Job run."""
    return ((request.get("requestObject") or {}).get("spec") or {}).get("suspend") is False


def is_start(request: Mapping[str, Any]) -> bool:
    """Return whether the API server took a request that lets a Job run."""
    return request["responseStatus"]["code"] < 300 and lets_run(request)


def job_id_of(request: Mapping[str, Any]) -> str:
    """Return the id of the job that a request lets run: a copy and its Job have the same."""
    template = request["requestObject"]["spec"]["template"]
    return str(template["metadata"]["annotations"]["coplace.io/job-id"])


def started(clusters: Iterable[RealCluster]) -> Counter[str]:
    """Count how often each job was let run, by its id. What was not answered, since the manager was
    killed, counts where nothing else let the job run: it may have been done."""
    requests = [each for c in clusters for each in c.requests() if lets_run(each)]
    found = Counter(job_id_of(each) for each in requests if is_start(each))
    unanswered = {job_id_of(each) for each in requests if each["responseStatus"]["code"] == _LOST}
    return found + Counter(unanswered - found.keys())


def misplaced(clusters: Iterable[RealCluster]) -> list[str]:
    """Return which Jobs were started where they may not run, by what they chose."""
    found = []
    for request in (each for c in clusters for each in c.requests() if is_start(each)):
        template, job_id = request["requestObject"]["spec"]["template"], job_id_of(request)
        may_use = chooser(int(job_id.split("/")[3].rpartition("-")[2])).may_use
        affinity = template["spec"]["affinity"]["nodeAffinity"]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        nodes = [name for term in terms for name in term["matchFields"][0]["values"]]
        if wrong := [name for name in nodes if not may_use(DrawnNode.named(name))]:
            found.append(f"started where it may not run: {job_id} on {', '.join(wrong)}")
    return found


def miscounted(servers: LocalServers, nodes: Iterable[SimulatedKubelets]) -> list[str]:
    """Return the Jobs whose run was reported otherwise than from the last pod's Ready to the last
    pod's end, as the nodes have it."""
    told = {
        event.payload.job_id.split("/")[3]: event.payload
        for event in KafkaTopics(deployment(servers)).topic("jobs.events")
        if isinstance(event.payload, JobFinished)
    }
    ready, ended = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for each in nodes:
        for times, found in ((each.ready, ready), (each.ended, ended)):
            for pod, at in times.items():
                # A copy is called after its Job.
                found["-".join(pod.split("-")[:2])].append(time_us(at))
    return [
        f"reported otherwise than it ran: {name}"
        for name, finished in told.items()
        if (finished.started_at_us, finished.ended_at_us) != (max(ready[name]), max(ended[name]))
    ]


async def incomplete(clusters: Iterable[RealCluster]) -> list[str]:
    """Return the Jobs that are not complete for those that wait for them."""
    return [
        f"not complete at home: {job['metadata']['name']}, {job.get('status')}"
        for cluster in clusters
        for job in (await call(cluster, "GET", "/apis/batch/v1/namespaces/physics/jobs"))["items"]
        if not any(each["type"] == "Complete" for each in job["status"].get("conditions", ()))
    ]


async def outcomes(clusters: Iterable[RealCluster]) -> Counter[str]:
    """Count the outcomes that the submitted Jobs show."""
    found: Counter[str] = Counter()
    for cluster in clusters:
        told = await call(cluster, "GET", "/apis/batch/v1/namespaces/physics/jobs")
        for job in told["items"]:
            metadata = job["metadata"]
            if "coplace.io/copy-of" not in metadata["labels"]:
                found[metadata["annotations"].get("coplace.io/outcome", "")] += 1
    return found


async def play(arguments: argparse.Namespace, folder: Path, stack: ExitStack) -> int:
    """Print what came of it; 1 where a job did not start exactly once."""
    clusters = [
        stack.enter_context(
            RealCluster(name, folder / name, arguments.programs, arguments.controllers)
        )
        for name in CLUSTERS
    ]
    servers = stack.enter_context(LocalServers(folder / "servers"))
    create_topics(deployment(servers))
    for each in clusters:
        await each.wait()
    await asyncio.gather(*(each.prepare(arguments.nodes, 36) for each in clusters))
    if arguments.choosing:
        await asyncio.gather(*(differ(each, arguments.nodes) for each in clusters))
    *services, manager = programs(clusters, folder)
    await asyncio.to_thread(servers.start, services)
    simulated = SimulatedKubelets if arguments.controllers else SimulatedController
    async with asyncio.TaskGroup() as tasks:
        nodes = [simulated(c, arguments.run_s) for c in clusters]
        playing = [tasks.create_task(each.run()) for each in nodes]
        await asyncio.to_thread(servers.start, [manager])
        began_s = time.monotonic()
        shares = [range(number, arguments.jobs, len(clusters)) for number in range(len(clusters))]
        submitting = [
            tasks.create_task(submit(*each, choosing=arguments.choosing))
            for each in zip(clusters, shares, strict=True)
        ]
        await wait(arguments, servers, clusters)
        took_s = time.monotonic() - began_s
        await asyncio.gather(*submitting)
        for task in playing:
            task.cancel()
    copies = sum(
        is_start(each) and each["verb"] == "create" for c in clusters for each in c.requests()
    )
    print(f"of these as a copy, elsewhere or of a Job that is managed: {copies}")
    wrong = misplaced(clusters) if arguments.choosing else []
    if arguments.controllers:
        wrong += miscounted(
            servers, [each for each in nodes if isinstance(each, SimulatedKubelets)]
        )
    wrong += await incomplete(clusters)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    failed = report(started(clusters), await outcomes(clusters), arguments.jobs, took_s)
    return 1 if wrong else failed


async def wait(
    arguments: argparse.Namespace, servers: LocalServers, clusters: Sequence[RealCluster]
) -> None:
    """Wait until all Jobs have ended; the manager is killed when a third, and two thirds,
    started."""
    kills = [arguments.jobs // 3, 2 * arguments.jobs // 3]
    deadline_s = time.monotonic() + arguments.within_s
    while time.monotonic() < deadline_s:
        await asyncio.sleep(2)
        count = started(clusters).total()
        if kills and count >= kills[0]:
            servers.kill("kubernetes")
            print(f"killed after {count} starts", flush=True)
            kills.pop(0)
        if count >= arguments.jobs and (await outcomes(clusters))["completed"] >= arguments.jobs:
            return
    print(f"not all ended: {await outcomes(clusters)}", flush=True)


def report(starts: Counter[str], ended: Counter[str], jobs: int, took_s: float) -> int:
    """Report what the API servers wrote down."""
    times = Counter(starts.values())
    more = times.total() - times[1]
    print(f"jobs: {jobs}; started exactly once: {times[1]}; more than once: {more}")
    print(f"outcomes: {dict(ended)}")
    print(f"{jobs / took_s:.1f} jobs/s from submission to end, over {len(CLUSTERS)} API servers")
    print(f"Kueue on such a machine, as cited: {KUEUE_JOBS_PER_S} jobs/s")
    return 0 if times == {1: jobs} and ended == {"completed": jobs} else 1


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True, help="of Kubernetes")
    parser.add_argument("--controllers", action="store_true", help="real ones")
    parser.add_argument("--choosing", action="store_true", help="Jobs choose among unlike nodes")
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--nodes", type=int, default=64, help="of each cluster")
    parser.add_argument("--run-s", type=float, default=2.0, help="of each Job")
    parser.add_argument("--within-s", type=float, default=1800.0)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="k8s-")))
        return asyncio.run(play(arguments, folder, stack))


if __name__ == "__main__":
    sys.exit(main())
