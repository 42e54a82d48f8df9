"""What passes keep of the nodes of a cluster."""

from coplace.v1.control_pb2 import ClusterDeclared

from shared.catalogue.payloads.domain_types import cluster_of
from shared.domain.cluster import Cluster
from shared.placement.state.occupancy import Occupancy
from shared.scheduling import node_states
from shared.scheduling.problem import Kind, Shape
from shared.scheduling.sharing import Contention
from tests.unit.shared.placement import region

PART = Kind("lu", Shape((4, 0), exclusive=False, most_per_node=0))


def cluster() -> Cluster:
    payload = region.declared("p1", nodes=4).payload
    return cluster_of(ClusterDeclared.FromString(payload.SerializeToString()))


def rule() -> Contention:
    return Contention({"lu": 10.0}, 100.0, 40, None, 1.2)


def test_states_are_kept_while_the_same_may_be_beside_each_other() -> None:
    found, same = Occupancy(cluster()), rule()
    states = found.states(same)
    assert found.states(same) is states
    assert found.states(rule()) is not states


def test_states_begin_anew_with_the_numbers_of_groups() -> None:
    found, same = Occupancy(cluster()), rule()
    states = found.states(same)
    found.declare(cluster())
    assert found.states(same) is not states
    assert found.states(same).groups is found.capacity.groups


def test_states_begin_anew_where_they_are_many() -> None:
    found, same = Occupancy(cluster()), rule()
    states, most = found.states(same), node_states.MOST_KEPT
    empty = states.number(node_states.NodeState((40, 0), (40, 0), 0, 0, 0))
    for app in range(most + 1):
        states.units_in(states.units(PART._replace(app=str(app))), empty)
    assert states.is_full
    assert not found.states(same).is_full
