"""What the adapter of Kueue keeps in memory of a cluster with many Workloads and nodes.

Usage: python -m lab.benchmarks.workload_memory [WORKLOADS [NODES]]

Objects come as an API server sends them: Workloads one after the other, nodes in a list of pages.
They go where watches put them. There is no server, and nobody is published to. Memory is the
resident set of this process, MiB.
"""

import asyncio
import gc
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import ShowNodesResponse

import services.kueue.app as _all_imports  # noqa: F401 what the process loads counts
from services.kueue.adapters.reconciler import ClustersKnown, WorkloadReconciler
from services.kueue.model.facts import KueueTerms, submission_of
from services.kueue.model.records import WorkloadRecord, recording
from services.kueue.processor.seen import WaitLimit
from shared.kubernetes.api import PAGE
from shared.kubernetes.explained_wait import ExplainedWait
from shared.kubernetes.node_reporter import NodeReporter
from shared.kubernetes.nodes import NodeTraits, trimmed_node
from shared.kubernetes.packed import PackedObjects, pack
from shared.kueue.workloads import trimmed

_CLUSTER: Final = "alpha"
_AT: Final = "2026-01-01T00:00:00Z"
_TERMS: Final = KueueTerms("north", "north/kueue", 3600, {_CLUSTER: "gold-6254"})
_TRAITS: Final = NodeTraits(
    cluster=_CLUSTER,
    site="north",
    node_model="gold-6254",
    pstates_ghz=(1.2, 3.1),
    idle_power_w=100,
    peak_bandwidth_gbps=140,
    architecture=_TERMS.architecture,
    tdp_w={},
    nameplate_power_w=0,
    processors_tdp_w=0,
)


class _Nobody:
    """Nothing is published, and nobody is asked."""

    async def tell(self, event: Envelope) -> None:
        pass

    async def explain(self, job_id: str) -> ExplainedWait | None:
        return None

    async def nodes(self, cluster: str) -> ShowNodesResponse:
        return ShowNodesResponse()


def memory_mib() -> float:
    """Return what this process has in memory, MiB, whatever others share of it."""
    gc.collect()
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return next(int(each.split()[1]) for each in lines if each.startswith("Rss:")) / 1024


async def main(workloads: int = 10_000, nodes: int = 5_000) -> None:
    """Print a row for each kind of object."""
    nobody = _Nobody()
    known = ClustersKnown({_CLUSTER: {}}, lambda _: {})
    reconciler = WorkloadReconciler({}, [], nobody, nobody, known, _TERMS, WaitLimit(), lambda: 0)
    _row("imports")
    for number in range(workloads):
        reconciler.changed(_CLUSTER, trimmed(_sent(_workload(number))))
    _row(f"{workloads:,} Workloads")
    for each in list(reconciler.mirror.workloads()):
        record = WorkloadRecord(submission_of(each, [_CLUSTER], _TERMS), workload_version="1")
        reconciler.see_record(_CLUSTER, _sent(recording(each, record)))
    _row("and their records")
    reporter = NodeReporter(_TRAITS, nobody, nobody, lambda: 1)
    reporter.replace(_CLUSTER, _listed_nodes(nodes))
    await reporter.declare()
    _row(f"and {nodes:,} nodes")


def _row(what: str) -> None:
    print(f"| {what} | {memory_mib():.0f} MiB |", flush=True)


def _sent(body: Mapping[str, Any]) -> Any:
    """Return an object with strings of its own, as one that was read has."""
    return orjson.loads(orjson.dumps(body))


def _listed_nodes(count: int) -> PackedObjects:
    """Return what is kept of a list, of which a page is read as a whole."""
    kept = list[bytes]()
    for first in range(0, count, PAGE):
        page = range(first, min(first + PAGE, count))
        found = orjson.loads(b"[%b]" % b",".join(orjson.dumps(_node(number)) for number in page))
        kept += (pack(trimmed_node(each)) for each in found)
    return PackedObjects(kept)


def _workload(number: int) -> Mapping[str, Any]:
    requests = {"cpu": "2", "memory": "4Gi"}
    container = {
        "name": "main",
        "image": "registry.example/lu:1",
        "resources": {"requests": requests, "limits": requests},
        "env": [{"name": f"LEVEL_{each}", "value": "1"} for each in range(10)],
    }
    template = {
        "metadata": {"labels": {"team": "physics"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    admission = {
        "name": "main",
        "flavors": dict.fromkeys(requests, "plain"),
        "resourceUsage": requests,
        "count": 1,
    }
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            **_named(f"job-lu-{number:05}", number),
            "namespace": "physics",
            "ownerReferences": [{"name": f"lu-{number:05}", "kind": "Job", "uid": f"{number}"}],
            "managedFields": [{"manager": "kueue", "fieldsV1": {key: {} for key in "abcdefghij"}}],
        },
        "spec": {
            "queueName": "main",
            "priority": 0,
            "active": True,
            "maximumExecutionTimeSeconds": 600,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
        "status": {
            "conditions": list(_conditions("QuotaReserved")),
            "admissionChecks": [{"name": "placement", "state": "Pending", "message": "Pending"}],
            "admission": {"clusterQueue": "main", "podSetAssignments": [admission]},
        },
    }


def _node(number: int) -> Mapping[str, Any]:
    there = {"cpu": "64", "memory": "192Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    name = f"{_CLUSTER}-{number:05}"
    return {
        "metadata": {**_named(name, number), "labels": {"kubernetes.io/hostname": name}},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "allocatable": there,
            "capacity": there,
            "conditions": list(_conditions("Ready", "MemoryPressure", "DiskPressure")),
            "images": [{"names": [f"registry.example/{each}"]} for each in range(50)],
        },
    }


def _named(name: str, number: int) -> Mapping[str, Any]:
    uid = f"00000000-0000-4000-8000-{number:012}"
    version = {"resourceVersion": str(1000 + number), "creationTimestamp": _AT}
    return {"name": name, "uid": uid, **version}


def _conditions(*names: str) -> Iterator[Mapping[str, Any]]:
    for name in names:
        status = "False" if name.endswith("Pressure") else "True"
        yield {"type": name, "status": status, "reason": name, "lastTransitionTime": _AT}


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
