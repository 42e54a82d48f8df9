"""What a job asks of a cluster."""

from typing import Any

import pytest

from coplace_client.errors import RejectedError
from shared.domain.cluster import Cluster
from shared.domain.job import Job


def cluster(**changes: Any) -> Cluster:
    values: dict[str, Any] = {
        "name": "p1",
        "site": "north",
        "node_model": "m",
        "nodes": 8,
        "cores_per_node": 48,
        "pstates_ghz": (2.7,),
        "idle_power_w": 100.0,
        "peak_bandwidth_gbps": 200.0,
        "memory_gib_per_node": 192.0,
        "architecture": "x86_64",
    }
    return Cluster(**(values | changes))


def job(**changes: Any) -> Job:
    values: dict[str, Any] = {
        "job_id": "a",
        "attempt": 1,
        "app_id": "",
        "user": "ada",
        "account": "physics",
        "nodes": 2,
        "walltime_s": 60.0,
        "reference_cluster": "p1",
        "shareable": False,
        "submit_s": 0.0,
    }
    return Job(**(values | changes))


@pytest.mark.parametrize(
    ("memory_gib", "shareable", "nodes"),
    [(0, False, 2), (384, False, 2), (385, False, 3), (385, True, 5), (1000, False, 6)],
)
def test_a_job_gets_the_nodes_that_hold_its_memory_and_not_fewer_than_it_asked_for(
    memory_gib: float, shareable: bool, nodes: int
) -> None:
    asked = job(memory_gib=memory_gib, shareable=shareable)
    assert asked.nodes_on(cluster()) == nodes


def test_where_memory_is_not_declared_the_nodes_are_those_asked_for() -> None:
    assert job(memory_gib=1e8).nodes_on(cluster(memory_gib_per_node=0)) == 2


def test_a_job_runs_where_it_has_a_binary_and_everywhere_if_it_names_none() -> None:
    assert job().runs_on(cluster())
    assert job(architectures=("aarch64", "x86_64")).runs_on(cluster())
    assert not job(architectures=("aarch64",)).runs_on(cluster())
    assert not job(architectures=("aarch64",)).runs_on(cluster(architecture=""))


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("priority", {"priority": 101}),
        ("priority", {"priority": -101}),
        ("memory_gib", {"memory_gib": float("nan")}),
        ("architectures", {"architectures": ("",)}),
        ("architectures", {"architectures": ("x",) * 17}),
    ],
)
def test_what_no_job_can_ask_for_is_refused(field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(RejectedError) as caught:
        job(**changes)
    assert caught.value.field == field


@pytest.mark.parametrize("memory_gib", [-1.0, 5e-324, float("inf")])
def test_a_node_has_a_plausible_memory(memory_gib: float) -> None:
    with pytest.raises(RejectedError, match="memory_gib_per_node"):
        cluster(memory_gib_per_node=memory_gib)


def test_a_cluster_names_all_of_its_nodes_or_none() -> None:
    assert cluster(node_names=("n[1-8]",)).names().name(7) == "n8"
    with pytest.raises(RejectedError, match="node_names: must be 8 as the nodes, got 7"):
        cluster(node_names=("n[1-7]",))
