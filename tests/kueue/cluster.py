"""A real API server with a real Kueue."""

import asyncio
import base64
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.local.ports import free_ports
from lab.benchmarks.kubernetes.cluster import MANAGER, ROOT, CallError, RealCluster, call
from shared.kueue.names import APP, GRANTED_CHECK

API: Final = "/apis/kueue.x-k8s.io/v1beta2"
NAMESPACE: Final = "physics"
QUEUE: Final = "main"
_DISPATCHED: Final = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "workers"}
CHECKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "placement": {"controllerName": "coplace.io/placement"},
    "control": {"controllerName": "coplace.test/control"},
    GRANTED_CHECK: {"controllerName": "coplace.io/granted"},
    "workers": {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": _DISPATCHED},
}
"""The AdmissionChecks, with who answers them."""
_VERSION: Final = "kueue.x-k8s.io/v1beta2"
_WITHIN_S: Final = 120.0
# Of what is played here; those of others ask for kinds that are not installed.
_WEBHOOKS: Final = (
    *("job", "jobset", "pytorchjob", "pod"),
    *("workload", "clusterqueue", "resourceflavor", "cohort"),
)
_FRAMEWORKS: Final = ("batch/job", "jobset.x-k8s.io/jobset", "kubeflow.org/pytorchjob", "pod")
_QUOTA: Final = 100_000
_TOKENS: Final = (
    "admin,admin,1,system:masters\nmanager,coplace,2\nkueue,kueue,3,system:masters\n"
    "control,control,4,system:masters\n"
)
_USERS: Final = ("kueue", "coplace", "control")
# Who asked, and for what.
_AUDIT: Final = f"""
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {{level: None, verbs: [watch]}}
  - {{level: Metadata, users: [{", ".join(_USERS)}]}}
  - {{level: None}}
"""


@dataclass
class KueueCluster(RealCluster):
    """One cluster with Job controller, scheduler and Kueue; its nodes are not real. `kueue` is the
    folder of Kueue: its program, and its sources."""

    kueue: Path = Path()
    tokens: str = _TOKENS
    audit: str = _AUDIT
    dispatcher: str = ""
    """Of a manager of MultiKueue: who chooses clusters, from the next start of Kueue on."""
    _killed_s: float = 0.0

    async def install(self, others: Sequence[Mapping[str, Any]] = ()) -> None:
        """Install Kueue beside the kinds of others, start it, and give the adapter its rights."""
        self._webhook, self._health = free_ports(2)
        self._make_certificate()
        async with self.client() as client:
            for each in (*self._kinds(), _records(), *others):
                path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                await call(client, "POST", path, each)
            for name in ("kueue-system", NAMESPACE):
                await call(client, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            await self._grant(client)
        await self._kinds_served()
        self._start_kueue()
        await self._kueue_ready()
        async with self.client() as client:
            for each in self._hooks():
                kind = f"{each['kind'].lower()}s"
                path = f"/apis/admissionregistration.k8s.io/v1/{kind}"
                await call(client, "POST", path, each)

    async def _kinds_served(self) -> None:
        """Return when the API server lists all kinds of Kueue."""
        version = API.rpartition("/")[2]
        kinds = [each["spec"] for each in self._kinds()]
        names = [s["names"]["plural"] for s in kinds if s["versions"][0]["name"] == version]
        deadline_s = time.monotonic() + _WITHIN_S
        while names and time.monotonic() < deadline_s:
            try:
                await call(self, "GET", f"{API}/{names[0]}")
                names.pop(0)
            except CallError:
                await asyncio.sleep(0.5)
        if names:
            raise CallError(f"{self.name} does not serve {', '.join(names)}")

    async def queue(self, name: str, *checks: str, quota: int = _QUOTA) -> None:
        """Create a LocalQueue with a ClusterQueue of its own."""
        strategy = {"admissionChecks": [{"name": each} for each in checks]}
        resources = [{"name": "cpu", "nominalQuota": quota}]
        group = {
            "coveredResources": ["cpu"],
            "flavors": [{"name": "plain", "resources": resources}],
        }
        spec: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": [group]}
        if checks:
            spec["admissionChecksStrategy"] = strategy
        async with self.client() as client:
            for each in checks:
                await self._create(client, "AdmissionCheck", each, CHECKS[each])
            await self._create(client, "ResourceFlavor", "plain", {})
            await self._create(client, "ClusterQueue", f"cq-{name}", spec)
            path = f"{API}/namespaces/{NAMESPACE}/localqueues"
            body = self._body("LocalQueue", name, {"clusterQueue": f"cq-{name}"})
            await call(client, "POST", path, body)

    async def manage(self, workers: Mapping[str, Mapping[str, Any]]) -> None:
        """Have Kueue send Workloads to workers, by their kubeconfigs."""
        async with self.client() as client:
            for name, kubeconfig in workers.items():
                secret = {
                    "metadata": {"name": name},
                    "stringData": {"kubeconfig": json.dumps(kubeconfig)},
                }
                await call(client, "POST", "/api/v1/namespaces/kueue-system/secrets", secret)
                where = {"locationType": "Secret", "location": name}
                spec = {"clusterSource": {"kubeConfig": where}}
                await self._create(client, "MultiKueueCluster", name, spec)
            await self._create(client, "MultiKueueConfig", "workers", {"clusters": list(workers)})

    async def nodes(self, count: int, cores: int) -> None:
        """Create its nodes."""
        async with self.client() as client:
            for number in range(count):
                await self._node(client, f"{self.name}-{number:04}", cores)

    async def _create(self, client: Any, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        path = f"{API}/{kind.lower()}s"
        listed = await call(client, "GET", path)
        if name not in {each["metadata"]["name"] for each in listed["items"]}:
            await call(client, "POST", path, self._body(kind, name, spec))

    def _body(self, kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        metadata = {"name": name}
        return {"apiVersion": _VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}

    async def _grant(self, client: Any) -> None:
        rules = yaml.safe_load((ROOT / "helm/coplace/files/kueue-rules.yaml").read_text())
        group = "rbac.authorization.k8s.io"
        role = {"metadata": {"name": MANAGER}, "rules": [*rules["own"], *rules["lease"]]}
        binding = {
            "metadata": {"name": MANAGER},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": MANAGER},
            "subjects": [{"apiGroup": group, "kind": "User", "name": MANAGER}],
        }
        await call(client, "POST", f"/apis/{group}/v1/clusterroles", role)
        await call(client, "POST", f"/apis/{group}/v1/clusterrolebindings", binding)

    def _make_certificate(self) -> None:
        folder = self.folder / "certs"
        folder.mkdir()
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"]
        command += ["-subj", "/CN=kueue", "-addext", "subjectAltName=IP:127.0.0.1"]
        command += ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
        subprocess.run(command, check=True, capture_output=True)

    def _kinds(self) -> Iterator[Mapping[str, Any]]:
        """Kueue's kinds in the version that is stored: no other one is asked for."""
        for file in sorted((self.kueue / "source/config/components/crd/bases").glob("*.yaml")):
            for kind in yaml.load_all(file.read_text(), yaml.CSafeLoader):
                versions = [each for each in kind["spec"]["versions"] if each["storage"]]
                spec = {**kind["spec"], "versions": versions}
                spec.pop("conversion", None)
                yield {**kind, "spec": spec}

    def _hooks(self) -> Iterator[Mapping[str, Any]]:
        certificate = (self.folder / "certs/tls.crt").read_bytes()
        authority = base64.b64encode(certificate).decode()
        file = self.kueue / "source/config/components/webhook/manifests.yaml"
        for each in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            hooks = [hook for hook in each["webhooks"] if _is_played(hook["name"])]
            for hook in hooks:
                path = hook["clientConfig"]["service"]["path"]
                url = f"https://127.0.0.1:{self._webhook}{path}"
                hook["clientConfig"] = {"url": url, "caBundle": authority}
            metadata = {"name": f"kueue-{each['metadata']['name']}"}
            yield {**each, "metadata": metadata, "webhooks": hooks}

    def _start_kueue(self) -> None:
        config = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": "kueue-system",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {
                "port": self._webhook,
                "host": "127.0.0.1",
                "certDir": str(self.folder / "certs"),
            },
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "clientConnection": {"qps": 1000, "burst": 2000},
            "integrations": {"frameworks": list(_FRAMEWORKS), "labelKeysToCopy": [APP]},
        }
        if self.dispatcher:
            config["multiKueue"] = {"dispatcherName": self.dispatcher, "origin": self.name}
        file = self.folder / "kueue.yaml"
        file.write_text(yaml.safe_dump(config))
        options = [f"--config={file}", f"--kubeconfig={self.kubeconfig('kueue')}"]
        gates = "--feature-gates=VisibilityOnDemand=false"
        command = [str(self.kueue / "kueue"), *options, gates, "--zap-log-level=2"]
        with (self.folder / "kueue.log").open("ab") as log:
            started = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self._running.append(started)

    async def _kueue_ready(self) -> None:
        deadline_s = time.monotonic() + _WITHIN_S
        while not await asyncio.to_thread(_answers, f"http://127.0.0.1:{self._health}/readyz"):
            if time.monotonic() > deadline_s:
                raise CallError(f"Kueue is not ready, see {self.folder / 'kueue.log'}")
            await asyncio.sleep(0.5)

    @property
    def authority(self) -> str:
        """Return by whom its API server is known to be itself, as a kubeconfig has it."""
        return base64.b64encode((self.folder / "certificates/apiserver.crt").read_bytes()).decode()

    async def kueue_anew(self, dispatcher: str) -> None:
        """Start Kueue anew with another dispatcher, and return when it is ready."""
        self.dispatcher = dispatcher
        await asyncio.to_thread(self.restart_kueue)
        await self._kueue_ready()

    def restart_kueue(self) -> None:
        """Kill it, and start it anew."""
        old = next(each for each in self._running if _words(each)[0].endswith("/kueue"))
        self._running.remove(old)
        self._killed_s += _cpu_s(old)
        old.kill()
        old.wait(60)
        self._start_kueue()

    def calls(self) -> Counter[str]:
        """Return how often each user asked its API server for anything but watches."""
        return Counter(each["user"]["username"] for each in self.requests())

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU that each of its programs has used, s."""
        found = {Path(_words(each)[0]).name: _cpu_s(each) for each in self._running}
        found["kueue"] += self._killed_s
        return found


def _records() -> Mapping[str, Any]:
    """The kind of what Coplace keeps of Workloads, as the chart has it."""
    found = yaml.safe_load((ROOT / "helm/coplace/files/workloadrecords.yaml").read_text())
    return dict(found)


def _cpu_s(process: "subprocess.Popen[bytes]") -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _words(process: "subprocess.Popen[bytes]") -> Sequence[str]:
    return list(process.args)  # type: ignore[arg-type]


def _is_played(name: str) -> bool:
    """Whether a webhook (`mjob.kb.io`, `vworkload.kb.io`) is of what is played here."""
    return name[1:].removesuffix(".kb.io") in _WEBHOOKS


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
