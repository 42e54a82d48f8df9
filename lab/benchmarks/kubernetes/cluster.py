"""A real API server with its etcd, and what it wrote down of who asked for what."""

import asyncio
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import orjson
import yaml

from deploy.local.ports import free_ports
from shared.kubernetes.access import ApiAccess, FixedCredentials, trusting_all
from shared.kubernetes.connection import ApiConnection

ROOT: Final = Path(__file__).parents[3]
_CHART_FILES: Final = ROOT / "helm/coplace/files"
MANAGER: Final = "coplace"
_WITHIN_S: Final = 120.0
_WRITERS: Final = 16
_PATIENCE: Final = aiohttp.ClientTimeout(total=60)
_TOKENS: Final = "admin,admin,1,system:masters\nmanager,coplace,2\n"
# Requests of the resource manager alone, with what they said.
_AUDIT: Final = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Request
    users: [coplace]
    verbs: [patch, create, delete]
    resources: [{group: batch, resources: [jobs]}]
  - level: None
"""


@dataclass
class RealCluster:
    """One cluster; use it as a context manager. Its nodes are not real."""

    name: str
    folder: Path
    programs: Path
    """The folder of kube-apiserver and, where they are wanted, of the others."""
    has_controller: bool = False
    """Whether its Job controller and its scheduler are real."""
    controllers: str = "job"
    """Of the controller manager."""
    tokens: str = _TOKENS
    audit: str = _AUDIT
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        self._etcd, self._peer, self.port = free_ports(3)
        key = self._file("sa.key")
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        (self.folder / "tokens.csv").write_text(self.tokens)
        (self.folder / "audit.yaml").write_text(self.audit)
        self._start("etcd", ["etcd", *self._etcd_options()])
        self._start_api()
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._running):
            process.kill()  # an API server waits a minute for who watches it, and nothing is kept
            process.wait(60)

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"https://127.0.0.1:{self.port}"

    def kubeconfig(self, token: str = "manager") -> Path:
        """Return the resource manager's kubeconfig, or that of another token."""
        cluster = {"server": self.url, "insecure-skip-tls-verify": True}
        context = {"cluster": self.name, "user": MANAGER}
        path = self.folder / f"kubeconfig-{token}"
        told = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.name, "cluster": cluster}],
            "users": [{"name": MANAGER, "user": {"token": token}}],
            "contexts": [{"name": self.name, "context": context}],
            "current-context": self.name,
        }
        path.write_text(yaml.safe_dump(told))
        return path

    async def wait(self) -> None:
        """Return when it serves."""
        deadline_s = time.monotonic() + _WITHIN_S
        while True:
            try:
                await call(self, "GET", "/readyz", raw=True)
            except (OSError, CallError) as error:
                if time.monotonic() > deadline_s:
                    raise CallError(f"{self.name} does not serve: {error}") from error
                await asyncio.sleep(0.5)
            else:
                break
        if self.has_controller:
            self._start_controllers()

    async def prepare(self, nodes: int, cores: int) -> None:
        """Create its nodes, a namespace, the kind of records and the rights of the resource
        manager, as the chart has them."""
        rules = yaml.safe_load((_CHART_FILES / "kubernetes-rules.yaml").read_text())
        role = {"metadata": {"name": MANAGER}, "rules": rules["own"]}
        group = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": MANAGER},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": MANAGER},
            "subjects": [{"apiGroup": group, "kind": "User", "name": MANAGER}],
        }
        await self.create_nodes(nodes, cores)
        async with self.client() as client:
            kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            for file in ("jobrecords.yaml", "jobqueues.yaml"):
                await call(client, "POST", kinds, yaml.safe_load((_CHART_FILES / file).read_text()))
            await call(client, "POST", f"/apis/{group}/v1/clusterroles", role)
            await call(client, "POST", f"/apis/{group}/v1/clusterrolebindings", binding)

    async def create_nodes(self, nodes: int, cores: int) -> None:
        """Create its nodes and a namespace."""
        waiting = iter(range(nodes))

        async def some(client: ApiConnection) -> None:
            for number in waiting:
                await self._node(client, f"{self.name}-{number:04}", cores)

        async with self.client() as client:
            await call(client, "POST", "/api/v1/namespaces", {"metadata": {"name": "physics"}})
            await asyncio.gather(*(some(client) for _ in range(_WRITERS)))

    def restart_api(self) -> None:
        """Kill the API server (kill -9) and start it again."""
        self._api.kill()
        self._api.wait()
        self._running.remove(self._api)
        self._start_api()

    def _start_api(self) -> None:
        self._api = self._start("api", [self._program("kube-apiserver"), *self._api_options()])

    def client(self, token: str = "admin") -> ApiConnection:
        """Return a client of an administrator, or of another token."""
        shown = FixedCredentials(f"Bearer {token}")
        return ApiConnection(ApiAccess(self.url, trusting_all(), shown))

    def requests(self) -> Iterator[Mapping[str, Any]]:
        """Yield what the resource manager asked to be written, as the API server wrote it down."""
        with (self.folder / "audit.log").open("rb") as file:
            whole = (line for line in file if line.endswith(b"\n"))  # the last one is being written
            yield from map(orjson.loads, whole)

    async def _node(self, client: ApiConnection, name: str, cores: int) -> None:
        """A node that is ready, of which there is nothing else."""
        labels = {"kubernetes.io/hostname": name}
        await call(client, "POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        amounts = {"cpu": str(cores), "memory": "192Gi", "pods": "250"}
        ready = {"type": "Ready", "status": "True", "reason": "Simulated", "message": "simulated"}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
        await call(client, "PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
        # A node without a kubelet is tainted at its registration.
        await call(client, "PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    def _start_controllers(self) -> None:
        options = [
            *("--kubeconfig", str(self.kubeconfig("admin")), "--leader-elect=false"),
            *("--secure-port", "0", "--kube-api-qps", "500", "--kube-api-burst", "1000"),
        ]
        for name, more in (
            ("kube-controller-manager", [f"--controllers={self.controllers}"]),
            ("kube-scheduler", []),
        ):
            self._start(name, [self._program(name), *options, *more])

    def _program(self, name: str) -> str:
        return str(self.programs / name)

    def _etcd_options(self) -> Sequence[str]:
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        return [
            *("--data-dir", self._file("etcd"), "--unsafe-no-fsync"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
        ]

    def _api_options(self) -> Sequence[str]:
        return [
            *("--etcd-servers", f"http://127.0.0.1:{self._etcd}"),
            # Watches with bookmarks would need the progress of etcd, which 3.4 does not report.
            *("--feature-gates", "WatchList=false"),
            *("--bind-address", "127.0.0.1", "--secure-port", str(self.port)),
            *("--cert-dir", self._file("certificates"), "--authorization-mode", "RBAC"),
            # Nobody makes the accounts that its pods would have.
            *("--disable-admission-plugins", "ServiceAccount"),
            *("--token-auth-file", self._file("tokens.csv")),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--service-account-key-file", self._file("sa.key")),
            *("--service-account-signing-key-file", self._file("sa.key")),
            *("--audit-policy-file", self._file("audit.yaml")),
            *("--audit-log-path", self._file("audit.log"), "--audit-log-mode", "blocking"),
        ]

    def _file(self, name: str) -> str:
        return str(self.folder / name)

    def _start(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self._running.append(process)
        return process


class CallError(Exception):
    """An API server refused."""


async def call(
    of: ApiConnection | RealCluster, method: str, path: str, body: Any = None, *, raw: bool = False
) -> Any:
    """Ask an API server as an administrator. Raises CallError."""
    if isinstance(of, RealCluster):
        async with of.client() as client:
            return await call(client, method, path, body, raw=raw)
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    asked = of.asked(method, path, body=body, content_type=kind, timeout=_PATIENCE)
    async with asked as answer:
        told = await answer.read()
        if answer.status >= 400:
            raise CallError(f"{method} {path}: {answer.status} {told[:500]!r}")
        return told if raw else orjson.loads(told)
