"""What a job asks of each of its nodes."""

from typing import Any

import pytest

from services.slurm.model.jobs import SlurmJob
from services.slurm.model.shapes import NodeShape, NodeShapes
from services.slurm.model.units import asked_units
from tests.unit.services.slurm.fields import JOB

# Two sockets of two cores of two threads, with two GPUs.
SHAPE = NodeShape(8, 2, 2, 2, 0, {"gpu": 2})


def asked(*, by_core: bool = True, **fields: Any) -> tuple[int, int, dict[str, int]]:
    found = asked_units(SlurmJob({**JOB, **fields}), SHAPE, by_core=by_core)
    return found.nodes, found.cpus, dict(found.gres)


def tres(cpus: int, nodes: int = 1) -> dict[str, Any]:
    return {"tres_req_str": f"cpu={cpus},mem=1G,node={nodes}", "cpus": cpus, "tasks": cpus}


def test_a_cpu_of_a_job_is_a_whole_core_where_slurm_gives_whole_cores() -> None:
    assert asked(**tres(1)) == (1, 2, {})
    assert asked(**tres(3)) == (1, 4, {})
    assert asked(by_core=False, **tres(3)) == (1, 3, {})


@pytest.mark.parametrize(
    ("fields", "cpus"),
    [({"threads_per_core": 1}, 6), ({"threads_per_core": 2}, 4), ({"tasks_per_core": 1}, 6)],
)
def test_a_job_with_fewer_threads_or_tasks_a_core_has_more_cores(
    fields: dict[str, Any], cpus: int
) -> None:
    assert asked(**{**tres(3), **fields}) == (1, cpus, {})


def test_a_job_that_no_node_holds_has_as_many_as_hold_it() -> None:
    assert asked(**tres(12), node_count=2) == (2, 6, {})
    assert asked(**tres(12)) == (2, 6, {})
    assert asked(**tres(20), threads_per_core=1) == (5, 8, {})
    assert asked(**tres(1), tres_per_job="gres:gpu:3") == (2, 2, {"gpu": 2})


def test_a_job_that_may_have_no_more_nodes_asks_for_what_no_node_has() -> None:
    assert asked(**tres(12), max_nodes=1) == (1, 12, {})


def test_tasks_that_share_cpus_have_as_many_nodes_as_their_cpus_need() -> None:
    assert asked(**{**tres(1), "tasks": 12, "node_count": 2}) == (1, 2, {})


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({"tres_per_node": "gres:gpu:2"}, 2),
        ({"tres_per_job": "gres/gpu:2"}, 1),
        ({"tres_per_task": "gres/gpu=1"}, 1),
        ({"tres_per_socket": "gres:gpu:1", "sockets_per_node": 2}, 2),
        ({"tres_req_str": "cpu=2,node=2,gres/gpu=4"}, 2),
    ],
)
def test_things_that_the_site_does_not_account_for_are_asked_of_each_node(
    fields: dict[str, Any], gpus: int
) -> None:
    assert asked(**{**tres(2, 2), "node_count": 2, **fields}) == (2, 2, {"gpu": gpus})


def test_cpus_and_memory_of_each_gpu_are_those_of_the_node() -> None:
    fields = {
        "tres_per_job": "gres:gpu:2",
        "cpus_per_tres": "gres:gpu:3",
        "memory_per_tres": "gres:gpu:512",
    }
    found = asked_units(SlurmJob({**JOB, **tres(1), **fields}), SHAPE, by_core=True)
    assert (found.cpus, found.memory_gib) == (6, 1.0)


@pytest.mark.parametrize(
    ("fields", "memory_gib"),
    [
        ({}, 1.0),
        ({"memory_per_node": 2048}, 2.0),
        ({"memory_per_cpu": 1024}, 4.0),
        ({"memory_per_cpu": 1024, "threads_per_core": 1}, 3.0),
    ],
)
def test_memory_of_a_cpu_is_that_of_each_that_slurm_gives(
    fields: dict[str, Any], memory_gib: float
) -> None:
    found = asked_units(SlurmJob({**JOB, **tres(3), **fields}), SHAPE, by_core=True)
    assert found.memory_gib == memory_gib


def test_nodes_that_lack_what_a_job_asks_of_a_node_are_unsuited() -> None:
    node = {"cpus": 8, "sockets": 2, "cores": 2, "threads": 2, "partitions": ["all"]}
    disks_mib = {"n1": 1000, "n2": 0, "n3": 0}
    shapes = NodeShapes(
        {**node, "name": name, "temporary_disk": disks_mib[name]} for name in disks_mib
    )
    of = {**JOB, "partition": "all"}
    assert shapes.unsuited(SlurmJob(of)) == []
    assert shapes.unsuited(SlurmJob({**of, "minimum_tmp_disk_per_node": 500})) == ["n[2-3]"]
    assert shapes.unsuited(SlurmJob({**of, "cores_per_socket": 4})) == ["n[1-3]"]
    assert shapes.most(SlurmJob(of)) == NodeShape(8, threads=2)
    assert shapes.most(SlurmJob({**of, "partition": "other"})) is None
