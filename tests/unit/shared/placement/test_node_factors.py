"""Of the free nodes those that draw least are given away first."""

import pytest
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.prediction_pb2 import NodePowerPublished

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.payloads.domain_types import cluster_of, job_of
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord, PlacedRun
from shared.placement.state.occupancy import Occupancy
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US, placement, round_of, saved, submitted


def occupancy(factors: dict[int, float], nodes: int = 4) -> Occupancy:
    payload = region.declared("p1", nodes=nodes).payload
    declared = ClusterDeclared.FromString(payload.SerializeToString())
    found = Occupancy(cluster_of(declared))
    found.prefer(factors)
    return found


def test_free_nodes_that_draw_less_go_first() -> None:
    found = occupancy({0: 1.02, 2: 0.97})
    assert found.best_free(1) == (2,)
    assert found.best_free(3) == (1, 2, 3)
    job = job_of(JobSubmitted.FromString(region.submitted("one").payload.SerializeToString()))
    found.hold(JobRecord(job, 0, "", run=PlacedRun(JobAllocation("p1", (2,), 10.0, 10.0))))
    assert found.best_free(2) == (1, 3)
    found.prefer({})
    assert found.best_free(2) == (0, 1)


def test_nodes_beyond_the_cluster_are_never_given_away() -> None:
    assert occupancy({9: 0.5}).best_free(5) == (0, 1, 2, 3)


def factors(names: list[str], values: list[float]) -> Event:
    payload = NodePowerPublished(
        version="node-power@0", clusters=["p1"] * len(names), nodes=names, factors=values
    )
    return region.event("node-power", region.sealed(payload), T0_US + 5)


def test_a_restart_and_a_new_declaration_keep_what_nodes_draw() -> None:
    """Of nodes that no cluster has nothing is kept."""
    processor = placement(policy=Policy.BASE)
    told = factors(["p2-0001", "p1-0002", "p1-0003"], [0.9, 0.98, 0.97])
    [first] = round_of(processor, 0, told, submitted("a"))
    again = Placement(saved(processor.changes()), PolicySettings(Policy.BASE), 7.0)
    region.feed(again, [region.declared("p1", 4, T0_US + 9)])
    [second] = round_of(again, 1, submitted("b"))
    assert [*first.node_indices, *second.node_indices] == [3, 2]


def test_a_cluster_that_is_declared_later_finds_its_factors() -> None:
    processor = Placement({}, PolicySettings(Policy.BASE), 7.0)
    region.feed(processor, [factors(["p1-0003"], [0.97])])
    region.feed(processor, region.models(4))
    [decided] = round_of(processor, 0, submitted("a"))
    assert list(decided.node_indices) == [3]


def test_nodes_that_are_named_anew_leave_factors_that_a_restart_can_read() -> None:
    processor = placement(policy=Policy.BASE)
    region.feed(processor, [factors(["p1-0003"], [0.97])])
    region.feed(processor, [region.declared("p1", 4, T0_US + 9, node_names=["n[0-3]"])])
    state = saved(processor.changes())
    for each in (processor, Placement(state, PolicySettings(Policy.BASE), 7.0)):
        [decided] = round_of(each, 1, submitted("a", T0_US + 10))
        assert list(decided.node_indices) == [0]


@pytest.mark.parametrize(
    ("names", "values"), [(["p1-0001"], []), (["p1-0001"], [0.0]), (["p1-0001"], [1e9])]
)
def test_factors_that_cannot_be_used_are_refused(names: list[str], values: list[float]) -> None:
    with pytest.raises(RejectedError):
        placement().handle(factors(names, values))
