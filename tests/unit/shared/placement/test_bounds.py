"""Jobs and clusters at the bounds of every quantity are weighed, started and promised nodes."""

from typing import Any

from coplace_client.bounds import WALLTIME_S
from shared.domain.eamc_policy import Policy
from shared.placement.candidates.candidate import Rules
from shared.placement.processor import Placement
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import round_of, submitted


def test_a_limit_on_a_very_slow_cluster_is_at_most_the_longest_walltime() -> None:
    processor = Placement({}, Rules(Policy.BASE), 7.0)
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
