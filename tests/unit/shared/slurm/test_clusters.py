"""The clusters that a Slurm is, by what is declared of them."""

from coplace.v1.control_pb2 import ClusterDeclared, Partition

from shared.catalogue.event import Event
from shared.slurm.clusters import ClusterMap, DeclaredClusters


def declared(cluster: str, nodes: str, *partitions: str, model: str = "m0") -> Event:
    found = ClusterDeclared(cluster=cluster, node_names=nodes.split("+"), node_model=model)
    found.partitions.extend(Partition(name=name) for name in partitions)
    return Event("e", "north", 1, "s", found)


def known(*events: Event) -> DeclaredClusters:
    found = DeclaredClusters(["gold", "rome"])
    for event in events:
        found.fold(event)
    return found


def test_a_partition_of_several_clusters_is_of_the_first_and_a_node_of_its_own() -> None:
    found = known(
        declared("rome", "b[1-2]", "both", "big"), declared("gold", "a1", "both")
    ).clusters
    assert [found.where_asked([name]) for name in ("both", "big", "none")] == [
        "gold",
        "rome",
        "gold",
    ]
    assert [found.where_run([name]) for name in ("a1", "b2", "c1")] == ["gold", "rome", "gold"]


def test_a_node_that_is_declared_no_more_stays_that_of_its_cluster() -> None:
    before, after = declared("rome", "b[1-2]"), declared("rome", "b1", model="m1")
    found = known(declared("gold", "a1"), before, after).clusters
    assert (found.where_run(["b2"]), found.node_models["rome"]) == ("rome", "m1")


def test_a_node_that_moved_is_of_the_cluster_that_has_it_now() -> None:
    found = known(declared("gold", "a[1-2]"), declared("rome", "b1"), declared("gold", "a1"))
    found.fold(declared("rome", "a2+b1"))
    assert found.clusters.where_run(["a2"]) == "rome"


def test_other_clusters_are_left_out_and_those_that_nobody_declared_are_missing() -> None:
    found = known(declared("other", "a1"))
    assert (found.missing, found.clusters) == (["gold", "rome"], ClusterMap())
    found.fold(declared("rome", "b1"))
    assert found.missing == ["gold"]
