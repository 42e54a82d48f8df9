"""Gangs in the built-in workload."""

from lab.workloads.gangs import with_gangs
from tests.unit.lab.emulator.runs import request


def test_a_share_of_the_jobs_of_several_nodes_are_gangs_of_as_many() -> None:
    asked = [request(n, nodes=1 + n % 4, features="ib" if n % 2 else "") for n in range(200)]
    made = with_gangs(asked, 1, 0.5)
    gangs = [(old, new) for old, new in zip(asked, made, strict=True) if new.parts]
    assert 50 < len(gangs) < 100
    for old, new in gangs:
        assert old.nodes > 1
        assert sum(part.nodes for part in new.parts) == new.nodes == old.nodes
        assert new.parts[0].features == old.features
        assert not new.features


def test_a_longer_workload_begins_with_the_same_gangs() -> None:
    asked = [request(n, nodes=2) for n in range(20)]
    assert with_gangs(asked, 1, 0.5)[:10] == with_gangs(asked[:10], 1, 0.5)


def test_jobs_that_share_their_nodes_are_no_gangs() -> None:
    asked = [request(n, nodes=2, shareable=True) for n in range(20)]
    assert with_gangs(asked, 1, 1.0) == asked
