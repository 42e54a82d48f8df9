"""Streams node samples: `python -m lab.benchmarks.system.telemetry SECONDS ADDRESS OUT`.

Each node of the emulated clusters sends a record of a minute's samples, one a second; a call ends
with the broker's acknowledgement, and the next begins.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Final

import orjson
from coplace.v1.telemetry_pb2 import NodeSample, NodeSamples

from lab.emulator import facts
from lab.emulator.adapters import EmulatorIngest
from lab.workloads.clusters import clusters
from shared.catalogue.event import Event, Publish
from shared.domain.cluster import Cluster
from shared.domain.node import node_name
from shared.process.clock import now_us
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment

SAMPLES: Final = 60
_POWER_W: Final = 350.0


def record(cluster: Cluster, node: int, until_us: int) -> Publish:
    """Return a minute of one node."""
    name = node_name(cluster.name, node)
    source = f"{facts.source(cluster)}/{name}"
    samples = [
        NodeSample(time_us=until_us - (SAMPLES - i) * 1_000_000, power_w=_POWER_W + i)
        for i in range(SAMPLES)
    ]
    payload = NodeSamples(
        node=name, cluster=cluster.name, node_model=cluster.node_model, samples=samples
    )
    event_id = f"{source}/{payload.DESCRIPTOR.full_name}/{until_us}/1"
    return Publish(facts.NODES, Event(event_id, source, until_us, name, payload))


async def stream(ingest: EmulatorIngest, cluster: Cluster, until_s: float) -> int:
    """Send one cluster's agents' samples, call after call; return acknowledged samples."""
    acknowledged = 0
    while time.monotonic() < until_s:
        records = [record(cluster, node, now_us()) for node in range(cluster.nodes)]
        await ingest.publish(records)
        acknowledged += len(records) * SAMPLES
    return acknowledged


async def samples_per_s(seconds: float, ingest_address: str) -> float:
    """Measure acknowledged samples a second, a stream a cluster."""
    deployment = Deployment.from_settings(settings())
    async with EmulatorIngest(deployment, ingest_address) as ingest:
        began_s = time.monotonic()
        counts = await asyncio.gather(
            *(stream(ingest, cluster, began_s + seconds) for cluster in clusters())
        )
        return sum(counts) / (time.monotonic() - began_s)


def main(seconds: str, ingest_address: str, out: str) -> None:
    """Stream and write the rate."""
    rate_per_s = asyncio.run(samples_per_s(float(seconds), ingest_address))
    Path(out).write_bytes(orjson.dumps({"samples_per_s": rate_per_s}))


if __name__ == "__main__":
    main(*sys.argv[1:])
