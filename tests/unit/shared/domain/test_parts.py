"""Parts of a gang, and what they ask for together."""

from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JobSubmitted, Part

from coplace_client.bounds import MOST_NODES
from coplace_client.errors import RejectedError
from shared.catalogue.payloads.domain_types import (
    asked_memory_gib,
    asked_resources,
    part_message,
    parts_of,
)
from shared.domain import job
from shared.domain.job import Job
from shared.domain.parts import JobPart, total_resources

GPUS = (("gpu", 2),)


@pytest.mark.parametrize(
    ("units", "per_node", "nodes", "on_a_node"),
    [(1, 1, 1, 1), (5, 2, 3, 2), (4, 2, 2, 2), (1, 8, 1, 1)],
)
def test_units_fill_nodes_and_the_rest_is_on_the_last(
    units: int, per_node: int, nodes: int, on_a_node: int
) -> None:
    part = JobPart(units, per_node, 3, 1.5, GPUS)
    assert part.nodes == nodes
    assert part.millicores_per_node == 3000 * on_a_node
    assert part.memory_gib_per_node == 1.5 * on_a_node
    assert part.resources_per_node == (("gpu", 2 * on_a_node),)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"units": 0}, "units"),
        ({"units": 1, "units_per_node": 0}, "units_per_node"),
        ({"units": 1, "cores_per_unit": 10_001}, "cores_per_unit"),
        ({"units": 1, "resources_per_unit": (("", 1),)}, "resources_per_unit"),
    ],
)
def test_a_part_of_nothing_or_beyond_its_bounds_is_refused(
    values: dict[str, Any], field: str
) -> None:
    with pytest.raises(RejectedError) as refused:
        JobPart(**values)
    assert refused.value.field == field


def test_resources_of_parts_are_those_of_all_units() -> None:
    parts = JobPart(5, 2, resources_per_unit=GPUS), JobPart(1, resources_per_unit=(("disk", 1),))
    assert total_resources(parts) == (("disk", 1), ("gpu", 10))


def test_a_gang_asks_for_what_its_parts_do_whatever_its_nodes_are() -> None:
    gang = JobSubmitted(nodes=4)
    gang.parts.append(Part(units=5, units_per_node=2, memory_gib_per_unit=2.0))
    gang.parts.append(Part(units=1, resources_per_unit={"gpu": 2}))
    assert asked_resources(gang, 4) == {"gpu": 2}
    assert asked_memory_gib(gang, 4) == 10.0


def test_a_job_without_parts_asks_for_its_units() -> None:
    job = JobSubmitted(nodes=4, memory_gib_per_unit=2.0, resources_per_unit={"gpu": 2})
    assert asked_resources(job, 3) == {"gpu": 6}
    assert asked_memory_gib(job, 3) == 6.0


def test_a_part_is_the_same_behind_its_message() -> None:
    part = JobPart(5, 2, 3, 1.5, GPUS, ("batch",), "ib", ("n1",), ("n2",))
    assert parts_of(JobSubmitted(parts=[part_message(part)])) == (part,)


def gang_of(*parts: JobPart) -> Job:
    nodes = sum(part.nodes for part in parts)
    return Job("g", 1, "", "ada", "physics", nodes, 60.0, "c1", False, 0.0, parts=parts)


@pytest.mark.parametrize(
    ("field", "parts"),
    [
        (
            "nodes_excluded",
            [JobPart(1, nodes_excluded=(f"n{at}-[0-99999]",)) for at in range(16)],
        ),
        ("nodes_wanted", [JobPart(1, nodes_wanted=(f"n{at}-[0-8999]",)) for at in range(12)]),
        ("nodes_wanted", [JobPart(1, nodes_wanted=(f"n{at}-[0-5999]",)) for at in range(16)]),
        ("nodes_excluded", [JobPart(1, nodes_excluded=(f"n{at}" * 60,)) for at in range(30)]),
    ],
    ids=["names", "wanted names", "more than its nodes", "characters"],
)
def test_parts_that_name_more_than_one_job_may_are_refused_before_a_name_is_made(
    field: str, parts: list[JobPart], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(job, "expand", made.append)
    with pytest.raises(RejectedError) as refused:
        gang_of(*parts)
    assert refused.value.field == field
    assert "name fewer" in str(refused.value)
    assert not made


def test_a_part_with_a_wrong_host_list_is_refused_with_the_name_of_the_field() -> None:
    for wrong in ("n[0-100000]", "n[", "n[2-1]"):
        with pytest.raises(RejectedError) as refused:
            gang_of(JobPart(1), JobPart(1, nodes_excluded=(wrong,)))
        assert refused.value.field == "nodes_excluded"


def test_parts_may_name_together_what_one_job_may() -> None:
    parts = [JobPart(1, nodes_excluded=(f"n{at}-[0-49999]",)) for at in range(2)]
    assert gang_of(*parts).nodes == 2


def test_names_of_nodes_are_kept_up_to_a_number() -> None:
    named = job._NamedNodes()
    small = named.of(("n[1-2]",))
    assert named.of(("n[1-2]",)) is small
    for at in range(4):
        named.of((f"m{at}-[0-99999]",))
    assert sum(map(len, named._known.values())) <= MOST_NODES
    for at in range(5_000):
        named.of((f"m{at}",))
    assert len(named._known) <= MOST_NODES // 100
