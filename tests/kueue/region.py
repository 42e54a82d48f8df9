"""Coplace beside Kueue, and what it charged."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from coplace.v1.pricing_pb2 import ChargeMade

from cli.kafka_topics import KafkaTopics
from cli.stages import create_topics
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.kubernetes.objects import time_us
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.kueue.kinds import POD_GROUP
from tests.kueue.rounds import Round, Watched, name_in

NAME: Final = "kueue"
_CHARGES: Final = "prices.charges"


def region(servers: LocalServers) -> Deployment:
    """Return the topics of Coplace, which are made."""
    bootstrap = servers.kafka_bootstrap
    settings = Settings(kafka_bootstrap=bootstrap, namespace=NAME, kafka_partitions=2)
    found = Deployment.from_settings(settings)
    create_topics(found)
    return found


def programs(
    there: Mapping[str, Any], folder: Path, *more: str, adapter: str = "kueue"
) -> list[Program]:
    """Return ingest, placement, pricing, the adapter of what its file of clusters says, and
    more services."""
    (folder / "clusters.yaml").write_text(yaml.safe_dump(there))
    names = ("ingest", "placement", "pricing", *more, adapter)
    own = f"COPLACE_{adapter.upper()}"
    ports = free_ports(2 + len(names))
    environment = {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COPLACE_NAMESPACE": NAME,
        "COPLACE_KAFKA_PARTITIONS": "2",
        "COPLACE_SESSION_TIMEOUT_S": "120",
        "COPLACE_INGEST_PORT": str(ports[0]),
        "COPLACE_PLACEMENT_PORT": str(ports[1]),
        "COPLACE_PRICING_GRACE_S": "0",
        f"{own}_SITE": "north",
        f"{own}_DEFAULT_WALLTIME_S": "600",
        f"{own}_CLUSTERS_FILE": str(folder / "clusters.yaml"),
        f"{own}_INGEST_ADDRESS": f"127.0.0.1:{ports[0]}",
        f"{own}_PLACEMENT_ADDRESS": f"127.0.0.1:{ports[1]}",
    }
    return [
        Program(
            name,
            [sys.executable, "-m", f"services.{name}"],
            {**environment, "COPLACE_HTTP_PORT": str(port)},
            f"http://127.0.0.1:{port}/readyz",
        )
        for name, port in zip(names, ports[2:], strict=True)
    ]


def charged(deployment: Deployment, kubelets: Watched, found: Round) -> int:
    """Print how charges differ from what the nodes saw; how many differ. What Coplace has no say on
    is charged nothing."""
    runs: dict[str, list[float]] = {}
    charged_su = 0.0
    for each in KafkaTopics(deployment).topic(_CHARGES):
        if isinstance(each.payload, ChargeMade):
            name = name_in(each.payload.job_id)
            runs.setdefault(name, []).append(each.payload.runtime_s)
            charged_su += float(each.payload.price_su) if name in found.submitted else 0.0
    wrong = 0
    for name in found.wait_s:
        ready, ended = kubelets.ready[name], kubelets.ended.get(name, {})
        real = (time_us(max(ended.values())) - time_us(max(ready.values()))) / 1e6 if ended else 0
        told = runs.get(name, [])
        if found.queue == "release":  # what runs by itself then may be charged nothing
            told = list(filter(None, told))
        is_its = found.queue in ("coplace", "silence", "upgrade") or (
            found.queue == "release" and told
        )
        least, late_s = [real] if is_its else [], _late_s(kubelets, found, name)
        if len(told) != len(least) or not 0 <= sum(told) - sum(least) <= late_s:
            wrong += 1
            kind = found.submitted[name][0].kind
            print(f"{name}, a {kind}: ran {real} s, charged {told}; ready {ready}, ended {ended}")
    print(f"{found.queue}: charges other than what ran: {wrong} of {len(found.wait_s)}")
    print(f"{found.queue}: charged {charged_su:.2f} service units")
    return wrong


def _late_s(kubelets: Watched, found: Round, name: str) -> float:
    """Return for how long after its end nobody was there who could see it, s."""
    if found.submitted[name][0].kind == POD_GROUP:
        return 0.0
    ended_s = max(kubelets.ended_s.get(name, {}).values(), default=0.0)
    unseen = (until_s - ended_s for since_s, until_s in found.away if since_s <= ended_s <= until_s)
    return max(unseen, default=0.0)
