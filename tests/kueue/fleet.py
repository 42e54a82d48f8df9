"""A manager of MultiKueue, and workers whose nodes run applications as the emulator has them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from lab.benchmarks.kubernetes.cluster import MANAGER
from lab.emulator.truth.laws import Behaviour
from lab.emulator.truth.noise import Noise
from lab.emulator.truth.runs import EmulatedTruth
from lab.workloads.clusters import IDLE_POWER_W, PEAK_BANDWIDTH_GBPS, PROCESSORS_TDP_W
from lab.workloads.table1 import GOLD_6254, NODE_MODELS, PLATINUM_8168
from shared.kubernetes.names import FREQUENCY_GHZ
from shared.kueue.names import APP
from tests.kueue.cluster import KueueCluster
from tests.kueue.kinds import OF
from tests.kueue.kubelets import KueueKubelets
from tests.kueue.relay import Relay

SEED: Final = 1
CORES: Final = 4
APPS: Final = ("lu.C", "ep.D", "bt-mz.C", "sp-mz.C", "lu-mz.C", "ua.C", "DGEMM", "STREAM")
SHAPES: Final = ((1, CORES), (1, CORES), (2, CORES), (4, CORES))
"""Pods that have a node each, so that what a node draws is what its pod does."""
_MODELS: Final = {each.name: each for each in NODE_MODELS.values()}
WORKERS: Final = {
    "alpha": GOLD_6254.name,
    "beta": PLATINUM_8168.name,
    "gamma": GOLD_6254.name,
}


@cache
def truth(app: str, node_model: str, freq_ghz: float) -> Behaviour:
    """Return how an application runs on a node."""
    return EmulatedTruth(Noise(SEED)).application(app, _MODELS[node_model], freq_ghz)


class PodRun(NamedTuple):
    """One pod on its node, s since 1970."""

    worker: str
    name: str
    app: str
    freq_ghz: float
    power_w: float
    began_s: float
    ended_s: float

    @property
    def energy_j(self) -> float:
        """Return what its node drew."""
        return self.power_w * (self.ended_s - self.began_s)


class WorkerKubelets(KueueKubelets):
    """Nodes of a worker. An application takes the time that the emulator has for the node model
    and the clock: its pods say what it takes on the fastest one."""

    def __init__(self, cluster: KueueCluster, node_model: str) -> None:
        super().__init__(cluster)
        self._model = _MODELS[node_model]
        self._worker = cluster.name
        self._clocks: dict[str, tuple[str, str, float]] = {}

    def runs_s(self, pod: Mapping[str, Any]) -> float:
        """Return for how long a pod runs."""
        metadata, fastest = pod["metadata"], GOLD_6254
        app = metadata["labels"][APP]
        told = metadata["annotations"].get(FREQUENCY_GHZ)
        freq_ghz = float(told) if told else max(self._model.pstates_ghz)
        self._clocks[metadata["uid"]] = (metadata["annotations"][OF], app, freq_ghz)
        least = truth(app, fastest.name, max(fastest.pstates_ghz)).time_s
        return super().runs_s(pod) * truth(app, self._model.name, freq_ghz).time_s / least

    def runs(self) -> Iterator[PodRun]:
        """Yield what ran to its end."""
        for uid, (name, app, freq_ghz) in self._clocks.items():
            began_s, ended_s = self.ready_s[name][uid], self.ended_s.get(name, {}).get(uid)
            if ended_s is not None:
                power_w = truth(app, self._model.name, freq_ghz).power_w
                yield PodRun(self._worker, name, app, freq_ghz, power_w, began_s, ended_s)


@dataclass
class Fleet:
    """What is seen of all workers together."""

    workers: Mapping[str, WorkerKubelets]
    relays: Mapping[str, Relay] = field(default_factory=dict)

    @property
    def ready(self) -> Mapping[str, Mapping[str, str]]:
        """Return when the pods of each Workload were ready."""
        return _merged(each.ready for each in self.workers.values())

    @property
    def ended(self) -> Mapping[str, Mapping[str, str]]:
        """Return when they ended."""
        return _merged(each.ended for each in self.workers.values())

    @property
    def ready_s(self) -> Mapping[str, Mapping[str, float]]:
        """Return when they were ready, s since 1970."""
        return _merged(each.ready_s for each in self.workers.values())

    @property
    def ended_s(self) -> Mapping[str, Mapping[str, float]]:
        """Return when they ended, s since 1970."""
        return _merged(each.ended_s for each in self.workers.values())

    def runs(self, names: Mapping[str, Any]) -> list[PodRun]:
        """Return the pods of these Workloads that ran to their end."""
        return [run for each in self.workers.values() for run in each.runs() if run.name in names]


def _merged(found: Iterator[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for each in found:
        for name, pods in each.items():
            merged.setdefault(name, {}).update(pods)
    return merged


def kubeconfig(cluster: KueueCluster, port: int, token: str) -> Mapping[str, Any]:
    """Return a kubeconfig by way of a relay; Kueue takes none without an authority."""
    where = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority-data": cluster.authority,
    }
    context = {"cluster": cluster.name, "user": MANAGER}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster.name, "cluster": where}],
        "users": [{"name": MANAGER, "user": {"token": token}}],
        "contexts": [{"name": cluster.name, "context": context}],
        "current-context": cluster.name,
    }


def entry(cluster: KueueCluster, port: int) -> Mapping[str, Any]:
    """Return what the adapter's file says of a worker."""
    model = _MODELS[WORKERS[cluster.name]]
    path = Path(cluster.folder) / "kubeconfig-relay.yaml"
    path.write_text(yaml.safe_dump(kubeconfig(cluster, port, "manager")))
    return {
        "name": cluster.name,
        "kubeconfig": str(path),
        "node_model": model.name,
        "pstates_ghz": list(model.pstates_ghz),
        "idle_power_w": IDLE_POWER_W[model.name],
        "peak_bandwidth_gbps": PEAK_BANDWIDTH_GBPS[model.name],
        "processors_tdp_w": PROCESSORS_TDP_W[model.name],
    }
