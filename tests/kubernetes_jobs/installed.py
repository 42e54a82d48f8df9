"""A release of the chart on real API servers, with its adapter running as the chart says.

The account, its rights, the policy, the kinds and the file of clusters are those that `helm
install` puts on the API server; the process has the command, the variables and the token of its
pod. There are no images: it runs here, and what its pod would mount lies in a folder.
"""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.request import urlopen

import yaml
from coplace.v1.pricing_pb2 import ChargeMade

from cli.kafka_topics import KafkaTopics
from cli.stages import create_topics
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from lab.benchmarks.kubernetes.cluster import MANAGER, RealCluster, call
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.helm.chart import CHART, EXECUTOR_CHART, KUBERNETES_JOBS, program
from tests.kubernetes_jobs.kubelets import JOB, RUNS_S, ObservingKubelets
from tests.support.kubernetes_api import merged, suspended_job

RELEASE: Final = "coplace"
JOBS: Final = "/apis/batch/v1/namespaces/physics/jobs"
ADAPTER: Final = "system:serviceaccount:coplace:region-kubernetes"
TAKEOVER_S: Final = 15.0
EXECUTOR: Final = "executor"
"""What the executor is called among the programs."""
SITE: Final = "site-beta"
EXECUTOR_AT_HOME: Final = f"system:serviceaccount:{SITE}:executor"
EXECUTOR_THERE: Final = f"system:serviceaccount:{SITE}:{SITE}-coplace-executor"
_NAMESPACE: Final = "jobs"
_ADAPTERS: Final = ("kubernetes-a", "kubernetes-b")
_TRAITS: Final = {
    "node_model": "gold-6254",
    "pstates_ghz": [1.2, 2.0, 3.1],
    "idle_power_w": 110,
    "peak_bandwidth_gbps": 140,
}
_SHARED: Final = {
    "PYTHONPATH": os.pathsep.join(sys.path),
    "COPLACE_NAMESPACE": _NAMESPACE,
    "COPLACE_KAFKA_PARTITIONS": "2",
    # All of it shares one machine, with whatever else runs there.
    "COPLACE_SESSION_TIMEOUT_S": "120",
}
# All that the adapter asks for, without what it wrote, which is kept of Jobs.
_AUDIT: Final = f"""
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Request
    users: ["{ADAPTER}", {MANAGER}, "{EXECUTOR_THERE}"]
    verbs: [patch, create, delete]
    resources: [{{group: batch, resources: [jobs]}}]
  - level: Metadata
    users: ["{ADAPTER}", {MANAGER}, "{EXECUTOR_AT_HOME}", "{EXECUTOR_THERE}"]
  - level: None
"""


@dataclass
class InstalledAdapter:
    """Cluster alpha has the release, cluster beta is another one. Use it as a context manager."""

    folder: Path
    programs: Path
    nodes: Mapping[str, int]
    """How many each cluster has."""
    cores: int = 4
    """Of each node."""
    adapters: int = 2
    values: Mapping[str, Any] = field(default_factory=dict)
    """More values of the chart's `kubernetes`."""
    by_executor: bool = False
    """Whether copies run on beta by an executor: nobody else has a way into it."""
    clusters: dict[str, RealCluster] = field(default_factory=dict)
    kubelets: dict[str, ObservingKubelets] = field(default_factory=dict)
    hooks: list[str] = field(default_factory=list)
    """What those of the release said."""
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        try:
            self._enter()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _enter(self) -> None:
        for name in self.nodes:
            own = RealCluster(
                name, self.folder / name, self.programs, True, "job,cronjob", audit=_AUDIT
            )
            self.clusters[name] = self._stack.enter_context(own)
        self._ports = free_ports(6 + self.adapters)
        asyncio.run(self._prepare())
        self.servers = self._stack.enter_context(LocalServers(self.folder / "servers", redis=False))
        settings = Settings(
            kafka_bootstrap=self.servers.kafka_bootstrap, namespace=_NAMESPACE, kafka_partitions=2
        )
        self.deployment = Deployment.from_settings(settings)
        create_topics(self.deployment)
        self._watch_pods()
        self.servers.start(self._programs())

    async def _prepare(self) -> None:
        for name, cluster in self.clusters.items():
            await cluster.wait()
            if name == "alpha" or self.by_executor:
                await cluster.create_nodes(self.nodes[name], self.cores)
            else:
                await cluster.prepare(self.nodes[name], self.cores)
        self._install()
        await self._let_act_as("region-kubernetes", self._as_pod)
        if self.by_executor:
            self._install_executor()
            await self._let_act_as("executor", self.executor_at("home"), namespace=SITE)
            own = (f"{SITE}-coplace-executor", self.executor_at("beta"), "beta", SITE)
            await self._let_act_as(*own)

    @property
    def _as_pod(self) -> Path:
        return self.folder / "as-pod"

    def executor_at(self, where: str) -> Path:
        """Return the kubeconfig of the executor: of the home cluster, or of its own."""
        return self.folder / f"executor-{where}"

    async def _let_act_as(
        self, account: str, file: Path, of: str = "alpha", namespace: str = RELEASE
    ) -> None:
        """Write a kubeconfig with a token of an account of a release."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        asked = {"spec": {"expirationSeconds": 86400}}
        token = (await call(self.clusters[of], "POST", path, asked))["status"]["token"]
        named = self.clusters[of].kubeconfig("pod").read_text()
        file.write_text(named.replace("token: pod", f"token: {token}"))

    def _install(self) -> None:
        """Install the chart."""
        entries = [{"name": "alpha", "kubeconfig": str(self._as_pod), **_TRAITS}]
        entries += [
            {"name": name, **self._way(cluster), **_TRAITS}
            for name, cluster in self.clusters.items()
            if name != "alpha"
        ]
        # Each of its own: YAML writes a list that several have as an alias.
        own = {"clusters": [deepcopy(each) for each in entries], "replicas": self.adapters}
        own |= self.values
        values = self.folder / "values.yaml"
        values.write_text(yaml.safe_dump({"kubernetes": own}))
        named = ["--create-namespace", "--values", str(KUBERNETES_JOBS), "--values", str(values)]
        self._helm("install", "region", str(CHART), *named)

    def _way(self, cluster: RealCluster) -> Mapping[str, str]:
        return {"executor": SITE} if self.by_executor else {"kubeconfig": str(cluster.kubeconfig())}

    def _install_executor(self) -> None:
        """Install the chart of the executor at its cluster."""
        sets = ["cluster=beta", f"home.namespace={SITE}", "home.kubeconfigSecret=home"]
        sets.append("namespaces={physics}")
        words = [word for each in sets for word in ("--set", each)]
        chart = str(EXECUTOR_CHART)
        where = {"of": "beta", "namespace": SITE}
        self._helm("install", SITE, chart, "--create-namespace", *words, **where)

    def _helm(self, *words: str, of: str = "alpha", namespace: str = RELEASE) -> None:
        admin = self.clusters[of].kubeconfig("admin")
        where = ["--namespace", namespace, "--kubeconfig", str(admin), "--no-hooks"]
        subprocess.run([program(), *words, *where], check=True, capture_output=True, text=True)

    def upgrade(self, **values: str) -> None:
        """Upgrade the release to other values of the adapter, and let its pods be replaced."""
        sets = [word for pair in values.items() for word in ("--set-string", "=".join(pair))]
        self._helm("upgrade", "region", str(CHART), "--reuse-values", *sets)
        self._replace()

    def rollback(self) -> None:
        """Go back to the revision before, and let the pods be replaced."""
        self._helm("rollback", "region")
        self._replace()

    def uninstall(self) -> None:
        """Uninstall the release, with its hooks; the pods go when helm deletes them."""
        pods = self._adapters()
        admin = self.clusters["alpha"].kubeconfig("admin")
        words = ["uninstall", "region", "--namespace", RELEASE, "--kubeconfig", str(admin)]
        with subprocess.Popen([program(), *words], stderr=subprocess.PIPE, text=True) as helm:
            while self._has_pods() and helm.poll() is None:
                time.sleep(0.1)
            self.servers.remove(pods)
            _, said = helm.communicate(timeout=300)
        assert helm.returncode == 0, said

    def _has_pods(self) -> bool:
        path = f"/apis/apps/v1/namespaces/{RELEASE}/statefulsets"
        found = asyncio.run(call(self.clusters["alpha"], "GET", path))["items"]
        return any(each["metadata"]["name"] == "region-kubernetes" for each in found)

    async def _run_hook(self, pod: Mapping[str, Any]) -> None:
        """Run what the pod of a hook says, with the rights of its account."""
        spec, file, kubeconfig = pod["spec"], self.folder / "hook.yaml", self.folder / "as-hook"
        await self._let_act_as(spec["serviceAccountName"], kubeconfig)
        [container] = spec["containers"]
        path = f"/api/v1/namespaces/{RELEASE}/configmaps/{spec['serviceAccountName']}"
        told = (await call(self.clusters["alpha"], "GET", path))["data"]["clusters.yaml"]
        file.write_text(told.replace(str(self._as_pod), str(kubeconfig)))
        variables = {each["name"]: each.get("value", "") for each in container["env"]}
        here = {"COPLACE_KUBERNETES_CLUSTERS_FILE": str(file)}
        command = [str(Path(sys.executable).with_name("coplace")), *container["command"][1:]]
        running = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **variables, **_SHARED, **here},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said, _ = await running.communicate()
        self.hooks.append(said.decode())
        assert running.returncode == 0, said

    def _replace(self) -> None:
        """Replace the pods one after the other, the last one first, as a StatefulSet does."""
        for each in reversed(self._adapters()):
            self.servers.remove([each])
            self.servers.start([each])

    def _programs(self) -> list[Program]:
        """Return ingest, placement, pricing, and the adapters."""
        own = {
            **_SHARED,
            "COPLACE_INGEST_PORT": str(self._ports[0]),
            "COPLACE_PLACEMENT_PORT": str(self._ports[1]),
            "COPLACE_PRICING_GRACE_S": "0",
        }
        names = ("ingest", "placement", "pricing")
        services = [
            _program(name, [sys.executable, "-m", f"services.{name}"], own, port)
            for name, port in zip(names, self._ports[2:5], strict=True)
        ]
        return [*services, *self._adapters(), *self._executors()]

    def _executors(self) -> list[Program]:
        """Return the executor as the API server of its cluster has its pod."""
        if not self.by_executor:
            return []
        path = f"/apis/apps/v1/namespaces/{SITE}/statefulsets/{SITE}-coplace-executor"
        manager = asyncio.run(call(self.clusters["beta"], "GET", path))
        [container] = manager["spec"]["template"]["spec"]["containers"]
        here = {
            **{each["name"]: each.get("value", "") for each in container["env"]},
            **_SHARED,
            "COPLACE_HTTP_HOST": "127.0.0.1",
            "COPLACE_EXECUTOR_HOME_KUBECONFIG": str(self.executor_at("home")),
            "COPLACE_EXECUTOR_KUBECONFIG": str(self.executor_at("beta")),
        }
        command = [sys.executable, *container["command"][1:]]
        return [_program(EXECUTOR, command, here, self._ports[-1])]

    def executor_metrics(self) -> Sequence[str]:
        """Return what Prometheus reads of the executor, line by line."""
        with urlopen(f"http://127.0.0.1:{self._ports[-1]}/metrics", timeout=10) as answer:
            return list(answer.read().decode().splitlines())

    def _adapters(self) -> list[Program]:
        """Return the adapters as the API server has their pods."""
        pod = asyncio.run(self._pod())
        file = self.folder / "clusters.yaml"
        file.write_text(pod["clusters"])
        here = {
            **pod["variables"],
            **_SHARED,
            "COPLACE_HTTP_HOST": "127.0.0.1",
            "COPLACE_KAFKA_BOOTSTRAP": self.servers.kafka_bootstrap,
            "COPLACE_KUBERNETES_CLUSTERS_FILE": str(file),
            "COPLACE_KUBERNETES_INGEST_ADDRESS": f"127.0.0.1:{self._ports[0]}",
            "COPLACE_KUBERNETES_PLACEMENT_ADDRESS": f"127.0.0.1:{self._ports[1]}",
        }
        command = [sys.executable, *pod["command"][1:]]
        return [
            _program(name, command, here, port)
            for name, port in zip(self.names, self._ports[5:-1], strict=True)
        ]

    @property
    def names(self) -> Sequence[str]:
        """Return what the adapters are called among the programs."""
        return _ADAPTERS[: self.adapters]

    async def _pod(self) -> Mapping[str, Any]:
        """What the API server has of the adapter's pod."""
        root = f"namespaces/{RELEASE}"
        alpha = self.clusters["alpha"]
        manager = await call(alpha, "GET", f"/apis/apps/v1/{root}/statefulsets/region-kubernetes")
        assert manager["spec"]["replicas"] == self.adapters
        spec = manager["spec"]["template"]["spec"]
        assert f"system:serviceaccount:{RELEASE}:{spec['serviceAccountName']}" == ADAPTER
        config = await call(alpha, "GET", f"/api/v1/{root}/configmaps/region-kubernetes")
        [container] = spec["containers"]
        return {
            "command": container["command"],
            "variables": {each["name"]: each.get("value", "") for each in container["env"]},
            "clusters": config["data"]["clusters.yaml"],
        }

    def _watch_pods(self) -> None:
        """Let nodes run pods, in a thread of their own."""
        self.kubelets = {
            name: ObservingKubelets(own, self._run_hook) for name, own in self.clusters.items()
        }
        loop = asyncio.new_event_loop()

        async def run() -> None:
            await asyncio.gather(*(each.run() for each in self.kubelets.values()))

        playing = loop.create_task(run())
        thread = threading.Thread(target=_until_cancelled, args=(loop, playing), daemon=True)
        thread.start()

        def stop() -> None:
            loop.call_soon_threadsafe(playing.cancel)
            thread.join(30)

        self._stack.callback(stop)

    # What a user does.

    async def submit(self, *bodies: Any, to: str = "alpha") -> Mapping[str, float]:
        """Create Jobs; returns when each was asked for, s since 1970. Raises CallError."""
        waiting, asked_s = iter(bodies), dict[str, float]()

        async def some(client: Any) -> None:
            for body in waiting:
                asked_s[body["metadata"]["name"]] = time.time()
                await call(client, "POST", JOBS, body)

        async with self.clusters[to].client() as client:
            await asyncio.gather(*(some(client) for _ in range(16)))
        return asked_s

    async def job(self, name: str, of: str = "alpha") -> Mapping[str, Any]:
        """Return a Job as it is."""
        found: Mapping[str, Any] = await call(self.clusters[of], "GET", f"{JOBS}/{name}")
        return found

    async def complete(self, *names: str, of: str = "alpha", within_s: float = 120) -> None:
        """Return when Jobs are complete for whoever waits for them."""
        deadline_s = time.monotonic() + within_s
        left = set(names)
        async with self.clusters[of].client() as client:
            while left:
                told = (await call(client, "GET", JOBS))["items"]
                left -= {each["metadata"]["name"] for each in told if is_complete(each)}
                assert time.monotonic() < deadline_s, (
                    left,
                    [each for each in told if each["metadata"]["name"] in left][:1],
                )
                await asyncio.sleep(0.5)

    async def events(self, name: str, of: str = "alpha") -> Mapping[str, str]:
        """Return what events say of a Job, by their reasons."""
        query = f"?fieldSelector=involvedObject.name={name}"
        path = f"/api/v1/namespaces/physics/events{query}"
        found = (await call(self.clusters[of], "GET", path))["items"]
        return {each["reason"]: each["message"] for each in found}

    def charges(self) -> Mapping[str, Sequence[float]]:
        """Return for how long each Job was charged, by its name, s."""
        found: dict[str, list[float]] = {}
        for each in KafkaTopics(self.deployment).topic("prices.charges"):
            if isinstance(each.payload, ChargeMade):
                name = each.payload.job_id.split("/")[3]
                found.setdefault(name, []).append(each.payload.runtime_s)
        return found


def _program(name: str, argv: Sequence[str], env: Mapping[str, str], port: int) -> Program:
    ready = f"http://127.0.0.1:{port}/readyz"
    return Program(name, argv, {**env, "COPLACE_HTTP_PORT": str(port)}, ready)


def _until_cancelled(loop: asyncio.AbstractEventLoop, playing: asyncio.Task[None]) -> None:
    try:
        loop.run_until_complete(playing)
    except asyncio.CancelledError:
        loop.close()


def is_complete(job: Mapping[str, Any]) -> bool:
    """Return whether `kubectl wait --for=condition=complete` would return."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


def user_job(name: str, cpu: str | None = "1", runs_s: float | str = 2, **patch: Any) -> Any:
    """Return a Job as a user submits it."""
    requests = {"cpu": cpu, "memory": "64Mi"} if cpu else {"memory": "64Mi"}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    annotations = {JOB: name, RUNS_S: str(runs_s)}
    pod = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return merged(merged(suspended_job(name), {"spec": {"template": pod}}), patch)
