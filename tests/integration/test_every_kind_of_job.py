"""One job of each kind that a resource manager can submit, over gRPC to ingest and placement as
processes on real Kafka: `coplace why` says why each waits. `-s` prints what it says of each."""

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from coplace.v1.control_pb2 import ManagerAlive, NodeClass, Partition
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_CORR,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_SINGLETON,
    REFUSED_KIND_PARTITION,
    Dependency,
    JobDeclined,
    Part,
)

from deploy.local.servers import LocalServers
from tests.support.placement_region import Region, cluster, job

HOUR_US: Final = 3_600_000_000
SILENT: Final = "a silent manager"
IN_ARRAY: Final = "north/alpha/3/1767225600"
RUNNING: Final = "north/alpha/2/1767225600"


def awaits(condition: Any, job_id: str = RUNNING, delay_s: float = 0) -> dict[str, Any]:
    """What a job says that waits for another one."""
    return {"depends_on": [Dependency(job_id=job_id, condition=condition, delay_s=delay_s)]}


def in_us(hours: float) -> int:
    """A time so many hours from now on."""
    return time.time_ns() // 1000 + round(hours * HOUR_US)


# What a job of each kind says, and what has to be among the words that it waits by.
KINDS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "whole nodes": ({"nodes": 2}, "needs 2 nodes, 0 free"),
    "a partition": ({"partitions": ["debug"]}, "where it may be, 0 free"),
    "any of two partitions": ({"partitions": ["debug", "batch"]}, "needs 1 nodes, 0 free"),
    "a partition that is down": ({"partitions": ["night"]}, "partition night is down"),
    "features": ({"features": "big&(a100|h100)"}, "where it may be, 0 free"),
    "a feature that no node has": ({"features": "tpu"}, "no node of"),
    "nodes wanted": ({"nodes_wanted": ["iota-0003"]}, "where it may be, 0 free"),
    "nodes excluded": ({"nodes_excluded": ["iota-[0000-0002]"]}, "where it may be, 0 free"),
    "a reservation": ({"reservation": "course"}, "its reservation course begins at"),
    "a reservation that is not there": ({"reservation": "lecture"}, "no cluster that the job may"),
    "a QOS with a limit": ({"qos": "one"}, "qos one may run 1 jobs at once"),
    "any of two clusters": ({"clusters": ["iota", "kappa"]}, "no word from its resource manager"),
    "a begin time": ({"begin_at_us": in_us(2)}, "submitted to begin not before"),
    "a deadline that can be met": ({"deadline_at_us": in_us(48)}, "needs 1 nodes, 0 free"),
    "a deadline that cannot be met": ({"deadline_at_us": in_us(0.5)}, "the earliest end was"),
    "after": (awaits(DEPENDENCY_CONDITION_AFTER), f"after {RUNNING}: it has not started"),
    "afterany": (awaits(DEPENDENCY_CONDITION_AFTER_ANY), f"{RUNNING}: it has not ended"),
    "afterok, with a delay": (
        awaits(DEPENDENCY_CONDITION_AFTER_OK, delay_s=600),
        f"after_ok {RUNNING}: it has not ended",
    ),
    "afternotok": (awaits(DEPENDENCY_CONDITION_AFTER_NOT_OK), f"after_not_ok {RUNNING}"),
    "singleton": (
        awaits(DEPENDENCY_CONDITION_SINGLETON, "") | {"job_name": "train"},
        f"singleton {RUNNING}: it goes first",
    ),
    "an array": ({"array": "0-99999", "array_at_most": 3}, "tasks: 100000, at most 3 at once"),
    "aftercorr": (
        awaits(DEPENDENCY_CONDITION_AFTER_CORR, IN_ARRAY) | {"array": "0-9"},
        f"after_corr {IN_ARRAY}: it has not ended",
    ),
    "a gang": (
        {"nodes": 3, "parts": [Part(units=1, features="big"), Part(units=4, units_per_node=2)]},
        "needs 3 nodes in 2 parts at once, 0 free",
    ),
    "cores": ({"cores_per_unit": 4, "shareable": True}, "1 unit of 4 cores"),
    "thousandths of a core": (
        {"cores_per_unit": 1, "millicores_per_unit": 250, "shareable": True},
        "of 0.25 cores",
    ),
    "memory": ({"cores_per_unit": 1, "memory_gib_per_unit": 12, "shareable": True}, "12288 MiB"),
    "GPUs of a kind": ({"resources_per_unit": {"gpu:a100": 2}}, "2 gpu:a100"),
    "MIG slices": ({"resources_per_unit": {"gpu:1g.5gb": 1}}, "1 gpu:1g.5gb"),
    "licences": ({"licences": {"matlab": 2}}, "needs 2 matlab, 1 of 2 of site north free"),
    "an interactive job": ({"is_interactive": True}, "expected start: "),
    "one that can't wait": ({"is_interactive": True, "starts_within_s": 60}, "was to start within"),
    "what its manager does not understand": ({"held_because": "--burst-buffer"}, "--burst-buffer"),
    SILENT: (
        {"clusters": ["kappa"], "home_cluster": "kappa", "reference_cluster": "kappa"},
        "no word from its resource manager, slurm of kappa",
    ),
}


_COURSE: Final = "--count 1 --from now+30days --for 9hours --user ada"
DECLARED: Final = (
    ("reservation", "set", "iota", "course", *_COURSE.split()),
    ("limits", "set", "qos", "one", "--jobs", "1"),
    ("licence", "set", "matlab", "2", "--site", "north"),
)


class Waiting:
    """A region whose nodes one job has, and a job of each kind that waits behind it."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.job_ids: dict[str, str] = {}
        classes = [
            NodeClass(
                nodes=2,
                memory_gib=64,
                resources={"gpu:a100": 4, "gpu:1g.5gb": 7},
                features=["big", "a100"],
            ),
            NodeClass(nodes=2, memory_gib=32),
        ]
        partitions = [
            Partition(name="batch", default=True),
            Partition(name="debug", nodes=["iota-0003"]),
            Partition(name="night", down=True),
        ]
        there = {"node_classes": classes, "partitions": partitions, "shares_unpredicted": True}
        for name, more in (("iota", there), ("kappa", {})):
            region.tell(cluster_declared=cluster(name, **more))
            region.until(lambda told, name=name: f"| {name}" in told, "nodes")  # type: ignore[misc]
        for line in DECLARED:
            assert "error" not in region.coplace(*line)
        alive = ManagerAlive(
            manager="slurm of kappa", clusters=["kappa"], silent_after_s=1, alive_at_us=in_us(0)
        )
        region.tell(manager_alive=alive)
        region.until(lambda told: "silent" in told, "clusters")
        has = {"job_name": "train", "qos": "one", "licences": {"matlab": 1}}
        running = job(2, 4, clusters=["iota"], reference_cluster="iota", **has)
        region.tell(job_submitted=running)
        region.until(lambda told: "is to start" in told, "why", running.job_id)
        array = job(3, 1, array="0-9", clusters=["iota"], reference_cluster="iota")
        region.tell(job_submitted=array)
        for number, (kind, (changes, _)) in enumerate(KINDS.items(), 4):
            one: dict[str, Any] = {
                "nodes": 1,
                "clusters": ["iota"],
                "reference_cluster": "iota",
            } | changes
            asked = job(number, one.pop("nodes"), **one)
            region.tell(job_submitted=asked)
            self.job_ids[kind] = asked.job_id


@pytest.fixture(scope="module")
def waiting(servers: LocalServers) -> Iterator[Waiting]:
    region = Region(servers, "kinds")
    yield Waiting(region)
    region.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_of_each_kind_says_why_it_waits(waiting: Waiting, kind: str) -> None:
    words, job_id = KINDS[kind][1], waiting.job_ids[kind]
    said = waiting.region.until(lambda told: words in told, "why", job_id)
    print(f"\n--- {kind}\n{said.strip()}")


def test_a_decline_names_the_partition_that_is_not_granted_again(waiting: Waiting) -> None:
    region, partitions = waiting.region, [Partition(name="long", default=True)]
    region.tell(cluster_declared=cluster("mu", nodes=1, partitions=partitions))
    region.until(lambda told: "| mu" in told, "nodes")
    asked = job(99, 1, clusters=["mu"], reference_cluster="mu")
    region.tell(job_submitted=asked)
    region.until(lambda told: "is to start" in told, "why", asked.job_id)
    declined = JobDeclined(
        job_id=asked.job_id,
        attempt=1,
        grant=1,
        reason="PartitionTimeLimit",
        declined_at_us=in_us(0),
        refused_kind=REFUSED_KIND_PARTITION,
        refused_name="long",
    )
    region.tell(job_declined=declined)
    said = region.until(lambda told: "mu refused it partition long" in told, "why", asked.job_id)
    print(f"\n--- declined\n{said.strip()}")
