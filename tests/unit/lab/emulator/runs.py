"""Jobs on two emulated clusters of 16 nodes, started by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from google.protobuf.message import Message

from lab.emulator.effects import NONE
from lab.emulator.emulator import Emulator, RoundOutput
from lab.workloads.clusters import clusters as emulated_clusters
from lab.workloads.request import JobRequest
from shared.domain.cluster import Cluster

CLUSTERS = emulated_clusters(nodes=16)
P1, P2 = CLUSTERS


def request(index: int = 0, **changes: Any) -> JobRequest:
    values: dict[str, Any] = {
        "index": index,
        "app_id": "STREAM",
        "user": "user01",
        "account": "account1",
        "nodes": 2,
        "shareable": False,
        "repetitions": 10.0,
        "walltime_s": 3600.0,
        "submit_s": 0.0,
        "reference_cluster": "p1",
    }
    return JobRequest(**(values | changes))


def payloads(outputs: Sequence[RoundOutput], kind: type[Message]) -> list[Any]:
    found = (published.event.payload for output in outputs for published in output.events)
    return [payload for payload in found if isinstance(payload, kind)]


def start(job: JobSubmitted, **changes: Any) -> PlacementDecided:
    values: dict[str, Any] = {
        "job_id": job.job_id,
        "attempt": 1,
        "round": 1,
        "verdict": VERDICT_START,
        "cluster": "p1",
        "freq_ghz": 2.7,
        "node_indices": [3, 4],
        "cores_per_node": 24 if job.shareable else 48,
        "walltime_s": 3600.0,
    }
    return PlacementDecided(**(values | changes))


def in_round_one(
    *requests: JobRequest, clusters: Sequence[Cluster] = CLUSTERS, **options: Any
) -> tuple[Emulator, list[JobSubmitted]]:
    """Jobs behave as published, unless `options` say by which effects they do not."""
    emulator = Emulator(requests, clusters, 1, **({"effects": NONE} | options))
    emulator.next_round()
    emulator.apply([])
    return emulator, payloads([emulator.next_round()], JobSubmitted)


def to_the_end(emulator: Emulator) -> list[RoundOutput]:
    outputs = []
    while not emulator.finished:
        outputs.append(emulator.next_round())
        emulator.apply([])
    return outputs


def until(
    kind: type[Message],
    emulator: Emulator,
    decided: Mapping[int, Sequence[PlacementDecided]] | None = None,
) -> list[RoundOutput]:
    """Rounds until something is published, with what is decided in each by its number."""
    outputs: list[RoundOutput] = []
    while not payloads(outputs, kind):
        outputs.append(emulator.next_round())
        emulator.apply((decided or {}).get(outputs[-1].round.number, []))
    return outputs


def ran(asked: JobRequest, *, options: Any = None, **changes: Any) -> list[RoundOutput]:
    """What is said from the round after the start of one job to the end."""
    emulator, [job] = in_round_one(asked, **(options or {}))
    emulator.apply([start(job, **changes)])
    return to_the_end(emulator)
