"""Priorities, memory, binaries and bounds: what else decides where a job may go, and when."""

from math import inf
from typing import Any, cast

import pytest
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobSubmitted

from coplace_client.bounds import NODE_POWER_W, WALLTIME_S
from coplace_client.errors import RejectedError
from shared.catalogue.payloads.domain_types import cluster_of, job_of
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.placement.state.candidate import draw_mw
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import (
    APPS,
    T0_US,
    declared,
    end_us,
    feed,
    finished,
    on,
    placement,
    round_of,
    started,
    submitted,
)


def heterogeneous() -> Placement:
    """p1: 4 nodes of 192 GiB, x86_64; p2: 4 nodes of 384 GiB, aarch64."""
    processor = placement()
    p1 = declared("p1", 4, T0_US + 1, memory_gib_per_node=192, architecture="x86_64")
    p2 = declared("p2", 4, T0_US + 1, memory_gib_per_node=384, architecture="aarch64")
    feed(processor, [p1, p2])
    return processor


def test_of_two_that_wait_the_higher_priority_goes_first_and_then_who_came_first() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=4))
    jobs = [
        submitted("low", T0_US + 1, nodes=4, priority=-3),
        submitted("first", T0_US + 2, nodes=4, priority=7),
        submitted("second", T0_US + 3, nodes=4, priority=7),
    ]
    round_of(processor, 1, *jobs)
    order = []
    for number, ended in enumerate(("a", "first", "second"), 2):
        order += [d.job_id for d in round_of(processor, number, finished(ended, end_us(number)))]
    assert order == ["first", "second", "low"]


def test_a_priority_counts_within_a_tier() -> None:
    processor = placement(policy=Policy.PRIORITY_INC)
    round_of(processor, 0, submitted("a", nodes=4), submitted("b", nodes=4))
    prefers_p2 = submitted("c", T0_US + 1, nodes=4, app_id=APPS[7])
    prefers_p1 = submitted("d", T0_US + 2, nodes=4, priority=100)
    round_of(processor, 1, prefers_p2, prefers_p1)
    [start] = round_of(processor, 2, finished("b", end_us(1)))
    assert (start.job_id, start.cluster) == ("c", "p2")


def test_where_its_memory_needs_more_nodes_than_there_are_it_is_told_so() -> None:
    [decided] = round_of(heterogeneous(), 0, submitted("a", memory_gib=900))
    assert (decided.cluster, len(decided.node_indices)) == ("p2", 3)
    assert on(decided, "p1").constraint == "needs 5 nodes for its 900 GiB, the cluster has 4"


def test_more_nodes_cost_more_energy() -> None:
    """App 0 is faster and thriftier on p1, until it takes twice the nodes there."""
    [best] = round_of(heterogeneous(), 0, submitted("a"))
    [decided] = round_of(heterogeneous(), 0, submitted("a", memory_gib=384))
    assert (best.cluster, decided.cluster) == ("p1", "p2")


def test_a_job_goes_where_it_has_a_binary() -> None:
    [decided] = round_of(heterogeneous(), 0, submitted("a", architectures=["aarch64", "riscv64"]))
    assert decided.cluster == "p2"
    assert on(decided, "p1").constraint == (
        "has binaries for aarch64 or riscv64, the cluster's architecture is x86_64"
    )


def test_a_job_that_shares_nodes_goes_where_half_of_one_is_a_core_at_least() -> None:
    processor = placement()
    feed(processor, [declared("p1", 4, T0_US + 1, cores_per_node=1)])
    [start] = round_of(processor, 0, submitted("a", shareable=True))
    assert (start.cluster, start.cores_per_node) == ("p2", 18)


def test_nodes_are_those_that_a_cluster_declared_by_name() -> None:
    processor = placement(policy=Policy.BASE)
    feed(processor, [declared("p1", 4, T0_US + 1, node_names=["n[01-03]", "fat1"])])
    [decided] = round_of(processor, 0, submitted("a", nodes=3))
    assert [*decided.node_names] == ["n[01-03]"]
    with pytest.raises(RejectedError, match="nodes"):
        processor.handle(started(decided))
    elsewhere = started(decided, nodes=["n[03,01]", "fat1"])
    [other] = round_of(processor, 1, elsewhere, submitted("b"))
    assert [*other.node_names] == ["n02"]


@pytest.mark.parametrize("asked", [{"memory_gib": 1000.0}, {"memory_gib_per_unit": 1000.0}])
def test_memory_that_a_cluster_does_not_declare_is_told_to_be_unknown(
    asked: dict[str, Any],
) -> None:
    processor = placement(policy=Policy.BASE)
    feed(processor, [declared("p2", 4, T0_US + 1, memory_gib_per_node=1024)])
    [decided] = round_of(processor, 0, submitted("a", T0_US + 2, **asked))
    assert {c.cluster: c.memory_unknown for c in decided.candidates} == {"p1": True, "p2": False}
    [silent] = round_of(processor, 1, submitted("b", end_us(0)))
    assert not any(candidate.memory_unknown for candidate in silent.candidates)


def test_a_limit_on_a_very_slow_cluster_is_at_most_the_longest_walltime() -> None:
    processor = Placement({}, PolicySettings(Policy.BASE), 7.0)
    fast = region.declared("p1", cores_per_node=10_000, pstates_ghz=[10.0])
    slow = region.declared(
        "p2", 1, cores_per_node=1, pstates_ghz=[0.1], peak_bandwidth_gbps=0.1, architecture="arm"
    )
    region.feed(processor, [fast, slow])
    job: dict[str, Any] = {"walltime_s": WALLTIME_S.most, "architectures": ["arm"], "app_id": ""}
    started, queued = round_of(processor, 0, submitted("a", **job), submitted("b", **job))
    assert started.cluster == "p2"
    assert started.walltime_s == WALLTIME_S.most
    promised_s = (queued.reservation.start_at_us - queued.decided_at_us) / 1e6
    assert 0 < promised_s <= WALLTIME_S.most


@pytest.mark.parametrize("node_w", [1e30, inf])
def test_a_prediction_beyond_what_any_node_draws_counts_as_that(node_w: float) -> None:
    """As of coefficients that are pushed for another machine: it stopped placement."""
    job = job_of(cast("JobSubmitted", region.submitted("one").payload))
    cluster = cluster_of(cast("ClusterDeclared", region.declared("p1").payload))
    assert draw_mw(job, cluster, node_w, 2) == draw_mw(job, cluster, NODE_POWER_W.most, 2) > 0
