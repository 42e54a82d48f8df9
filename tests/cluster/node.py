"""A real Kubernetes of one node on this machine: etcd, API server, controllers, scheduler, kubelet
and kube-proxy on Debian's containerd, everything in one folder, and stopped by process id.

A name server answers for Services out of what the API server knows, where a cluster has CoreDNS.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

ADDRESS: Final = "10.89.77.1"
_BRIDGE: Final = "coplace0"
_PODS: Final = "10.89.77.0/24"
_SERVICES: Final = "10.96.0.0/16"
_NODE: Final = "node"
_TOKEN: Final = "of-this-run"
_READY_WITHIN_S: Final = 240.0
_POLL_S: Final = 0.5


class ClusterError(Exception):
    """The cluster, or a command on it, did not do what was asked."""


class Cluster:
    """One that runs; `kubectl` and `helm` are programs."""

    def __init__(self, folder: Path, programs: Path, tools: Path) -> None:
        self.folder = folder
        self._programs = programs
        self._tools = tools
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._stopping = threading.Event()

    def kubectl(self, *arguments: str) -> str:
        """What `kubectl ARGUMENTS` prints. Raises ClusterError with what it complains about."""
        return self._call("kubectl", arguments)

    def helm(self, *arguments: str) -> str:
        """The same of helm."""
        return self._call("helm", arguments)

    def get(self, *arguments: str) -> list[dict[str, Any]]:
        """What `kubectl get` finds."""
        found: list[dict[str, Any]] = json.loads(
            self.kubectl("get", *arguments, "--output", "json")
        )["items"]
        return found

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """Have these resources."""
        file = self.folder / "applied.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        self.kubectl("apply", "--filename", str(file))

    def load(self, archive: Path) -> None:
        """Give the node the images of `podman save`."""
        socket = self.folder / "containerd.sock"
        command = ["ctr", "--address", str(socket), "--namespace", "k8s.io", "images", "import"]
        _run([*command, str(archive)], os.environ)

    def wait(self, what: str, until: Callable[[], bool], within_s: float = _READY_WITHIN_S) -> None:
        """Return when it is so. Raises ClusterError."""
        deadline_s = time.monotonic() + within_s
        while not until():
            if time.monotonic() > deadline_s:
                raise ClusterError(f"{what}: not within {within_s:g} s")
            for name, process in self._started.items():
                if process.poll() is not None:
                    raise ClusterError(f"{name} ended: {self._end_of_log(name)}")
            time.sleep(_POLL_S)

    def start(self) -> None:
        """Start everything and return when the node is ready. Raises ClusterError."""
        self._write_files()
        self._link()
        self._start("etcd", *self._etcd())
        self._start(str(self._programs / "kube-apiserver"), *self._api_server())
        self.wait("the API server is ready", lambda: self._answers("/readyz"))
        config = f"--kubeconfig={self._config}"
        key = self.folder / "accounts.key"
        self._start(
            str(self._programs / "kube-controller-manager"),
            config,
            f"--service-account-private-key-file={key}",
            "--use-service-account-credentials=false",
            "--leader-elect=false",
            "--controllers=*,-node-ipam-controller",
        )
        self._start(str(self._programs / "kube-scheduler"), config, "--leader-elect=false")
        self._start("containerd", f"--config={self.folder / 'containerd.toml'}")
        self.wait("containerd listens", (self.folder / "containerd.sock").exists)
        self._start(
            str(self._programs / "kubelet"),
            config,
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--hostname-override={_NODE}",
            f"--node-ip={ADDRESS}",
            f"--root-dir={self.folder / 'kubelet'}",
        )
        self._start(
            str(self._programs / "kube-proxy"),
            config,
            f"--hostname-override={_NODE}",
            "--proxy-mode=iptables",
            "--masquerade-all",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            f"--metrics-bind-address={ADDRESS}:10249",
            f"--healthz-bind-address={ADDRESS}:10256",
        )
        hosts = self.folder / "hosts"
        hosts.write_text("")
        names = self._start(
            "dnsmasq",
            "--keep-in-foreground",
            "--no-resolv",
            "--no-hosts",
            f"--addn-hosts={hosts}",
            "--local-ttl=0",
            "--local=/cluster.local/",
            f"--listen-address={ADDRESS}",
            "--bind-interfaces",
            "--user=root",
        )
        threading.Thread(target=self._name, args=(hosts, names), daemon=True).start()
        self.wait("the node is ready", self._is_ready)

    def stop(self) -> None:
        """End every process that was started, pods before the node, and what it left behind."""
        self._stopping.set()
        kubelet = self._started.pop("kubelet", None)
        if kubelet is not None:
            _end(kubelet)
            self._end_pods()
        for process in reversed(self._started.values()):
            _end(process)
        self._unmount()
        proxy = str(self._programs / "kube-proxy")
        subprocess.run([proxy, "--cleanup"], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", _BRIDGE], capture_output=True, check=False)

    def log(self, pod: str, lines: int = 30) -> str:
        """The end of what a pod wrote."""
        found = sorted((self.folder / "logs").glob(f"*_{pod}_*/*/*.log"))
        return "\n".join(
            line
            for file in found
            for line in file.read_text(errors="replace").splitlines()[-lines:]
        )

    @property
    def _config(self) -> Path:
        return self.folder / "kubeconfig"

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        name = Path(command[0]).name
        log = self._log_file(name).open("wb")
        # The kernel ends them with us, whatever happens.
        dies_with_us = ["setpriv", "--pdeathsig", "TERM"]
        process = subprocess.Popen(
            [*dies_with_us, *command], stdout=log, stderr=log, start_new_session=True
        )
        self._started[name] = process
        return process

    def _log_file(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _end_of_log(self, name: str) -> str:
        return self._log_file(name).read_text(errors="replace")[-2_000:]

    def _call(self, program: str, arguments: Sequence[str]) -> str:
        environment = {**os.environ, "KUBECONFIG": str(self._config)}
        return _run([str(self._tools / program), *arguments], environment)

    def _answers(self, path: str) -> bool:
        try:
            return self.kubectl("get", "--raw", path) == "ok"
        except ClusterError:
            return False

    def _is_ready(self) -> bool:
        return any(
            each["type"] == "Ready" and each["status"] == "True"
            for node in self.get("nodes")
            for each in node["status"].get("conditions", ())
        )

    def _link(self) -> None:
        """The bridge of the pods: the node's address is on it before the first of them."""
        subprocess.run(["ip", "link", "delete", _BRIDGE], capture_output=True, check=False)
        for command in (
            ["ip", "link", "add", _BRIDGE, "type", "bridge"],
            ["ip", "address", "add", f"{ADDRESS}/24", "dev", _BRIDGE],
            ["ip", "link", "set", _BRIDGE, "up"],
        ):
            _run(command, os.environ)

    def _etcd(self) -> list[str]:
        client, peer = f"http://{ADDRESS}:2379", f"http://{ADDRESS}:2380"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        ]

    def _api_server(self) -> list[str]:
        key = self.folder / "accounts.key"
        return [
            f"--etcd-servers=http://{ADDRESS}:2379",
            f"--bind-address={ADDRESS}",
            f"--advertise-address={ADDRESS}",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={_SERVICES}",
            "--authorization-mode=Node,RBAC",
            "--kubelet-preferred-address-types=InternalIP",
        ]

    def _write_files(self) -> None:
        self.folder.mkdir(parents=True)
        command = ["openssl", "genrsa", "-out", str(self.folder / "accounts.key"), "2048"]
        _run(command, os.environ)
        (self.folder / "tokens.csv").write_text(f"{_TOKEN},admin,admin,system:masters\n")
        self._config.write_text(json.dumps(_kubeconfig()))
        (self.folder / "kubelet.yaml").write_text(json.dumps(self._kubelet()))
        (self.folder / "containerd.toml").write_text(self._containerd())
        network = self.folder / "network"
        network.mkdir()
        (network / "10-pods.conflist").write_text(json.dumps(_network()))

    def _kubelet(self) -> Mapping[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": ADDRESS,
            "healthzBindAddress": ADDRESS,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "containerRuntimeEndpoint": f"unix://{self.folder / 'containerd.sock'}",
            "clusterDNS": [ADDRESS],
            "clusterDomain": "cluster.local",
            "podLogsDir": str(self.folder / "logs"),
            "resolvConf": "",
            "evictionHard": {"memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,
            "imageMaximumGCAge": "0s",
        }

    def _containerd(self) -> str:
        return f"""version = 2
root = "{self.folder}/containerd"
state = "{self.folder}/containerd-state"
[grpc]
  address = "{self.folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/sandbox:latest"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{self.folder}/network"
"""

    def _name(self, hosts: Path, names: "subprocess.Popen[bytes]") -> None:
        """Give the name server the addresses of Services and of the pods behind headless ones."""
        while not self._stopping.wait(_POLL_S):
            try:
                lines = sorted(self._addresses())
            except (ClusterError, KeyError):
                continue
            text = "".join(f"{address} {name}\n" for address, name in lines)
            if text != hosts.read_text():
                hosts.write_text(text)
                names.send_signal(1)

    def _addresses(self) -> Iterator[tuple[str, str]]:
        for found in self.get("services,endpointslices", "--all-namespaces"):
            meta = found["metadata"]
            domain = f"{meta['namespace']}.svc.cluster.local"
            if found["kind"] == "Service":
                if found["spec"]["clusterIP"] != "None":
                    yield found["spec"]["clusterIP"], f"{meta['name']}.{domain}"
            elif "service.kubernetes.io/headless" in meta["labels"]:
                name = meta["labels"]["kubernetes.io/service-name"]
                for endpoint in found["endpoints"] or ():
                    if endpoint["conditions"].get("ready"):
                        yield endpoint["addresses"][0], f"{name}.{domain}"

    def _unmount(self) -> None:
        """What pods and their volumes had mounted."""
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in reversed(mounts):
            if mount.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)

    def _end_pods(self) -> None:
        """Kubelet leaves its pods running."""
        socket = str(self.folder / "containerd.sock")
        ctr = ["ctr", "--address", socket, "--namespace", "k8s.io", "tasks"]
        for task in _run([*ctr, "list", "--quiet"], os.environ).split():
            for do in (["kill", "--signal", "SIGKILL"], ["delete", "--force"]):
                subprocess.run([*ctr, *do, task], capture_output=True, check=False)


@contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, for as long as the block lasts."""
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _kubeconfig() -> Mapping[str, Any]:
    server = {"server": f"https://{ADDRESS}:6443", "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": server}],
        "users": [{"name": "admin", "user": {"token": _TOKEN}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}],
        "current-context": "here",
    }


def _network() -> Mapping[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": _BRIDGE,
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": _PODS, "rangeStart": "10.89.77.10"}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": "/run/coplace-cluster-addresses",
        },
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def _run(command: Sequence[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, errors="replace"
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-4_000:]
        raise ClusterError(f"{' '.join(command[:4])} ... failed:\n{said}")
    return done.stdout


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
