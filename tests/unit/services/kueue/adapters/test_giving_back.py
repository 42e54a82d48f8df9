"""All Workloads go back to Kueue, and no queue asks Coplace any more."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from services.kueue.adapters.api import CONFIGS, RECORDS
from services.kueue.adapters.giving_back import CLUSTER_QUEUES, give_back
from services.kueue.settings import KueueClusters, clusters_of
from shared.kueue.paths import CHECKS, WORKLOADS
from tests.support.kueue_api import CHECK, MemoryKueue
from tests.unit.services.kueue.play import CORES, NODES, Play
from tests.unit.services.kueue.test_courses import ended, seconds

OTHER = {"name": "other"}


@dataclass
class Listed:
    """An API server that lists what it has."""

    server: MemoryKueue
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def list(self, path: str, selector: str) -> tuple[list[Mapping[str, Any]], str]:
        """All objects at a path."""
        found: dict[str, Any] = {
            CHECKS: self.server.check_objects(),
            WORKLOADS: self.server.workloads,
            RECORDS: self.server.records,
            CLUSTER_QUEUES: self.queues,
        }
        config = {"metadata": {"name": "workers"}, "spec": {"clusters": ["alpha", "beta"]}}
        found[CONFIGS] = {"workers": config}
        return list(found.get(path, {}).values()), "1"

    async def merge(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A queue changes: Kueue asks for other checks."""
        name = path.rpartition("/")[2]
        self.queues[name]["spec"] = dict(body["spec"])
        self.server.checks = ()
        return self.queues[name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.server, name)


def queue(name: str, *names: str) -> dict[str, Any]:
    strategy = {"admissionChecks": [{"name": each} for each in names]}
    metadata = {"name": name, "resourceVersion": "3"}
    return {"metadata": metadata, "spec": {"admissionChecksStrategy": strategy}}


def there(folder: Path, *names: str, managers: tuple[str, ...] = ()) -> KueueClusters:
    of_each = {"node_model": "m", "pstates_ghz": [2.1], "idle_power_w": 1, "peak_bandwidth_gbps": 1}
    told = {
        "clusters": [{"name": name, **deepcopy(of_each)} for name in names],
        "managers": [{"name": name} for name in managers],
    }
    file = folder / "clusters.yaml"
    file.write_text(yaml.safe_dump(told))
    return clusters_of(file)


async def test_what_waits_starts_and_no_queue_asks_any_more(tmp_path: Path) -> None:
    play = Play()
    first = play.home.submit("first", pods=NODES, cpu=CORES)
    await seconds(play, 3)
    second = play.home.submit("second", pods=NODES, cpu=CORES)
    play.kueue()
    api = Listed(play.home, {"batch": queue("batch", CHECK, "other")})
    done = await give_back(
        {"alpha": api}, there(tmp_path, "alpha"), play.terms, lambda: play.region.now_us
    )
    assert (done.workloads, done.queues) == (1, ["batch of alpha"])
    assert api.queues["batch"]["spec"] == {"admissionChecksStrategy": {"admissionChecks": [OTHER]}}
    play.kueue()
    assert play.home.condition(second, "Admitted")
    third = play.home.submit("third")
    play.home.finish(first)
    await seconds(play, 5)
    assert play.home.condition(third, "Admitted"), "Coplace is not asked"
    for key in (second, third):
        play.home.finish(key)
    await ended(play)
    assert len(play.region.charges()) == 2, "what Coplace had a say on is counted"


async def test_a_manager_sends_what_waits_to_any_worker(tmp_path: Path) -> None:
    play = Play(("alpha", "beta"), "manager")
    key = play.home.submit("lu")
    play.kueue()
    apis = {name: Listed(server) for name, server in play.servers.items()}
    found = there(tmp_path, "alpha", "beta", managers=("manager",))
    done = await give_back(apis, found, play.terms)
    assert done == (1, [])
    assert play.home.workloads[key]["status"]["nominatedClusterNames"] == ["alpha", "beta"]


async def test_a_queue_without_other_checks_has_none(tmp_path: Path) -> None:
    play = Play()
    api = Listed(play.home, {"batch": queue("batch", CHECK), "other": queue("other", "other")})
    done = await give_back(
        {"alpha": api}, there(tmp_path, "alpha"), play.terms, lambda: play.region.now_us
    )
    assert done.queues == ["batch of alpha"]
    assert api.queues["batch"]["spec"] == {"admissionChecksStrategy": None}
