"""A job that waits for a cluster to be declared is one that placement would reject."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import ClusterDeclared, NodeClass, Partition
from coplace.v1.jobs_pb2 import JobSubmitted
from hypothesis import given, settings
from hypothesis import strategies as st

from services.kubernetes.model.facts import submission_of
from services.kubernetes.model.fitting import fits
from shared.catalogue.payloads.domain_types import cluster_of, job_of
from shared.placement.evaluate.misfits import misfits
from tests.unit.services.kubernetes.objects import TERMS, job

_GPU = "nvidia.com/gpu"


def cluster(*kinds: NodeClass, **more: Any) -> ClusterDeclared:
    """One of nodes of 8 cores, n0 and so on."""
    kinds = kinds or (NodeClass(nodes=2, memory_gib=64, resources={"pods": 110}),)
    nodes = sum(each.nodes for each in kinds)
    fields = {
        "cluster": "alpha",
        "site": "north",
        "node_model": "gold-6254",
        "nodes": nodes,
        "cores_per_node": 8,
        "pstates_ghz": [2.1],
        "idle_power_w": 110,
        "peak_bandwidth_gbps": 140,
        "architecture": "north/kubernetes",
        "node_names": [f"n[0-{nodes - 1}]"],
        "node_classes": kinds,
    }
    return ClusterDeclared(**{**fields, **more})


def asked(**more: Any) -> JobSubmitted:
    found = submission_of(job(), TERMS)
    found.ClearField("clusters")
    found.MergeFrom(JobSubmitted(**more))
    return found


@pytest.mark.parametrize(
    ("units", "is_fitting"),
    [(1, True), (8, True), (9, False)],  # of two cores each, on two nodes of eight
)
def test_all_units_of_a_job_have_to_fit(units: int, *, is_fitting: bool) -> None:
    assert fits(asked(nodes=units), cluster()) is is_fitting


def test_what_selects_labels_fits_where_nodes_have_them() -> None:
    plain = NodeClass(nodes=4, memory_gib=64, resources={"pods": 110})
    labelled = NodeClass(nodes=1, memory_gib=64, resources={"pods": 110}, features=["site=beta"])
    assert not fits(asked(features="site=beta"), cluster(plain))
    assert fits(asked(features="site=beta"), cluster(plain, labelled))
    assert not fits(asked(features="site=beta", nodes=5), cluster(plain, labelled))


kinds = st.builds(
    NodeClass,
    nodes=st.integers(1, 3),
    memory_gib=st.sampled_from([4, 16]),
    resources=st.sampled_from([{"pods": 2}, {"pods": 110, _GPU: 1}]),
    features=st.sampled_from([[], ["a"], ["a", "b"]]),
    millicores_per_node=st.sampled_from([0, 3000]),
)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterDeclared:
    of = draw(st.lists(kinds, min_size=1, max_size=3))
    nodes = sum(each.nodes for each in of)
    partitions = []
    if draw(st.booleans()):
        few = f"n[0-{draw(st.integers(0, nodes - 1))}]"
        partitions = [
            Partition(name="untainted", nodes=[few], default=True),
            Partition(name="tolerated", nodes=draw(st.sampled_from([[few], []]))),
        ]
    return cluster(*of, partitions=partitions)


jobs = st.builds(
    asked,
    nodes=st.integers(1, 12),
    features=st.sampled_from(["", "a", "b", "a&b", "a|c"]),
    partitions=st.sampled_from([[], ["tolerated"]]),
    resources_per_unit=st.sampled_from([{"pods": 1}, {"pods": 1, _GPU: 1}]),
    units_per_node=st.integers(0, 2),
    memory_gib_per_unit=st.sampled_from([2.0, 8.0]),
)


@given(job=jobs, declared=clusters())
@settings(max_examples=300, deadline=None)
def test_what_fits_is_what_placement_does_not_reject(
    job: JobSubmitted, declared: ClusterDeclared
) -> None:
    assert fits(job, declared) is not bool(misfits(job_of(job), [cluster_of(declared)]))
