"""Nodes are a cluster of Coplace, in an order that lasts."""

from dataclasses import replace

import pytest

from shared.catalogue.contents.check import check_contents
from shared.kubernetes.nodes import (
    MixedNodesError,
    age_of,
    cluster_declared,
    is_worker,
    trimmed_node,
    why_out,
)
from tests.unit.shared.kubernetes.objects import TRAITS, node


def test_alike_nodes_that_are_together_are_a_class_with_the_watts_that_are_known() -> None:
    gpus = node("n3", status={"allocatable": {"nvidia.com/gpu": "2"}})
    known = replace(TRAITS, tdp_w={"gpu": 400.0, "fpga": 90.0}, nameplate_power_w=1500.0)
    for traits, tdp_w, nameplate_w in ((TRAITS, {}, 0), (known, {"gpu": 400.0}, 1500)):
        found = cluster_declared([node("n1"), node("n2"), gpus], traits)
        check_contents(found)
        assert (found.nodes, found.cores_per_node, list(found.node_names)) == (3, 36, ["n[1-3]"])
        assert [(each.nodes, dict(each.resources)) for each in found.node_classes] == [
            (2, {"pods": 110}),
            (1, {"gpu": 2, "gpu:nvidia.com": 2, "pods": 110}),
        ]
        assert [dict(each.tdp_w) for each in found.node_classes] == [{}, tdp_w]
        assert found.nameplate_power_w == nameplate_w
        assert found.shares_unpredicted
    assert cluster_declared([gpus], replace(TRAITS, processors_tdp_w=300.0)).processors_tdp_w == 300


def test_a_node_that_does_not_say_how_many_pods_it_takes_takes_those_of_kubelets() -> None:
    said, unsaid = node("n1", status={"allocatable": {"pods": "40"}}), node("n2")
    del unsaid["status"]["allocatable"]["pods"]
    found = cluster_declared([said, unsaid], TRAITS)
    assert [each.resources["pods"] for each in found.node_classes] == [40, 110]


def test_parts_of_a_core_are_nobodys() -> None:
    assert cluster_declared([node("n1", "35900m")], TRAITS).cores_per_node == 35


def test_nodes_of_several_sizes_are_no_cluster() -> None:
    with pytest.raises(MixedNodesError, match="alpha has nodes of 36, 64 cores"):
        cluster_declared([node("n1"), node("n2", "64")], TRAITS)
    with pytest.raises(MixedNodesError, match="no node"):
        cluster_declared([], TRAITS)


def test_a_node_that_comes_changes_no_index() -> None:
    old, new = node("n9"), node("n1", metadata={"creationTimestamp": "2026-02-01T00:00:00Z"})
    assert sorted([new, old], key=age_of) == [old, new]


def test_taints_of_an_administrator_keep_jobs_away_and_those_of_a_state_do_not() -> None:
    own = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    state = [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
    assert not is_worker(node("n1", spec={"taints": own}))
    assert is_worker(node("n1", spec={"taints": state}))


def test_a_node_that_takes_no_pods_says_why() -> None:
    unknown = [{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting"}]
    assert why_out(node("n1")) == ""
    assert why_out(node("n1", spec={"unschedulable": True})) == "cordoned in Kubernetes"
    assert why_out(node("n1", status={"conditions": unknown})).endswith("Kubelet stopped posting")
    assert why_out(node("n1", status={"conditions": []})).endswith("nothing is known of it")


def test_of_a_node_is_kept_what_is_read() -> None:
    whole = node("n1", status={"images": [{"names": ["a" * 1000]}] * 50}, metadata={"uid": "u"})
    kept = trimmed_node({**whole, "metadata": {**whole["metadata"], "managedFields": [{}]}})
    assert "images" not in kept["status"]
    assert "managedFields" not in kept["metadata"]
    assert cluster_declared([kept], TRAITS) == cluster_declared([whole], TRAITS)
    assert why_out(kept) == why_out(whole) == ""
    assert trimmed_node({"metadata": 7})["metadata"] == 7
