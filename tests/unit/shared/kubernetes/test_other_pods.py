"""What pods that Coplace does not start ask for is not there for its Jobs."""

from fractions import Fraction
from typing import Any

from shared.catalogue.contents.check import check_contents
from shared.catalogue.payloads.domain_types import cluster_of
from shared.kubernetes.nodes import cluster_declared
from shared.kubernetes.other_pods import OtherPods, trimmed_other_pod
from shared.scheduling.problem import NodeTable
from tests.unit.shared.kubernetes.objects import TRAITS, node

GIB = 1024**3


def pod(uid: str, node_name: str = "n1", phase: str = "Running", **requests: str) -> Any:
    container = {"resources": {"requests": requests}}
    return trimmed_other_pod(
        {
            "metadata": {"uid": uid, "name": uid},
            "spec": {"nodeName": node_name, "containers": [container]},
            "status": {"phase": phase},
        }
    )


def test_pods_take_what_they_ask_for_of_their_node_until_they_are_over() -> None:
    changes: list[int] = []
    others = OtherPods(lambda: changes.append(1))
    others.replace("alpha", [pod("a", cpu="250m", memory="1Gi"), pod("b", cpu="1", memory="100Mi")])
    # In steps.
    found = {"cpu": Fraction(13, 10), "memory": Fraction(5, 4) * GIB, "pods": Fraction(2)}
    assert others.by_node() == {"n1": found}
    others.changed("alpha", pod("b", cpu="1", memory="100Mi"))
    assert len(changes) == 1
    others.changed("alpha", pod("b", phase="Succeeded", cpu="1", memory="100Mi"))
    others.changed("alpha", pod("c", node_name="", cpu="8"))
    others.deleted("alpha", pod("c", node_name="", cpu="8"))
    assert others.by_node() == {"n1": {"cpu": Fraction(3, 10), "memory": GIB, "pods": Fraction(1)}}
    others.deleted("alpha", pod("a"))
    assert (others.by_node(), len(changes)) == ({}, 3)


def test_a_pod_that_cannot_be_read_or_asks_for_nothing_takes_its_place_alone() -> None:
    others = OtherPods(list)
    others.replace("alpha", [pod("a"), pod("b", cpu="much"), trimmed_other_pod({})])
    assert others.by_node() == {"n1": {"pods": Fraction(2)}}


def test_jobs_have_what_is_left_of_each_node() -> None:
    nodes = [
        node(name, status={"allocatable": {"nvidia.com/gpu": "4"}}) for name in ("n1", "n2", "n3")
    ]
    taken = {
        "n1": {"cpu": Fraction(3, 2), "memory": Fraction(2 * GIB), "nvidia.com/gpu": Fraction(1)},
        "n3": {"cpu": Fraction(40), "memory": Fraction(400 * GIB), "nvidia.com/gpu": Fraction(4)},
    }
    message = cluster_declared(nodes, TRAITS, taken=taken)
    check_contents(message)
    assert message.cores_per_node == 36
    table = NodeTable.build(cluster_of(message))
    assert table.names[:3] == ("cores", "memory_mib", "gpu")
    assert table.amounts[0].tolist() == [34_500, 36_000, 1]
    assert table.amounts[1].tolist() == [190 * 1024, 192 * 1024, 103]
    assert table.amounts[2].tolist() == [3, 4, 0]


def test_many_nodes_that_differ_are_a_cluster_all_the_same() -> None:
    """A declaration has 64 classes at most, of nodes that follow each other."""
    nodes = [node(f"n{index:03}", "64") for index in range(200)]
    by_turns = {f"n{index:03}": {"cpu": Fraction(index % 3)} for index in range(200)}
    found = cluster_declared(nodes, TRAITS, taken=by_turns)
    check_contents(found)
    cluster_of(found)
    assert [(each.nodes, each.millicores_per_node) for each in found.node_classes] == [
        (67, 0),
        (66, 62_000),
        (67, 63_000),
    ]
    all_other = {f"n{index:03}": {"cpu": Fraction(index, 10)} for index in range(200)}
    found = cluster_declared(nodes, TRAITS, taken=all_other)
    cluster_of(found)
    assert {each.millicores_per_node for each in found.node_classes} == {0, 32_768}


def test_many_nodes_of_which_others_have_nearly_all_are_a_cluster_all_the_same() -> None:
    nodes = [node(f"n{index:03}", "64") for index in range(200)]
    left_gib = {f"n{index:03}": Fraction(100 + index, 1000) for index in range(200)}
    all_taken = {
        name: {"cpu": Fraction(64), "memory": (192 - left) * GIB} for name, left in left_gib.items()
    }
    found = cluster_declared(nodes, TRAITS, taken=all_taken)
    check_contents(found)
    cluster_of(found)
    assert [(each.memory_gib, each.millicores_per_node) for each in found.node_classes] == [
        (0.1, 1),
        (0.125, 1),
        (0.25, 1),
    ]
