"""Nodes that are switched off: they come last, boot for a job, and a start waits for that."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import NodePowerDeclared
from coplace.v1.jobs_pb2 import Part
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.placement_service_pb2 import (
    NODE_STATE_ALLOCATED,
    NODE_STATE_BOOTING,
    NODE_STATE_DRAINED,
    NODE_STATE_OFF,
)

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.placement.state.node_power import ALL_ON, SwitchedNodes
from shared.streams.stages.stage import AlreadyAppliedError, OvertakenError
from tests.unit.shared.placement.region import (
    T0_US,
    Twins,
    answered,
    cancelled,
    declared,
    drained,
    end_us,
    event,
    feed,
    placement,
    round_of,
    started,
    started_on,
    submitted,
    undeclared,
    verdicts,
)

BOOT_S = 600.0
# Rounds last 30 s, and a start is overdue after 300 s, or these and the boot.
OVERDUE = 11
OVERDUE_AFTER_BOOT = 31


def power(*off: str, time_us: int = T0_US, booting: tuple[str, ...] = (), **changes: Any) -> Event:
    """The nodes of p1 that are off and that boot; all others are on."""
    values: dict[str, Any] = {"cluster": "p1", "boot_s": BOOT_S, "declared_at_us": time_us}
    payload = NodePowerDeclared(off=off, booting=booting, **(values | changes))
    return event(f"power/{payload.cluster}/{time_us}", payload, time_us)


def job(name: str, **asked: Any) -> Event:
    return submitted(name, T0_US + 2, **({"clusters": ["p1"]} | asked))


def shared_job(name: str, **asked: Any) -> Event:
    """One for which nodes are counted in parts."""
    return job(name, **({"cores_per_unit": 48, "shareable": True} | asked))


def nodes_of(decided: list[PlacementDecided]) -> dict[str, list[int]]:
    return {each.job_id: list(each.node_indices) for each in decided if each.node_indices}


def boots_of(decided: PlacementDecided) -> tuple[list[str], float]:
    return list(decided.booting), decided.boot_s


@pytest.mark.parametrize("of", [job, shared_job])
def test_nodes_that_are_on_come_first_then_those_that_boot_and_those_that_are_off_last(
    of: Any,
) -> None:
    made = placement()
    there = power("p1-0000", "p1-0001", booting=("p1-0002",))
    assert nodes_of(round_of(made, 0, there, of("a"), of("b"), of("c"))) == {
        "a": [3],
        "b": [2],
        "c": [0],
    }


def test_a_gang_takes_nodes_that_are_off_last() -> None:
    made = placement()
    parts = [Part(units=1, cores_per_unit=1), Part(units=1, cores_per_unit=2)]
    found = round_of(made, 0, power("p1-0001"), job("a", nodes=2, parts=parts))
    assert nodes_of(found) == {"a": [0, 2]}


def test_a_job_that_fits_only_on_nodes_that_are_off_starts_at_once_and_says_that_they_boot() -> (
    None
):
    made = placement()
    off = power("p1-[0001-0003]")
    [decided] = round_of(made, 0, off, job("a", nodes=2, walltime_s=100.0))
    assert nodes_of([decided]) == {"a": [0, 1]}
    assert boots_of(decided) == (["p1-0001"], BOOT_S)
    assert decided.start_by_us == end_us(0) + 900_000_000
    allocation = answered(made, "a").allocation
    assert list(allocation.booting) == ["p1-0001"]
    assert allocation.since_us == end_us(0)
    assert allocation.boots_until_us == end_us(0) + 600_000_000
    assert allocation.ends_by_us == end_us(0) + 700_000_000
    assert allocation.start_by_us == decided.start_by_us


def test_a_start_on_nodes_that_are_on_is_as_ever() -> None:
    made = placement()
    [decided] = round_of(made, 0, power("p1-0003"), job("a"))
    assert boots_of(decided) == ([], 0.0)
    assert decided.start_by_us == end_us(0) + 300_000_000
    assert answered(made, "a").allocation.boots_until_us == 0


def test_a_start_that_waits_for_a_boot_is_withdrawn_later_by_as_much() -> None:
    made = placement()
    round_of(made, 0, power("p1-[0000-0003]"), job("a"))
    assert made.wake_us() == end_us(0) + 900_001_000
    assert round_of(made, OVERDUE_AFTER_BOOT - 1) == []
    assert verdicts(round_of(made, OVERDUE_AFTER_BOOT)) == [("a", "withdrawn")]


def test_a_confirmed_start_counts_from_when_its_manager_says() -> None:
    made = placement()
    [decided] = round_of(made, 0, power("p1-[0000-0003]"), job("a", walltime_s=100.0))
    at_us = end_us(0) + 50_000_000
    round_of(made, 2, started(decided, started_at_us=at_us))
    allocation = answered(made, "a").allocation
    assert (allocation.since_us, allocation.ends_by_us) == (at_us, at_us + 100_000_000)
    assert not allocation.booting
    assert not allocation.boots_until_us


def test_a_node_that_is_switched_off_between_grant_and_start_is_waited_for_once() -> None:
    """Other declarations follow while it boots."""
    made = placement()
    round_of(made, 0, job("a", nodes=4))
    round_of(made, 1, power("p1-0002", time_us=end_us(0) + 1))
    round_of(made, 2, power(booting=("p1-0002",), time_us=end_us(1) + 1))
    assert round_of(made, OVERDUE_AFTER_BOOT - 1) == []
    assert verdicts(round_of(made, OVERDUE_AFTER_BOOT)) == [("a", "withdrawn")]


def test_a_job_behind_one_that_boots_is_reserved_for_when_that_ends() -> None:
    made = placement(policy=Policy.BASE)
    jobs = [job("a", nodes=4, walltime_s=100.0), job("b", nodes=4)]
    round_of(made, 0, power("p1-0000"), *jobs)
    assert answered(made, "b").reservation.start_at_us == end_us(0) + 700_000_000


@pytest.mark.parametrize(("walltime_s", "starts"), [(900.0, False), (300.0, True)])
def test_a_job_passes_on_a_node_that_boots_only_where_it_ends_before_what_is_reserved(
    walltime_s: float, starts: bool
) -> None:
    """The one that waits gets all nodes after 1,000 s."""
    made = placement(policy=Policy.BASE)
    [first] = round_of(made, 0, power("p1-0003"), job("a", nodes=3, walltime_s=1030.0))
    assert nodes_of([first]) == {"a": [0, 1, 2]}
    found = round_of(made, 1, started(first), job("b", nodes=4), job("c", walltime_s=walltime_s))
    assert ("c" in started_on(found)) is starts


def test_a_cluster_whose_nodes_are_all_off_comes_behind_one_that_runs_the_job_sooner() -> None:
    """Its boots count in the time and the energy that clusters are compared by."""
    on, off = placement(), placement()
    on_which = started_on(round_of(on, 0, submitted("a")))
    assert on_which == {"a": "p1"}
    assert started_on(round_of(off, 0, power("p1-[0000-0003]"), submitted("a"))) == {"a": "p2"}
    costly = power("p1-[0000-0003]", boot_s=0.001, boot_energy_j=1e9)
    assert started_on(round_of(placement(), 0, costly, submitted("a"))) == {"a": "p2"}
    cheap = power("p1-[0000-0003]", boot_s=0.001)
    assert started_on(round_of(placement(), 0, cheap, submitted("a"))) == {"a": "p1"}


def test_jobs_that_wait_are_compared_anew_when_nodes_are_on_again() -> None:
    made = placement()
    kept = [submitted(name, T0_US + 1, clusters=[name], nodes=4) for name in ("p1", "p2")]
    round_of(made, 0, power("p1-[0000-0003]"), *kept, submitted("a", T0_US + 2))
    first = [each.candidate.cluster for each in answered(made, "a").clusters]
    eff = {each.candidate.cluster: each.candidate.part_eff for each in answered(made, "a").clusters}
    assert set(first) == {"p1", "p2"}
    assert eff["p1"] > eff["p2"]
    round_of(made, 1, power(time_us=end_us(0) + 1))
    eff = {each.candidate.cluster: each.candidate.part_eff for each in answered(made, "a").clusters}
    assert eff["p1"] < eff["p2"]


def test_of_declarations_the_newest_counts_and_names_that_nobody_knows_do_not() -> None:
    made = placement()
    newest = power("p1-[0000-0001]", "else", time_us=T0_US + 2, cluster="p1")
    feed(made, [newest])
    with pytest.raises(AlreadyAppliedError):
        list(made.handle(newest))
    with pytest.raises(OvertakenError):
        list(made.handle(power("p1-0003", time_us=T0_US + 1)))
    with pytest.raises(RejectedError, match="not declared"):
        list(made.handle(power("p1-0003", cluster="p9")))
    assert nodes_of(round_of(made, 0, job("a", nodes=3))) == {"a": [0, 2, 3]}


def test_a_cluster_that_was_undeclared_has_all_nodes_on_when_it_is_there_again() -> None:
    made = placement()
    feed(made, [power("p1-0000"), undeclared("p1", T0_US + 1)])
    round_of(made, 0)
    assert nodes_of(round_of(made, 1, declared("p1", 4, T0_US + 2), job("a"))) == {"a": [0]}


def test_what_is_off_is_the_same_after_each_kill() -> None:
    twins = Twins(placement)
    twins.round_of(0, power("p1-[0000-0002]"), job("a", nodes=2), job("b"))
    twins.kill()
    twins.round_of(1, job("c"), power(booting=("p1-0000",), time_us=end_us(0) + 1))
    twins.kill()
    twins.round_of(OVERDUE, job("d", nodes=2), cancelled("b", end_us(OVERDUE) - 1))
    twins.kill()
    assert verdicts(twins.round_of(OVERDUE_AFTER_BOOT)) == [("a", "withdrawn"), ("c", "withdrawn")]


def test_a_node_that_boots_is_on_sooner_than_one_that_is_off() -> None:
    found = SwitchedNodes(frozenset({1}), frozenset({2}), BOOT_S)
    assert [found.level(node) for node in range(3)] == [0, 2, 1]
    assert found.sets == (0b100, 0b010)
    assert (found.boots([0, 1]), found.boot_time_s([0, 1])) == ([1], BOOT_S)
    assert (found.boots([0]), found.boot_time_s([0])) == ([], 0.0)
    assert ALL_ON.sets == ()


def test_nodes_that_are_off_or_boot_are_listed_as_such_with_who_waits_for_them() -> None:
    made = placement()
    round_of(made, 0, power("p1-[0000-0001]", booting=("p1-0002",)), job("a", nodes=3))
    feed(made, [drained("p1", T0_US + 3, "p1-0001")])
    groups = made.queries.nodes("p1").groups
    listed = [(*group.nodes, group.state, *group.job_ids) for group in groups]
    assert listed == [
        ("p1-0000", NODE_STATE_OFF, "a"),
        ("p1-0001", NODE_STATE_DRAINED),
        ("p1-0002", NODE_STATE_BOOTING, "a"),
        ("p1-0003", NODE_STATE_ALLOCATED, "a"),
    ]
    feed(made, [power(time_us=T0_US + 9)])
    states = [group.state for group in made.queries.nodes("p1").groups]
    assert {NODE_STATE_OFF, NODE_STATE_BOOTING}.isdisjoint(states)
