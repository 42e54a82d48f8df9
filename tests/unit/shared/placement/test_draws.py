"""What a job would draw beyond idle, as it counts under caps."""

from math import inf
from typing import cast

import pytest
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobSubmitted

from coplace_client.bounds import NODE_POWER_W
from shared.catalogue.payloads.domain_types import cluster_of, job_of
from shared.placement.candidates.candidate import draw_mw
from tests.unit.shared.placement import region


@pytest.mark.parametrize("node_w", [1e30, inf])
def test_a_prediction_beyond_what_any_node_draws_counts_as_that(node_w: float) -> None:
    """As coefficients that are pushed for another machine come to: it stopped placement."""
    job = job_of(cast("JobSubmitted", region.submitted("one").payload))
    cluster = cluster_of(cast("ClusterDeclared", region.declared("p1").payload))
    assert draw_mw(job, cluster, node_w, 2) == draw_mw(job, cluster, NODE_POWER_W.most, 2) > 0
